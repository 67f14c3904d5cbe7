"""LaTeX of a formula to tokens. Every character is read, or the formula is refused with its position."""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_CHARS = 2_000
MAX_TOKENS = 800

GREEK = frozenset(
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi chi psi "
    "omega "
    "Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega ell hbar Re Im".split()
)
VARIANTS = {
    "varepsilon": "epsilon", "varphi": "phi", "vartheta": "theta", "varrho": "rho", "varsigma": "sigma",
    "varkappa": "kappa", "hslash": "hbar",
}  # fmt: skip
FUNCTIONS = frozenset(
    "sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh coth sech csch arcsinh arccosh arctanh ln log "
    "exp".split()
)
RELATIONS = {
    "approx": "=", "simeq": "=", "equiv": "=", "cong": "=", "triangleq": "=", "doteq": "=",
    "ge": ">=", "geq": ">=", "geqslant": ">=", "le": "<=", "leq": "<=", "leqslant": "<=", "ne": "!=", "neq": "!=",
    "lt": "<", "gt": ">", "ll": "<<", "gg": ">>", "propto": "~", "sim": "~", "Rightarrow": "->", "to": "->",
    "rightarrow": "->", "implies": "->", "longrightarrow": "->",
}  # fmt: skip
_SKIP = frozenset(
    "left right big Big bigl bigr Bigl Bigr bigg Bigg biggl biggr Biggl Biggr displaystyle textstyle limits nolimits "
    "quad qquad nonumber notag middle ,".split()
)
FONTS = frozenset(
    "mathrm text textrm mathsf operatorname rm mathit textit mathcal mathscr unit textbf mathfrak mathbb cal".split()
)
VECTORS = frozenset("vec mathbf boldsymbol bm overrightarrow bf pmb".split())
ACCENTS = frozenset("hat bar tilde overline widetilde widehat dot ddot dddot".split())
_UNICODE = {
    "−": "-", "·": r"\cdot ", "×": r"\times ", "≤": r"\le ", "≥": r"\ge ", "≈": r"\approx ", "≠": r"\ne ",
    "°": r"^\circ ", "∞": r"\infty ", "∂": r"\partial ", "∇": r"\nabla ", "ħ": r"\hbar ", "√": r"\sqrt ", "′": "'",
    "–": "-", "α": r"\alpha ", "β": r"\beta ", "γ": r"\gamma ", "δ": r"\delta ", "ε": r"\epsilon ", "θ": r"\theta ",
    "λ": r"\lambda ", "μ": r"\mu ", "ν": r"\nu ", "π": r"\pi ", "ρ": r"\rho ", "σ": r"\sigma ", "τ": r"\tau ",
    "φ": r"\phi ", "ω": r"\omega ", "Δ": r"\Delta ", "Ω": r"\Omega ", "ψ": r"\psi ", "Φ": r"\Phi ",
    "½": r"\frac12 ", "²": "^2 ", "³": "^3 ",
}  # fmt: skip
_TOKEN = re.compile(
    r"(?P<ws>[\s~&]+)|(?P<num>\d{1,3}(?:\{,\}\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)|\\(?P<cmd>[A-Za-z]+)\*?"
    r"|(?P<gap>\\[,;:! ])|(?P<row>\\\\(?:\[[^\]]*\])?)|(?P<esc>\\[{}|%&_#$])|(?P<rel>:=|<=|>=|[=<>])|(?P<id>[A-Za-z])"
    r"|(?P<op>[-+*/^_'!|,.;:()\[\]{}%])"
)
_TEXT = re.compile(r"\s*\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}")
_NOISE = re.compile(r"\\(?:tag|label|ref|eqref)\*?\s*\{[^{}]*\}|\\(?:h|v)space\*?\s*\{[^{}]*\}")
_NAME_NOISE = re.compile(r"\\(?:text|mathrm|rm|textrm|mathit|operatorname|mathbf|textbf|mbox|bf)\b|\\[,;:! ]|[\s\\{}$]")


class Unreadable(ValueError):
    """The formula cannot be read; the message says where and why."""


class Token(NamedTuple):
    kind: str
    value: str
    spaced: bool
    start: int


def clean_name(text: str) -> str:
    """A subscript or a text name without fonts, braces and spaces, so that ``{\\text{max}}`` is ``max``.

    >>> clean_name(r"\\text{max}")
    'max'
    """
    for variant, name in VARIANTS.items():
        text = text.replace("\\" + variant, "\\" + name)
    return _NAME_NOISE.sub("", text)


def tokenize(latex: str) -> list[Token]:
    """Tokens of a formula, closed by an ``end`` token.

    Raises:
        Unreadable: too long, or a character or command that is not known.
    """
    if len(latex) > MAX_CHARS:
        raise Unreadable(f"longer than {MAX_CHARS} characters")
    for sign, name in _UNICODE.items():
        latex = latex.replace(sign, name)
    text = _NOISE.sub(" ", latex)
    tokens: list[Token] = []
    pos, spaced = 0, False
    while pos < len(text):
        match = _TOKEN.match(text, pos)
        if match is None:
            raise Unreadable(f"character {text[pos]!r} at {pos}")
        start, pos = pos, match.end()
        kind = match.lastgroup or ""
        value = match[kind]
        if kind in ("ws", "gap"):
            spaced = True
            continue
        if kind == "cmd":
            found = _TEXT.match(text, pos) if value in FONTS else None
            if found:
                kind, value, pos = "font", found[1], found.end()
            elif value in _SKIP:
                if value in ("left", "right") and text[pos : pos + 1] == ".":
                    pos += 1
                spaced = spaced or "quad" in value
                continue
            else:
                value = VARIANTS.get(value, value)
                if value in RELATIONS:
                    kind, value = "rel", RELATIONS[value]
        elif kind == "esc":
            kind, value = "op", {"\\|": "‖"}.get(value, value[1:])
            value = {"{": "(", "}": ")"}.get(value, value) if match[0] in ("\\{", "\\}") else value
        elif kind == "rel":
            value = "=" if value == ":=" else value
        elif kind == "num":
            value = value.replace("{,}", "")
        tokens.append(Token(kind, value, spaced, start))
        spaced = False
        if len(tokens) > MAX_TOKENS:
            raise Unreadable(f"more than {MAX_TOKENS} tokens")
    tokens.append(Token("end", "", spaced, len(text)))
    return tokens
