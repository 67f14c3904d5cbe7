"""Tokens to a syntax tree: a hand-written, linear, total parser that consumes all input or says where it stopped."""

from __future__ import annotations

from bisect import bisect_left

from stepgauge.verifiers.symbolic.commands import Commands
from stepgauge.verifiers.symbolic.cursor import Invalid, number, product, quotient
from stepgauge.verifiers.symbolic.lexer import MAX_CHARS, ParseError, tokenize
from stepgauge.verifiers.symbolic.names import is_call, is_name
from stepgauge.verifiers.symbolic.nodes import (
    Add,
    Apply,
    Builder,
    Congruence,
    Const,
    Div,
    Fn,
    Int,
    ListOf,
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
)
from stepgauge.verifiers.symbolic.spellings import respell
from stepgauge.verifiers.symbolic.unicode import to_ascii
from stepgauge.verifiers.symbolic.units import si

__all__ = ["Invalid", "parse"]

_STARTS = frozenset(
    ["id", "const", "fn", "sqrt", "frac", "binom", "open", "font", "big", "bb", "over", "apply", "begin", "empty"]
)
_ENDS_OPERAND = frozenset(("end", "close", "rel"))
_VECTORS = frozenset(("vec", "mathbf", "boldsymbol", "bm", "hat"))
_PLAIN_OPERATORS = frozenset("+-*/,")
_SETLIKE = (Seq, SetOf, SetOp, Sym, Builder, Rel)


