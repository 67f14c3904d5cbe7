"""A cursor over the tokens of a formula, and the small builders of trees."""

from __future__ import annotations

from stepgauge.dag_scoring.lexing import GREEK, VECTORS, Token, Unreadable, clean_name, tokenize
from stepgauge.verifiers.symbolic.nodes import Add, Dec, Int, Mul, Node, Sym


class Cursor:
    """Position, look-ahead, names and groups."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenize(text)
        self.pos = 0
        self.depth = 0
        self.integrals = 0
        self.bars = 0
        self.calls: set[str] = set()

    @property
    def tok(self) -> Token:
        return self.tokens[min(self.pos, len(self.tokens) - 1)]

    def at(self, ahead: int) -> Token:
        return self.tokens[min(self.pos + ahead, len(self.tokens) - 1)]

    def take(self, value: str) -> bool:
        if self.tok.value == value and self.tok.kind != "end":
            self.pos += 1
            return True
        return False

    def expect(self, value: str) -> None:
        if not self.take(value):
            raise Unreadable(f"expected {value!r} at {self.tok.start}, got {self.tok.value!r}")

    def differential(self) -> bool:
        if self.tok.value not in ("d", "mathrm") or self.tok.kind not in ("id", "font"):
            return False
        following = self.at(1)
        if self.at(1).value == "^":
            return True
        return following.kind == "id" or (following.kind == "cmd" and following.value in GREEK | VECTORS)

    def raw_group(self) -> str:
        """The source of a braced group or of one token."""
        start = self.tok.start
        if not self.take("{"):
            value = self.tok.value
            self.pos += 1
            return value
        begin, level = self.pos, 1
        while level and self.tok.kind != "end":
            level += (self.tok.value == "{") - (self.tok.value == "}")
            self.pos += 1
        if level:
            raise Unreadable(f"unclosed brace at {start}")
        return "".join(token.value for token in self.tokens[begin : self.pos - 1])

    def name(self, stem: str) -> Node:
        """A name with its primes and subscripts."""
        while True:
            if self.take("'"):
                stem += "'"
            elif self.tok.value == "_" and self.tok.kind == "op":
                self.pos += 1
                stem += "_" + clean_name(self.raw_group())
            elif (
                self.tok.value == "^"
                and self.at(1).value == "{"
                and self.at(2).value == self.at(3).value == "prime"
                and self.at(4).value == "}"
            ):
                self.pos += 5
                stem += "''"
            elif self.tok.value == "^" and self.at(1).value in ("prime", "'"):
                self.pos += 2
                stem += "'"
            elif (
                self.tok.value == "^"
                and self.at(1).value == "{"
                and self.at(2).value in ("prime", "'")
                and self.at(3).value == "}"
            ):
                self.pos += 4
                stem += "'"
            else:
                break
        if (stem in self.calls and self.tok.value == "(" and self.at(2).value == ")") or (
            self.tok.value == "(" and self.at(1).value in ("t", "x", "r", "z") and self.at(2).value == ")"
        ):
            self.pos += 3
        return Sym(stem)

    def raw_name(self) -> str:
        if self.tok.value == "{":
            return clean_name(self.raw_group())
        value = self.tok.value
        self.pos += 1
        return value

    def sum(self) -> Node:
        """A sum of products; the reader on top has it."""
        raise NotImplementedError

    def product(self) -> Node:
        """A product of powers."""
        raise NotImplementedError

    def power(self) -> Node:
        """An operand with its exponents."""
        raise NotImplementedError

    def primary(self) -> Node:
        """One operand."""
        raise NotImplementedError

    def argument(self) -> Node:
        """A braced group or a single token."""
        raise NotImplementedError

    def denominator(self) -> Node:
        """What a slash divides by."""
        raise NotImplementedError

    def starts(self) -> bool:
        """Whether an operand begins here."""
        raise NotImplementedError


def make_number(text: str) -> Node:
    """A literal as written."""
    whole, _, decimals = text.partition(".")
    return Dec(int(whole + decimals or "0"), len(decimals)) if decimals else Int(int(whole))


def make_sum(terms: list[Node]) -> Node:
    """The sum of terms, or the one term."""
    return terms[0] if len(terms) == 1 else Add(tuple(terms))


def make_product(left: Node, right: Node) -> Node:
    """A product, flat on the left."""
    return Mul((*left.args, right)) if isinstance(left, Mul) else Mul((left, right))
