"""The allow-list: every command, function and word the parser knows, and what token each becomes."""

from __future__ import annotations

FUNCTIONS = frozenset(
    "sin cos tan cot sec csc arcsin arccos arctan arccot arcsec arccsc asin acos atan acot asec acsc sinh cosh tanh coth sech csch "
    "arcsinh arccosh arctanh asinh acosh atanh arsinh arcosh artanh ln log lg exp sqrt cbrt root abs gcd lcm max min floor ceil sgn sign "
    "binomial factorial gamma Re Im arg det conj".split()
)
CANONICAL = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "acot": "arccot", "asec": "arcsec", "acsc": "arccsc", "asinh": "arcsinh",
    "acosh": "arccosh", "atanh": "arctanh", "arsinh": "arcsinh", "arcosh": "arccosh", "artanh": "arctanh", "sgn": "sign",
    "binomial": "binom", "gamma": "gamma_fn", "tg": "tan", "ctg": "cot", "cosec": "csc", "sh": "sinh", "ch": "cosh", "th": "tanh",
    "arctg": "arctan", "arcctg": "arccot",
}  # fmt: skip
_GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron rho sigma tau upsilon phi chi psi omega "
    "Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"
).split()
_VARIANTS = {"varepsilon": "epsilon", "vartheta": "theta", "varphi": "phi", "varrho": "rho", "varsigma": "sigma", "varpi": "varpi"}
_SYMBOLS = "hbar ell nabla partial imath jmath aleph heartsuit spadesuit clubsuit diamondsuit star ast bullet triangle square zzz odot oplus otimes perp parallel dagger ddagger top bot wp mho sharp flat natural infinitesimal forall exists".split()
_SKIP = (
    "displaystyle textstyle scriptstyle limits nolimits quad qquad big Big bigg Bigg bigl Bigl biggl Biggl bigr Bigr biggr Biggr bigm "
    "hfill noindent thinspace medspace thickspace enspace negthinspace nonumber hline centering allowbreak boxed"
).split()
_FONTS = "mathrm mathbf mathit mathsf mathtt mathcal mathfrak mathscr boldsymbol bm rm bf it vec hat tilde dot ddot mathop".split()