class _Parser(Commands):
    """Precedence climbing: answers, statements, sums, products, powers."""

    def answer(self) -> Node:
        self.take("=")
        first = self.statement()
        if self.pos >= self.size:
            return first
        groups: list[list[Node]] = [[first]]
        joiner = ","
        while self.pos < self.size:
            separator = self.tok
            if separator.value == ";" or separator.value == "\\\\":
                self.advance()
                groups.append([])
            elif separator.value == "," or separator.kind == "join":
                self.advance()
            else:
                raise self.fail("cannot be read from here")
            while self.tok.kind == "join" or self.tok.value in (",", "\\\\"):
                separator = self.tok if self.tok.kind == "join" else separator
                self.advance()
            if separator.kind == "join" and joiner != "or":
                joiner = separator.value
            groups[-1].append(self.statement())
        if len(groups) > 1 and any(len(group) > 1 for group in groups):
            return ListOf(tuple(_grouped(group) for group in groups), joiner)
        items = [item for group in groups for item in group]
        return items[0] if len(items) == 1 else ListOf(tuple(items), joiner)

    def statement(self) -> Node:
        while self.tok.kind == "prefix":
            self.advance()
        begin = self.pos
        first = self.ratio()
        if self.tok.kind in ("end", "close") or self.tok.value == ",":
            return first
        terms = [first]
        end = self.pos
        ops: list[str] = []
        while self.tok.kind == "rel" or (self.tok.value == "|" and not self.in_set and not self.bars):
            op = self.tok.value
            self.advance()
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
        named = ops[0] in ("=", "~", "equiv", "in") and is_name(terms[0], self.tokens[begin:end])
        if named and isinstance(terms[0], Mul) and is_call(self.tokens[begin:end]):
            terms[0] = _as_call(self.text[self.tokens[begin].start : self.tokens[end - 1].end], terms[0])
        return Rel(tuple("=" if op == "equiv" else op for op in ops), tuple(terms), named)

    def modulus(self) -> Node | None:
        """The modulus stated here: ``\\pmod{7}`` or ``(mod 7)``."""
        if self.tok.kind == "pmod":
            self.advance()
            return self.argument()
        start = self.pos
        if self.take("(") and self.take("mod"):
            inner = self.additive()
            self.expect(")")
            return inner
        self.move(start)
        return None

    def ratio(self) -> Node:
        first = self.additive()
        if self.tok.kind == "setop":
            first = self.setexpr(first)
        if self.tok.value != ":" or self.in_set:
            return first
        items = [first]
        while self.take(":"):
            items.append(self.additive())
        return Ratio(tuple(items))

    def setexpr(self, left: Node) -> Node:
        while self.tok.kind == "setop":
            op = self.tok.value
            self.advance()
            right = self.additive()
            left = SetOp(op, _as_set(left), _as_set(right))
        return left

    def additive(self) -> Node:
        sign = self.sign() if self.tok.kind == "op" else ""
        if sign == "±" or sign == "∓":
            terms: list[Node] = [PlusMinus(None, self.multiplicative(), 1 if sign == "±" else -1)]
        else:
            first = self.multiplicative()
            if self.tok.kind != "op" and sign != "-":
                return first
            terms = [Neg(first) if sign == "-" else first]
        while True:
            op = self.tok.value
            if self.tok.kind != "op" or op not in "+-±∓":
                break
            self.advance()
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
                self.advance()
                return self.tokens[self.pos - 1].value
            negative ^= self.tok.value == "-"
            seen = True
            self.advance()
        return "-" if negative else "+" if seen else ""

    def unary(self) -> Node:
        sign = self.sign()
        if sign in ("±", "∓"):
            raise self.fail("sign out of place")
        inner = self.power()
        return Neg(inner) if sign == "-" else inner

    def multiplicative(self) -> Node:
        first = self.unary() if self.tok.kind == "op" else self.power()
        if self.tok.kind in ("end", "close"):
            return first
        nums = [first]
        dens: list[Node] = []
        while True:
            token = self.tok
            kind, value = token.kind, token.value
            if kind == "op":
                if value == "*":
                    cross = self.is_cross(nums[-1])
                    self.advance()
                    if cross:
                        nums[-1] = _cross(nums[-1], self.unary())
                        continue
                    nums.append(self.unary())
                    continue
                if value == "/":
                    self.advance()
                    dens.append(self.denominator())
                    continue
                if value == "mod":
                    self.advance()
                    nums, dens = [Fn("mod", (quotient(nums, dens), self.multiplicative()))], []
                    continue
                if value in ("|", "|(") and self.opens_bar(value):
                    nums.append(self.power())
                    continue
                break
            if kind in ("text", "unit", "cur") or (kind == "font" and self.unit_font()):
                unit = self.unit()
                if unit is None:
                    raise self.fail("words out of place")
                nums, dens = [Quantity(quotient(nums, dens), unit)], []
                continue
            if kind == "num" and isinstance(nums[-1], Quantity) and len(nums) == 1 and not dens:
                nums = [self.compound(nums[0])]
                continue
            if kind not in _STARTS and not (kind == "num" and isinstance(nums[-1], (Pow, Fn, Div, Add)) and not dens):
                break
            if value == "(" and self.at(1).value == "mod":
                break
            if self.integrals and value == "d" and self.differential() is not None:
                break
            nums.append(self.power())
        return quotient(nums, dens)

    def compound(self, larger: Node) -> Node:
        """``2 h 30 min`` as one quantity in the larger unit."""
        smaller = self.multiplicative()
        if not isinstance(larger, Quantity) or not isinstance(smaller, Quantity) or larger.unit == smaller.unit:
            raise self.fail("cannot be read from here")
        (one, dims), (other, dims_other) = si(larger.unit), si(smaller.unit)
        if dims != dims_other or other >= one:
            raise self.fail("cannot be read from here")
        share = other / one
        part = Mul((smaller.value, Div(Int(share.numerator), Int(share.denominator))))
        return Quantity(Add((larger.value, part)), larger.unit)

    def is_cross(self, left: Node) -> bool:
        """Whether the sign here is ``\\times`` between two vectors, which does not commute."""
        following = self.at(1)
        if following.kind != "font" or following.value not in _VECTORS or not isinstance(left, (Sym, Apply, Neg)):
            return False
        return self.text.startswith("\\times", self.tok.start)

    def denominator(self) -> Node:
        factors = [self.unary()]
        if isinstance(factors[0], (Sym, Const, Pow)):
            while (
                self.tok.kind in ("id", "const")
                and not self.tok.spaced
                and not (self.integrals and self.tok.value == "d")
            ):
                factors.append(self.power())
        return product(factors)

    def opens_bar(self, value: str) -> bool:
        if value == "|(":
            return True
        if self.in_set and not self.bars:
            return False
        if not self.bars:
            return len(self.bar_tokens) > 1
        following = self.at(1)
        remaining = len(self.bar_tokens) - bisect_left(self.bar_tokens, self.pos)
        return self.open_bars and remaining >= self.bars + 2 and (following.kind in _STARTS or following.kind == "num")

    def power(self) -> Node:
        token = self.tok
        if token.kind in ("num", "id"):
            after = self.pos + 1
            following = self.tokens[after] if after < self.size else None
            if following is None or following.kind in _ENDS_OPERAND or following.value in _PLAIN_OPERATORS:
                self.advance()
                return number(token.value) if token.kind == "num" else Sym(token.value)
        base = self.primary()
        if self.tok.kind != "op":
            return base
        base = self.postfix(base)
        while self.tok.value == "^" and self.tok.kind == "op":
            self.advance()
            mark = self.mark()
            if mark == "°":
                base = Quantity(base, (("deg", 1),))
                unit = self.at(0)
                if unit.value in ("C", "F") or (unit.kind == "text" and unit.value.strip() in ("C", "F")):
                    self.advance()
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
        signs = ("°", "'", "*", "+", "-") if self.after_set() else ("°", "'", "*")
        if token.kind == "op" and token.value in signs:
            self.move(self.pos + (3 if braced else 1))
            return token.value
        return ""

    def after_set(self) -> bool:
        """Whether the caret here follows a set of numbers: ``\\mathbb{R}^+``."""
        return self.pos > 1 and self.tokens[self.pos - 2].kind == "bb"

    def exponent(self) -> Node:
        sign = self.sign()
        if sign in ("±", "∓"):
            raise self.fail("sign out of place")
        if self.tok.kind == "num":
            inner = number(self.tok.value)
            self.advance()
        else:
            inner = self.primary()
        if isinstance(inner, Sym):
            inner = self.postfix(inner)
        if self.tok.value == "^" and self.tok.kind == "op":
            self.enter()
            self.advance()
            inner = Pow(inner, self.exponent())
            self.depth -= 1
        elif self.tok.value == "!" and isinstance(inner, (Int, Sym)):
            self.advance()
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
            self.advance()

    def primary(self) -> Node:
        self.enter()
        token = self.tok
        kind = token.kind
        if kind == "num":
            node = self.numeral()
        elif kind == "id":
            node = self.identifier()
        elif kind == "const":
            self.advance()
            node = Sym("i") if token.value == "i" and self.index_i else Const(token.value)
            if token.value in ("e", "i") and self.tok.value == "_":
                node = Sym(token.value)
        elif kind == "open":
            node = self.bracket()
        elif kind in _HANDLERS:
            node = _HANDLERS[kind](self)
        elif token.value in ("|", "|("):
            node = self.absolute()
        else:
            raise self.fail("an operand is missing" if kind == "end" else f"unexpected {token.value!r}")
        self.depth -= 1
        return node


