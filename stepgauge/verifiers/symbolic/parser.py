"""Tokens to a syntax tree: a hand-written, linear, total parser that consumes all input or says where it stopped."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stepgauge.verifiers.symbolic.lexer import MAX_EXPONENT, ParseError, Token, tokenize
from stepgauge.verifiers.symbolic.names import is_name
from stepgauge.verifiers.symbolic.nodes import (
    Add,
    Apply,
    BaseNum,
    Big,
    Builder,
    Congruence,
    Const,
    Dec,
    Div,
    Dots,
    Fn,
    Int,
    ListOf,
    Matrix,
    Mul,
    Neg,
    Node,
    Percent,
    PlusMinus,
    Pow,
    Quantity,
    Ratio,
    Rel,
    Seq,
    SetOf,
    SetOp,
    Sym,
    System,
    Text,
)
from stepgauge.verifiers.symbolic.tables import CANONICAL
from stepgauge.verifiers.symbolic.unicode import to_ascii
from stepgauge.verifiers.symbolic.units import parse_unit

MAX_DEPTH = 40
_MALFORMED = ("an operand", "an argument", "unclosed", "empty", "brackets", "unexpected", "expected", "sign out", "ragged")
_END = Token("end", "", -1, -1, False)
_CLOSERS = {"(": (")", "]"), "[": ("]", ")"), "{": ("}",), "\\{": ("\\}", "}"), "lfloor": ("rfloor",), "lceil": ("rceil",)}
_STARTS = frozenset("id const fn sqrt frac binom open font big bb over apply begin empty".split())
_INVERSE = {name: "arc" + name for name in "sin cos tan cot sec csc sinh cosh tanh".split()}
_MATRICES = frozenset("matrix pmatrix bmatrix Bmatrix vmatrix Vmatrix smallmatrix array cases aligned align align* gathered split rcases".split())
_SETLIKE = (Seq, SetOf, SetOp, Sym, Builder, Rel)
_SUBSCRIPT = re.compile(r"\\(?:text|mathrm|mathbf|mathit|rm|textrm|mathsf|,|;|!|operatorname)|[{}\s]|\\(?=[A-Za-z])")
_WORD = re.compile(r"[~\s]*([A-Za-z][A-Za-z/ ~^.\d{}-]*)[~\s]*")
_INDEX_I = re.compile(r"(?:_\s*\{?\s*i\s*=|\bd\s*i\b)")


@dataclass(frozen=True, slots=True)
class Invalid:
    """The text cannot be read: why, at which character, and whether it is ill-formed for any reader (or only outside our allow-list)."""

    reason: str
    position: int
    malformed: bool = False


def number(text: str) -> Node:
    """The node of a plain numeral.

    >>> number("1.50e3")
    Dec(digits=150, scale=-1)
    """
    if text.isdigit():
        return Int(int(text))
    mantissa, _, exponent = text.lower().partition("e")
    whole, _, decimals = mantissa.partition(".")
    power = int(exponent) if exponent else 0
    if abs(power) > MAX_EXPONENT:
        raise ParseError("exponent too large", 0)
    return Dec(int((whole + decimals) or "0"), len(decimals) - power)


class _Parser:
    """Precedence climbing over one token list."""

    def __init__(self, text: str, tokens: list[Token], open_bars: bool) -> None:
        self.text = text
        self.tokens = tokens
        self.pos = 0
        self.depth = 0
        self.bars = 0  # open |...|
        self.integrals = 0
        self.in_set = False
        self.open_bars = open_bars
        self.index_i = _INDEX_I.search(text) is not None

    # -- token access -------------------------------------------------------------------------------------------------
    @property
    def tok(self) -> Token:
        return self.tokens[self.pos] if self.pos < len(self.tokens) else _END

    def at(self, offset: int) -> Token:
        index = self.pos + offset
        return self.tokens[index] if index < len(self.tokens) else _END

    def fail(self, message: str) -> ParseError:
        token = self.tok
        return ParseError(message, token.start if token.start >= 0 else len(self.text), malformed=message.startswith(_MALFORMED))

    def take(self, value: str) -> bool:
        if self.pos < len(self.tokens) and self.tokens[self.pos].value == value:
            self.pos += 1
            return True
        return False

    def expect(self, value: str) -> None:
        if not self.take(value):
            raise self.fail(f"expected {value!r}")

    # -- statements ---------------------------------------------------------------------------------------------------
    def answer(self) -> Node:
        self.take("=")
        groups: list[list[Node]] = [[self.statement()]]
        joiner = ","
        while self.pos < len(self.tokens):
            separator = self.tok
            if separator.value == ";" or separator.value == "\\\\":
                self.pos += 1
                groups.append([])
            elif separator.value == "," or separator.kind == "join":
                self.pos += 1
            else:
                raise self.fail("cannot be read from here")
            while self.tok.kind == "join" or self.tok.value in (",", "\\\\"):
                separator = self.tok if self.tok.kind == "join" else separator
                self.pos += 1
            if separator.kind == "join" and joiner != "or":
                joiner = separator.value
            groups[-1].append(self.statement())
        if len(groups) > 1 and any(len(group) > 1 for group in groups):
            return ListOf(tuple(_grouped(group) for group in groups), joiner)
        items = [item for group in groups for item in group]
        return items[0] if len(items) == 1 else ListOf(tuple(items), joiner)

    def statement(self) -> Node:
        while self.tok.kind == "prefix":
            self.pos += 1
        begin = self.pos
        terms = [self.ratio()]
        name = is_name(terms[0], self.tokens[begin : self.pos])
        ops: list[str] = []
        while self.tok.kind == "rel" or (self.tok.value == "|" and not self.in_set and not self.bars):
            op = self.tok.value
            self.pos += 1
            ops.append({"=>": ">=", "=<": "<=", "==": "=", ":=": "=", "<>": "!=", "/=": "!="}.get(op, op))
            terms.append(self.ratio())
        modulus = self.modulus()
        if modulus is not None:
            if len(terms) == 2 and ops[0] in ("equiv", "="):
                return Congruence(terms[0], terms[1], modulus)
            if not ops:
                return Congruence(Sym("?"), terms[0], modulus)
            raise self.fail("modulus out of place")
        if not ops:
            return terms[0]
        last = terms[-1]
        if ops == ["equiv"] and isinstance(last, Fn) and last.name == "mod":
            return Congruence(terms[0], *last.args)
        return Rel(tuple("=" if op == "equiv" else op for op in ops), tuple(terms), name and ops[0] in ("=", "~", "equiv", "in"))

    def modulus(self) -> Node | None:
        if self.tok.kind == "pmod":
            self.pos += 1
            return self.argument()
        start = self.pos
        if self.take("(") and self.take("mod"):
            inner = self.additive()
            self.expect(")")
            return inner
        self.pos = start
        return None

    def ratio(self) -> Node:
        first = self.setexpr()
        if self.tok.value != ":" or self.in_set:
            return first
        items = [first]
        while self.take(":"):
            items.append(self.setexpr())
        return Ratio(tuple(items))

    def setexpr(self) -> Node:
        left = self.additive()
        while self.tok.kind == "setop":
            op = self.tok.value
            self.pos += 1
            right = self.additive()
            left = SetOp(op, _as_set(left), _as_set(right))
        return left

    # -- arithmetic ---------------------------------------------------------------------------------------------------
    def additive(self) -> Node:
        sign = self.sign()
        if sign == "±" or sign == "∓":
            terms: list[Node] = [PlusMinus(None, self.multiplicative(), 1 if sign == "±" else -1)]
        else:
            first = self.multiplicative()
            terms = [Neg(first) if sign == "-" else first]
        while True:
            op = self.tok.value
            if self.tok.kind != "op" or op not in "+-±∓":
                break
            self.pos += 1
            inner = self.sign()
            if inner not in ("", "+", "-"):
                raise self.fail("sign out of place")
            term = self.multiplicative()
            if inner == "-":
                term = Neg(term)
            if op in "±∓":
                terms = [PlusMinus(_sum(terms), term, 1 if op == "±" else -1)]
            else:
                terms.append(Neg(term) if op == "-" else term)
        return _sum(terms)

    def sign(self) -> str:
        """Swallow a run of signs: '' + - or ±."""
        negative = seen = False
        while self.tok.kind == "op" and self.tok.value in ("+", "-", "±", "∓"):
            if self.tok.value in "±∓":
                if negative:
                    raise self.fail("sign out of place")
                self.pos += 1
                return self.tokens[self.pos - 1].value
            negative ^= self.tok.value == "-"
            seen = True
            self.pos += 1
        return "-" if negative else "+" if seen else ""

    def unary(self) -> Node:
        sign = self.sign()
        if sign in ("±", "∓"):
            raise self.fail("sign out of place")
        inner = self.power()
        return Neg(inner) if sign == "-" else inner

    def multiplicative(self) -> Node:
        nums = [self.unary()]
        dens: list[Node] = []
        while self.pos < len(self.tokens):
            token = self.tokens[self.pos]
            kind, value = token.kind, token.value
            if kind == "op":
                if value == "*":
                    self.pos += 1
                    nums.append(self.unary())
                    continue
                if value == "/":
                    self.pos += 1
                    dens.append(self.denominator())
                    continue
                if value == "mod":
                    self.pos += 1
                    nums, dens = [Fn("mod", (_quotient(nums, dens), self.multiplicative()))], []
                    continue
                if value in ("|", "|(") and self.opens_bar(value):
                    nums.append(self.power())
                    continue
                break
            if kind in ("text", "unit", "cur") or (kind == "font" and self.unit_font()):
                unit = self.unit()
                if unit is None:
                    raise self.fail("words out of place")
                nums, dens = [Quantity(_quotient(nums, dens), unit)], []
                continue
            if kind not in _STARTS and not (kind == "num" and isinstance(nums[-1], (Pow, Fn, Div, Add)) and not dens):
                break
            if value == "(" and self.at(1).value == "mod":
                break
            if self.integrals and value == "d" and self.differential() is not None:
                break
            nums.append(self.power())
        return _quotient(nums, dens)

    def denominator(self) -> Node:
        factors = [self.unary()]
        if isinstance(factors[0], (Sym, Const, Pow)) and not isinstance(factors[0], (Int, Dec)):
            while self.tok.kind in ("id", "const") and not self.tok.spaced and not (self.integrals and self.tok.value == "d"):
                factors.append(self.power())
        return _product(factors)

    def opens_bar(self, value: str) -> bool:
        if value == "|(":
            return True
        if self.in_set and not self.bars:
            return False
        if not self.bars:
            return sum(token.value == "|" for token in self.tokens) > 1
        following = self.at(1)
        remaining = sum(1 for token in self.tokens[self.pos :] if token.value == "|")
        return self.open_bars and remaining >= self.bars + 2 and (following.kind in _STARTS or following.kind == "num")

    def power(self) -> Node:
        base = self.postfix(self.primary())
        while self.tok.value == "^" and self.tok.kind == "op":
            self.pos += 1
            mark = self.mark()
            if mark == "°":
                base = Quantity(base, (("deg", 1),))
                unit = self.at(0)
                if unit.value in ("C", "F") or (unit.kind == "text" and unit.value.strip() in ("C", "F")):
                    self.pos += 1
                    base = Quantity(base.value, ((f"deg{unit.value.strip()}", 1),))
                continue
            if mark:
                base = Sym(base.name + mark) if isinstance(base, Sym) else Pow(base, Sym(mark))
                continue
            exponent = self.exponent()
            if isinstance(base, Sym) and self.tok.value == "_":
                base = Sym(base.name + self.subscript())
            base = self.postfix(Pow(base, exponent))
        return base

    def mark(self) -> str:
        """A superscript that is no exponent: degree, prime, star."""
        braced = self.tok.value == "{" and self.at(2).value == "}"
        token = self.at(1) if braced else self.tok
        if token.kind == "op" and token.value in ("°", "'", "*"):
            self.pos += 3 if braced else 1
            return token.value
        return ""

    def exponent(self) -> Node:
        sign = self.sign()
        if sign in ("±", "∓"):
            raise self.fail("sign out of place")
        if self.tok.kind == "num":
            inner = number(self.tok.value)
            self.pos += 1
        else:
            inner = self.primary()
        if isinstance(inner, Sym):
            inner = self.postfix(inner)
        if self.tok.value == "^" and self.tok.kind == "op":
            self.enter()
            self.pos += 1
            inner = Pow(inner, self.exponent())
            self.depth -= 1
        elif self.tok.value == "!" and isinstance(inner, (Int, Sym)):
            self.pos += 1
            inner = Fn("factorial", (inner,))
        return Neg(inner) if sign == "-" else inner

    def postfix(self, node: Node) -> Node:
        while True:
            token = self.tok
            if token.kind != "op":
                return node
            value = token.value
            if value == "!":
                self.enter()
                node = Fn("factorial", (node,))
                self.depth -= 1
                if sum(1 for _ in _factorials(node)) > 20:
                    raise self.fail("too many factorials")
            elif value == "%":
                node = Percent(node)
            elif value == "°":
                node = Quantity(node, (("deg", 1),))
            elif value == "'" and isinstance(node, Sym):
                node = Sym(node.name + "'")
            elif value == "_" and isinstance(node, Sym):
                node = Sym(node.name + self.subscript())
                continue
            else:
                return node
            self.pos += 1

    def subscript(self) -> str:
        """The text of a subscript, without fonts, braces and spaces."""
        self.expect("_")
        token = self.tok
        if token.kind == "open" and token.value == "{":
            start, level = self.pos, 0
            while self.pos < len(self.tokens):
                value = self.tokens[self.pos].value
                level += (value in ("{", "\\{")) - (value in ("}", "\\}"))
                self.pos += 1
                if level == 0:
                    raw = self.text[self.tokens[start].end : self.tokens[self.pos - 1].start]
                    return "_" + _SUBSCRIPT.sub("", raw)
            raise self.fail("unclosed subscript")
        if token.kind in ("font", "text"):
            self.pos += 1
            if token.kind == "text":
                return "_" + token.value.strip()
            self.pos -= 1
            return "_" + (self.font_word() or "?")
        if token.kind not in ("id", "const", "num"):
            raise self.fail("bad subscript")
        if token.kind == "num":
            return "_" + self.digit()
        self.pos += 1
        return "_" + token.value

    def digit(self) -> str:
        """One digit of a number token, as LaTeX takes an argument without braces; the rest stays."""
        token = self.tok
        if len(token.value) == 1 or not token.value.isdigit() or "\\" not in self.text:
            self.pos += 1
            return token.value
        self.tokens[self.pos] = Token("num", token.value[1:], token.start + 1, token.end, False)
        return token.value[0]

    # -- primaries ----------------------------------------------------------------------------------------------------
    def enter(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.fail("nested too deeply")

    def primary(self) -> Node:
        self.enter()
        token = self.tok
        kind = token.kind
        if kind == "num":
            node = self.numeral()
        elif kind == "id":
            node = self.identifier()
        elif kind == "const":
            self.pos += 1
            node = Sym("i") if token.value == "i" and self.index_i else Const(token.value)
            if token.value in ("e", "i") and self.tok.value == "_":
                node = Sym(token.value)
        elif kind == "open":
            node = self.bracket()
        elif kind in ("fn", "sqrt", "frac", "binom", "big", "apply", "begin", "font", "over", "bb", "empty", "dots", "text", "cur"):
            node = _HANDLERS[kind](self)
        elif token.value in ("|", "|("):
            node = self.absolute()
        else:
            raise self.fail("an operand is missing" if kind == "end" else f"unexpected {token.value!r}")
        self.depth -= 1
        return node

    def numeral(self) -> Node:
        token = self.tok
        self.pos += 1
        if self.tok.value == "_":
            self.pos += 1
            inner = self.argument(single=True)
            if not isinstance(inner, Int) or not 2 <= inner.value <= 36 or not token.value.isdigit():
                raise self.fail("not a number base")
            return BaseNum(token.value, inner.value)
        node = number(token.value)
        if self.tok.kind == "over" or (self.tok.value == "." and self.at(1).kind == "over"):
            return self.repeating(token)
        if not isinstance(node, Int):
            if self.tok.kind == "dots":
                self.pos += 1
            return node
        if self.tok.kind == "frac":
            start = self.pos
            fraction = self.fraction()
            if isinstance(fraction, Div) and _proper(fraction):
                return Add((node, fraction))
            self.pos = start
        elif self.tok.kind == "num" and self.tok.spaced and self.at(1).value == "/" and self.at(2).kind == "num":
            top, below = self.tok.value, self.at(2).value
            if top.isdigit() and below.isdigit() and 0 < int(top) < int(below):
                self.pos += 3
                return Add((node, Div(Int(int(top)), Int(int(below)))))
        return node

    def repeating(self, token: Token) -> Node:
        """``0.1\\overline{6}`` as an exact fraction."""
        self.take(".")
        self.pos += 1
        self.take("{")
        period = self.tok.value
        whole, _, fixed = token.value.partition(".")
        if not period.isdigit() or len(period) > 60 or not whole.isdigit():
            raise self.fail("not a repeating decimal")
        self.pos += 1
        if self.tok.value == "}":
            self.pos += 1
        scale = 10 ** len(fixed)
        nines = scale * (10 ** len(period) - 1)
        return Div(Int(int(whole + fixed + period) - int(whole + fixed)), Int(nines))

    def identifier(self) -> Sym | Apply:
        name = self.tok.value
        self.pos += 1
        if name == "Delta" and self.tok.kind == "id" and self.tok.value != "Delta":
            inner = self.identifier()
            return inner if isinstance(inner, Apply) else Sym("Delta " + inner.name)
        if self.tok.kind == "num" and not self.tok.spaced and "\\" not in self.text and self.tok.value.isdigit():
            name += "_" + self.tok.value
            self.pos += 1
        while self.tok.value in ("_", "'") and self.tok.kind == "op":
            if self.tok.value == "_":
                name += self.subscript()
            else:
                self.pos += 1
                name += "'"
        if self.tok.value == "(" and name[0] in "fg" and (len(name) == 1 or name[1] in "_'"):
            arguments = self.bracket()
            return Apply(name, arguments.items if isinstance(arguments, Seq) else (arguments,))
        return Sym(name)

    def items(self, closers: tuple[str, ...]) -> tuple[list[Node], str]:
        """Statements separated by commas or semicolons up to a closer, which is consumed."""
        items = [self.statement()]
        while self.tok.value not in closers:
            if self.tok.value not in (",", ";") and self.tok.kind != "join":
                raise self.fail("unclosed bracket" if self.tok.kind == "end" else f"unexpected {self.tok.value!r}")
            self.pos += 1
            while self.tok.kind == "join":
                self.pos += 1
            items.append(self.statement())
        closer = self.tok.value
        self.pos += 1
        return items, closer

    def bracket(self) -> Node:
        opener = self.tok.value
        closers = _CLOSERS[opener]
        bars, in_set, integrals = self.bars, self.in_set, self.integrals
        self.bars, self.in_set, self.integrals = 0, opener in ("\\{", "{") and self.looks_like_builder(), 0
        self.pos += 1
        if self.tok.value in closers:
            if opener == "\\{":
                self.pos += 1
                self.bars, self.in_set, self.integrals = bars, in_set, integrals
                return SetOf(())
            raise self.fail("empty bracket")
        node = self.inside(opener, closers)
        self.bars, self.in_set, self.integrals = bars, in_set, integrals
        return node

    def looks_like_builder(self) -> bool:
        """Whether this brace opens ``{x | ...}`` or ``{x : ...}``."""
        index, level = self.pos + 1, 0
        while index < len(self.tokens) and index < self.pos + 40:
            token = self.tokens[index]
            if token.kind == "open":
                level += 1
            elif token.kind == "close":
                level -= 1
                if level < 0:
                    return False
            elif level == 0 and token.kind == "op" and token.value in ("|", ":") and index > self.pos + 1:
                return True
            elif token.value == ",":
                return False
            index += 1
        return False

    def inside(self, opener: str, closers: tuple[str, ...]) -> Node:
        if self.in_set:
            variable = self.statement()
            if self.tok.value in ("|", ":"):
                self.pos += 1
                self.in_set = False
                conditions, _ = self.items(closers)
                return Builder(variable, conditions[0] if len(conditions) == 1 else System(tuple(conditions)))
            self.in_set = False
            if not self.take(closers[0]):
                raise self.fail("unclosed set")
            return variable if opener == "{" else SetOf((variable,))
        first = self.statement()
        if self.tok.value in ("over", "choose"):
            top, which = first, self.tok.value
            self.pos += 1
            below = self.statement()
            self.expect(closers[0])
            return Div(top, below) if which == "over" else Fn("binom", (top, below))
        if self.tok.value in closers:
            items, closer = [first], self.tok.value
            self.pos += 1
        elif self.tok.value in (",", ";") or self.tok.kind == "join":
            self.pos += 1
            while self.tok.kind == "join":
                self.pos += 1
            rest, closer = self.items(closers)
            items = [first, *rest]
        else:
            raise self.fail("unclosed bracket")
        if opener in ("lfloor", "lceil"):
            if len(items) != 1:
                raise self.fail("one value expected")
            return Fn("floor" if opener == "lfloor" else "ceil", (items[0],))
        if opener == "\\{" or (opener == "{" and len(items) > 1):
            return SetOf(tuple(items))
        if len(items) == 1:
            if closer != closers[0]:
                raise self.fail("brackets do not match")
            return items[0]
        return Seq(opener, closer, tuple(items))

    def absolute(self) -> Node:
        opener = self.tok.value
        self.pos += 1
        self.bars += opener == "|"
        inner = self.additive()
        if self.tok.value not in ("|", "|)"):
            raise self.fail("unclosed |")
        self.bars -= opener == "|"
        self.pos += 1
        return Fn("abs", (inner,))

    def argument(self, *, single: bool = False) -> Node:
        """The argument of a command: a braced group or, as in LaTeX, one token."""
        token = self.tok
        if token.kind == "open" and token.value == "{":
            return self.primary()
        if token.kind == "num":
            return number(self.digit())
        if token.kind == "op" and token.value == "-":
            self.pos += 1
            return Neg(self.argument(single=True))
        if single and token.kind not in ("id", "const", "open"):
            raise self.fail("bad argument")
        if token.kind == "id":
            self.pos += 1
            return Sym(token.value)
        if token.kind in ("const", "frac", "sqrt", "fn", "font", "text", "open"):
            return self.primary()
        raise self.fail("an argument is missing")

    def fraction(self) -> Node:
        self.pos += 1
        variable = self.derivative()
        if variable is not None:
            return Big("diff", variable, None, None, self.multiplicative())
        top = self.argument()
        return Div(top, self.argument())

    def derivative(self) -> Sym | None:
        """``{d}{dx}`` right here, as a derivative operator."""
        window = [self.at(offset).value for offset in range(7)]
        if window[:5] == ["{", "d", "}", "{", "d"] and self.at(5).kind == "id" and window[6] == "}":
            self.pos += 7
            return Sym(window[5])
        return None

    def differential(self) -> Sym | None:
        """``dx`` right here, not consumed."""
        following = self.at(1)
        if self.tok.value == "d" and following.kind in ("id", "const"):
            return Sym(following.value)
        return None

    def root(self) -> Node:
        self.pos += 1
        index: Node = Int(2)
        if self.tok.value == "[":
            self.pos += 1
            index = self.additive()
            self.expect("]")
        if self.tok.kind == "num":
            inner = number(self.tok.value)
            self.pos += 1
        elif self.tok.kind == "op" and self.tok.value == "-":
            raise self.fail("an argument is missing")
        else:
            inner = self.primary()
        if isinstance(inner, Seq):
            raise self.fail("one value expected")
        return Fn("root", (inner, index))

    def binomial(self) -> Node:
        self.pos += 1
        top = self.argument()
        return Fn("binom", (top, self.argument()))

    def function(self) -> Node:
        name = CANONICAL.get(self.tok.value, self.tok.value)
        self.pos += 1
        base: Node | None = None
        power: Node | None = None
        while self.tok.value in ("^", "_") and self.tok.kind == "op":
            self.pos += 1
            if self.tokens[self.pos - 1].value == "^":
                power = Neg(self.argument()) if self.take("-") else self.argument()
            else:
                base = self.argument()
        if power == Neg(Int(1)) and name in _INVERSE:
            name, power = _INVERSE[name], None
        arguments = self.arguments()
        node: Node = _call(name, arguments, base)
        return Pow(node, power) if power is not None else node

    def arguments(self) -> tuple[Node, ...]:
        token = self.tok
        if token.kind == "open" and token.value in ("(", "{", "["):
            inner = self.primary()
            return inner.items if isinstance(inner, (Seq, SetOf)) else (inner,)
        sign = self.sign()
        if sign not in ("", "-"):
            raise self.fail("an argument is missing")
        if self.tok.kind == "fn":
            inner = self.power()
        else:
            factors = [self.power()]
            while (self.tok.kind in ("id", "const", "sqrt", "frac") or (self.tok.kind == "open" and self.tok.value == "{")) and not (
                self.integrals and self.tok.value == "d" and self.differential()
            ):
                factors.append(self.power())
            if self.tok.value == "/" and self.at(1).kind in ("num", "id") and isinstance(factors[-1], (Sym, Const)):
                self.pos += 1
                factors = [Div(_product(factors), self.power())]
            inner = _product(factors)
        return (Neg(inner) if sign == "-" else inner,)

    def apply(self) -> Node:
        name = self.tok.value
        self.pos += 1
        if not name:
            raise self.fail("a name is missing")
        return Apply(name, self.arguments())

    def big(self) -> Node:
        op = self.tok.value
        self.pos += 1
        low: Node | None = None
        high: Node | None = None
        variable: Node = Sym("")
        while self.tok.value in ("_", "^") and self.tok.kind == "op":
            self.pos += 1
            if self.tokens[self.pos - 1].value == "^":
                high = Neg(self.argument()) if self.take("-") else self.argument()
            elif op == "lim":
                variable, low = self.limit_point()
            else:
                bound = Neg(self.argument()) if self.take("-") else self.argument()
                if op == "int":
                    low = bound
                elif isinstance(bound, Rel) and bound.ops == ("=",):
                    variable, low = bound.terms
                else:
                    variable = bound
        if op == "int":
            return self.integral(low, high)
        if not isinstance(variable, Sym) or (op == "lim" and low is None):
            raise self.fail("the bound variable is missing")
        return Big(op, variable, low, high, self.multiplicative())

    def limit_point(self) -> tuple[Node, Node]:
        self.expect("{")
        variable = self.primary()
        if self.tok.kind != "arrow":
            raise self.fail("a limit needs an arrow")
        self.pos += 1
        point = self.additive()
        if self.tok.value == "^" and self.at(1).value in ("+", "-"):
            self.pos += 2
        self.expect("}")
        return variable, point

    def integral(self, low: Node | None, high: Node | None) -> Node:
        self.integrals += 1
        body: Node = Int(1) if self.differential() else self.additive()
        self.integrals -= 1
        variable = self.differential()
        if variable is None:
            raise self.fail("an integral needs its differential")
        self.pos += 2
        return Big("int", variable, low, high, body)

    def environment(self) -> Node:
        name = self.tok.value
        self.pos += 1
        if name not in _MATRICES:
            raise self.fail(f"unknown environment {name!r}")
        if name == "array" and self.take("{"):
            while not self.take("}"):
                if self.tok.kind == "end":
                    raise self.fail("unclosed column specification")
                self.pos += 1
        rows: list[tuple[Node, ...]] = []
        while not (self.tok.kind == "end" and self.tok.value == name):
            if self.tok is _END:
                raise self.fail("unclosed environment")
            row = [self.cell()]
            while self.take("&"):
                row.append(self.cell())
            rows.append(tuple(row))
            if not self.take("\\\\") and not (self.tok.kind == "end" and self.tok.value == name):
                raise self.fail("unexpected in a matrix")
        self.pos += 1
        if not rows:
            raise self.fail("empty matrix")
        if name in ("vmatrix",):
            return Fn("det", (Matrix(tuple(rows)),))
        if name.endswith("matrix") or name == "array":
            if len({len(row) for row in rows}) != 1:
                raise self.fail("ragged matrix")
            return Matrix(tuple(rows))
        return System(tuple(row[0] for row in rows)) if all(len(row) == 1 for row in rows) else Matrix(tuple(rows))

    def cell(self) -> Node:
        node = self.statement()
        self.take(",")
        return node

    def font_word(self) -> str | None:
        """The letters inside a font command, consumed; None where it holds a formula (nothing consumed)."""
        start = self.pos
        self.pos += 1
        if self.tok.value != "{":
            token = self.tok
            self.pos += 1
            return token.value if token.kind in ("id", "const", "num") else None
        level, index = 0, self.pos
        while index < len(self.tokens):
            level += (self.tokens[index].value == "{") - (self.tokens[index].value == "}")
            if level == 0:
                break
            index += 1
        raw = self.text[self.tok.end : self.tokens[index].start] if index < len(self.tokens) else ""
        match = _WORD.fullmatch(raw)
        if match is None:
            self.pos = start
            return None
        self.pos = index + 1
        return match[1].strip()

    def unit_font(self) -> bool:
        """Whether the font command here sets a unit (upright letters after a value)."""
        if self.tok.value not in ("mathrm", "rm"):
            return False
        start = self.pos
        word = self.font_word()
        self.pos = start
        return word is not None and word not in ("e", "i", "d") and parse_unit(word) is not None

    def font(self) -> Node:
        font = self.tok.value
        word = self.font_word()
        if word is None:
            self.pos += 1
            return self.argument()
        if len(word) == 1:
            return Const(word) if word in "ei" and font == "mathrm" else Sym(word)
        if CANONICAL.get(word, word) in _INVERSE or word in ("ln", "log", "exp", "lg"):
            return _call(CANONICAL.get(word, word), self.arguments(), None)
        if font in ("mathrm", "mathbf", "rm", "bf", "mathit", "mathsf"):
            return Text(word)
        return _product([Sym(char) for char in word if char.isalpha()])

    def overline(self) -> Node:
        self.pos += 1
        inner = self.argument()
        letters = inner.args if isinstance(inner, Mul) else (inner,)
        if all(isinstance(item, Sym) and item.name.isupper() for item in letters):
            return inner
        return Fn("conj", (inner,))

    def blackboard(self) -> Node:
        name = self.tok.value
        self.pos += 1
        return Sym("\\" + name)

    def empty_set(self) -> Node:
        self.pos += 1
        return SetOf(())

    def ellipsis(self) -> Node:
        self.pos += 1
        return Dots()

    def words(self) -> Node:
        parts = []
        while self.tok.kind == "text":
            parts.append(self.tok.value.strip())
            self.pos += 1
        content = " ".join(parts)
        if len(content) == 1 and content.isalpha():
            return Sym(content)
        if content[:1].isdigit() or content[:1] in "-(\\":
            inner = parse(content)
            if not isinstance(inner, Invalid):
                return inner
        return Text(content)

    def currency(self) -> Node:
        name = self.tok.value
        self.pos += 1
        return Quantity(self.unary(), ((name, 1),))

    def unit(self) -> tuple[tuple[str, int], ...] | None:
        """Words after a value, as a unit."""
        parts: list[str] = []
        start = self.pos
        while True:
            token = self.tok
            if token.kind in ("text", "unit", "cur"):
                parts.append(token.value)
                self.pos += 1
            elif token.kind == "font" and parts:
                word = self.font_word()
                if word is None:
                    break
                parts.append(word)
            elif token.kind == "font":
                parts.append(self.font_word() or "")
            elif token.value == "^" and self.at(1).kind in ("num", "open", "op"):
                begin = self.pos
                self.pos += 1
                exponent = self.exponent()
                value = -exponent.arg.value if isinstance(exponent, Neg) and isinstance(exponent.arg, Int) else getattr(exponent, "value", None)
                if not isinstance(value, int):
                    self.pos = begin
                    break
                parts.append(f"^{value}")
            elif token.value in ("/", "*") and (self.at(1).kind in ("text", "unit", "font", "id") or self.at(1).value == "("):
                parts.append(token.value)
                self.pos += 1
                if self.tok.kind == "id":
                    parts.append(self.tok.value)
                    self.pos += 1
            elif token.kind == "join" and self.at(1).kind in ("text", "unit"):
                break
            else:
                break
        unit = parse_unit(" ".join(parts)) if self.pos > start else None
        return unit


_HANDLERS = {
    "fn": _Parser.function, "sqrt": _Parser.root, "frac": _Parser.fraction, "binom": _Parser.binomial, "big": _Parser.big, "apply": _Parser.apply,
    "begin": _Parser.environment, "font": _Parser.font, "over": _Parser.overline, "bb": _Parser.blackboard, "empty": _Parser.empty_set,
    "dots": _Parser.ellipsis, "text": _Parser.words, "cur": _Parser.currency,
}  # fmt: skip


def _grouped(group: list[Node]) -> Node:
    if len(group) == 1:
        return group[0]
    if all(isinstance(item, Rel) for item in group):
        return System(tuple(group))
    return Seq("(", ")", tuple(group))


def _as_set(node: Node) -> Node:
    return node if isinstance(node, _SETLIKE) else SetOf((node,))


def _sum(terms: list[Node]) -> Node:
    return terms[0] if len(terms) == 1 else Add(tuple(terms))


def _product(factors: list[Node]) -> Node:
    return factors[0] if len(factors) == 1 else Mul(tuple(factors))


def _quotient(nums: list[Node], dens: list[Node]) -> Node:
    return Div(_product(nums), _product(dens)) if dens else _product(nums)


def _proper(fraction: Div) -> bool:
    top, below = fraction.num, fraction.den
    return isinstance(top, Int) and isinstance(below, Int) and 0 < top.value < below.value


def _factorials(node: Node) -> list[Node]:
    found = []
    while isinstance(node, Fn) and node.name == "factorial":
        found.append(node)
        node = node.args[0]
    return found


def _call(name: str, arguments: tuple[Node, ...], base: Node | None) -> Node:
    if name == "lg":
        return Fn("log", (*arguments, Int(10)))
    if name == "exp" and len(arguments) == 1:
        return Pow(Const("e"), arguments[0])
    if name == "log":
        return Fn("log", (*arguments, base)) if base is not None else Fn("log", arguments)
    if name in ("root", "cbrt"):
        return Fn("root", (arguments[0], Int(3) if name == "cbrt" else arguments[1] if len(arguments) > 1 else Int(2)))
    return Fn(name, arguments)


def parse(text: str, *, comma: str = "thousands") -> Node | Invalid:
    """Read one answer; Invalid (never an exception) where any part of it cannot be read.

    >>> parse("1/2")
    Div(num=Int(value=1), den=Int(value=2))
    >>> parse("x ( x + 1")
    Invalid(reason='unclosed bracket', position=9, malformed=True)
    """
    plain = to_ascii(text)
    if plain is None:
        return Invalid("bidirectional override", 0)
    try:
        tokens = tokenize(plain, comma)
        if not tokens:
            return Invalid("empty", 0, True)
        parser = _Parser(plain, tokens, open_bars=False)
        try:
            return parser.answer()
        except ParseError as error:
            if sum(1 for token in tokens if token.value == "|") < 4:
                return Invalid(str(error), error.position, error.malformed)
            return _Parser(plain, tokenize(plain, comma), open_bars=True).answer()
    except ParseError as error:
        return Invalid(str(error), error.position, error.malformed)
    except RecursionError:
        return Invalid("nested too deeply", 0)