Token = tuple[str, str]
COMMANDS: dict[str, Token] = {
    **{name: ("id", name) for name in (*_GREEK, *_SYMBOLS)},
    **{name: ("id", plain) for name, plain in _VARIANTS.items()},
    **{name: ("skip", "") for name in _SKIP},
    **{name: ("font", name) for name in _FONTS},
    **{name: ("fn", name) for name in FUNCTIONS if name not in ("gamma", "sqrt", "root", "abs", "floor", "ceil")},
    **{name: ("fn", CANONICAL[name]) for name in ("tg", "ctg", "cosec", "sh", "ch", "th", "arctg", "arcctg")},
    **{name: ("frac", "") for name in ("frac", "dfrac", "tfrac", "cfrac", "sfrac", "nicefrac")},
    **{name: ("binom", "") for name in ("binom", "dbinom", "tbinom")},
    **{name: ("text", name) for name in ("text", "textbf", "textit", "textrm", "textnormal", "textsf", "texttt", "mbox", "hbox", "emph")},
    "text": ("text", "text"),
    "operatorname": ("opname", ""), "operatorname*": ("opname", ""), "mathbb": ("bb", ""), "Bbb": ("bb", ""), "sqrt": ("sqrt", ""),
    "pi": ("const", "pi"), "infty": ("const", "oo"), "infin": ("const", "oo"),
    "cdot": ("op", "*"), "times": ("op", "*"), "div": ("op", "/"), "pm": ("op", "±"), "mp": ("op", "∓"), "over": ("op", "over"),
    "choose": ("op", "choose"), "bmod": ("op", "mod"), "mod": ("op", "mod"), "pmod": ("pmod", ""), "cup": ("setop", "cup"),
    "cap": ("setop", "cap"), "setminus": ("setop", "setminus"), "backslash": ("setop", "setminus"), "bigcup": ("setop", "cup"),
    "smallsetminus": ("setop", "setminus"),
    "lt": ("rel", "<"), "gt": ("rel", ">"), "le": ("rel", "<="), "leq": ("rel", "<="), "leqslant": ("rel", "<="), "ge": ("rel", ">="),
    "geq": ("rel", ">="), "geqslant": ("rel", ">="), "ne": ("rel", "!="), "neq": ("rel", "!="), "approx": ("rel", "~"), "simeq": ("rel", "~"),
    "cong": ("rel", "~"), "sim": ("rel", "~"), "equiv": ("rel", "equiv"), "in": ("rel", "in"), "notin": ("rel", "notin"),
    "to": ("arrow", ""), "rightarrow": ("arrow", ""), "implies": ("arrow", ""), "Rightarrow": ("arrow", ""), "land": ("join", "and"),
    "lor": ("join", "or"), "wedge": ("join", "and"), "vee": ("join", "or"), "mid": ("op", "|"), "vert": ("op", "|"), "lvert": ("op", "|("),
    "rvert": ("op", "|)"), "Vert": ("op", "|"), "lVert": ("op", "|("), "rVert": ("op", "|)"), "colon": ("op", ":"),
    "lfloor": ("open", "lfloor"), "rfloor": ("close", "rfloor"), "lceil": ("open", "lceil"), "rceil": ("close", "rceil"),
    "langle": ("open", "("), "rangle": ("close", ")"), "lbrace": ("open", "\\{"), "rbrace": ("close", "\\}"), "lbrack": ("open", "["),
    "rbrack": ("close", "]"), "lparen": ("open", "("), "rparen": ("close", ")"), "emptyset": ("empty", ""), "varnothing": ("empty", ""),
    "ldots": ("dots", ""), "cdots": ("dots", ""), "dots": ("dots", ""), "dotsc": ("dots", ""), "dotsb": ("dots", ""), "sum": ("big", "sum"),
    "prod": ("big", "prod"), "int": ("big", "int"), "lim": ("big", "lim"), "circ": ("op", "°"), "degree": ("op", "°"), "prime": ("op", "'"),
    "overline": ("over", ""), "bar": ("over", ""), "overrightarrow": ("font", ""), "widehat": ("font", ""), "underline": ("font", ""),
    "begin": ("begin", ""), "end": ("end", ""), "percent": ("op", "%"), "euro": ("cur", "€"), "pound": ("cur", "£"), "yen": ("cur", "¥"),
    "textdollar": ("cur", "$"), "angle": ("prefix", "angle"), "measuredangle": ("prefix", "angle"), "newline": ("op", "\\\\"),
    "dotsm": ("dots", ""), "left": ("lr", "("), "right": ("lr", ")"), "middle": ("lr", "|"), "displaylimits": ("skip", ""),
}  # fmt: skip

WORDS: dict[str, Token] = {
    **{name: ("fn", name) for name in FUNCTIONS if name not in ("gamma", "Re", "Im", "arg", "sqrt")},
    **{name: ("id", name) for name in _GREEK},
    "sqrt": ("sqrt", ""), "pi": ("const", "pi"), "Pi": ("id", "Pi"), "infinity": ("const", "oo"), "inf": ("const", "oo"), "Infinity": ("const", "oo"),
    "infty": ("const", "oo"), "and": ("join", "and"), "or": ("join", "or"), "mod": ("op", "mod"), "percent": ("op", "%"), "pct": ("op", "%"),
    "percentage": ("op", "%"), "degrees": ("op", "°"), "degree": ("op", "°"), "deg": ("op", "°"), "times": ("op", "*"), "choose": ("op", "choose"),
    "union": ("setop", "cup"), "cup": ("setop", "cup"), "intersect": ("setop", "cap"), "cap": ("setop", "cap"),
}  # fmt: skip