_HANDLERS = {
    "fn": _Parser.function, "sqrt": _Parser.root, "frac": _Parser.fraction, "binom": _Parser.binomial,
    "big": _Parser.big, "apply": _Parser.apply,
    "begin": _Parser.environment, "font": _Parser.font, "over": _Parser.overline, "bb": _Parser.blackboard,
    "empty": _Parser.empty_set,
    "dots": _Parser.ellipsis, "text": _Parser.words, "cur": _Parser.currency,
}  # fmt: skip


def _grouped(group: list[Node]) -> Node:
    if len(group) == 1:
        return group[0]
    if all(isinstance(item, Rel) for item in group):
        return System(tuple(group))
    return Seq("(", ")", tuple(group))


def _as_call(text: str, node: Mul) -> Apply:
    """``P(x)`` on the left of an equation is a function's value, not a product."""
    head, last = node.args[0], node.args[-1]
    name = head.name if isinstance(head, (Sym, Const)) else text.partition("(")[0]
    return Apply(name, last.items if isinstance(last, Seq) else (last,))


def _cross(left: Node, right: Node) -> Node:
    """A cross product, its factors in one order: it changes its sign where they are exchanged."""
    if left == right:
        return Int(0)
    if repr(left) > repr(right):
        return Neg(Apply("cross", (right, left)))
    return Apply("cross", (left, right))


def _as_set(node: Node) -> Node:
    return node if isinstance(node, _SETLIKE) else SetOf((node,))


def _sum(terms: list[Node]) -> Node:
    return terms[0] if len(terms) == 1 else Add(tuple(terms))


def _factorials(node: Node) -> list[Node]:
    found: list[Node] = []
    while isinstance(node, Fn) and node.name == "factorial":
        found.append(node)
        node = node.args[0]
    return found


def parse(text: str, *, comma: str = "thousands") -> Node | Invalid:
    """Read one answer; Invalid (never an exception) where any part of it cannot be read.

    >>> parse("1/2")
    Div(num=Int(value=1), den=Int(value=2))
    >>> parse("x ( x + 1")
    Invalid(reason='unclosed bracket', position=9, malformed=True)
    """
    if len(text) > MAX_CHARS:
        return Invalid("too long", MAX_CHARS)
    plain = to_ascii(text)
    if plain is None:
        return Invalid("bidirectional override", 0)
    plain = respell(plain)
    try:
        tokens = tokenize(plain, comma)
        if not tokens:
            return Invalid("empty", 0)
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
