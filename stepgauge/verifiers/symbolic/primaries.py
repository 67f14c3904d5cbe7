"""The plain operands: numerals, names, brackets, absolute values."""

from __future__ import annotations

from stepgauge.verifiers.symbolic.cursor import Cursor
from stepgauge.verifiers.symbolic.cursor import number as numeral_node
from stepgauge.verifiers.symbolic.lexer import Token
from stepgauge.verifiers.symbolic.nodes import (
    Add,
    Apply,
    BaseNum,
    Builder,
    Div,
    Fn,
    Int,
    Node,
    Seq,
    SetOf,
    Sym,
    System,
    Text,
)

_BASES = {
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "sixteen": 16,
}
_CLOSERS = {
    "(": (")", "]"),
    "[": ("]", ")"),
    "{": ("}",),
    "\\{": ("\\}", "}"),
    "lfloor": ("rfloor",),
    "lceil": ("rceil",),
}


class Primaries(Cursor):
    """Operands without commands."""

    def numeral(self) -> Node:
        token = self.tok
        self.advance()
        if self.tok.value == "_":
            self.advance()
            inner = self.argument(single=True)
            if isinstance(inner, Text):
                inner = Int(_BASES.get(inner.value.strip().lower(), 0))
            if not isinstance(inner, Int) or not 2 <= inner.value <= 36 or not token.value.isdigit():
                raise self.fail("not a number base")
            return BaseNum(token.value, inner.value)
        node = numeral_node(token.value)
        if self.tok.kind == "over" or (self.tok.value == "." and self.at(1).kind == "over"):
            return self.repeating(token)
        if not isinstance(node, Int):
            if self.tok.kind == "dots":
                self.advance()
            return node
        if self.tok.kind == "frac":
            start = self.pos
            fraction = self.fraction()
            if isinstance(fraction, Div) and _proper(fraction):
                return Add((node, fraction))
            self.move(start)
        elif self.tok.kind == "num" and self.tok.spaced and self.at(1).value == "/" and self.at(2).kind == "num":
            top, below = self.tok.value, self.at(2).value
            if top.isdigit() and below.isdigit() and 0 < int(top) < int(below):
                self.move(self.pos + 3)
                return Add((node, Div(Int(int(top)), Int(int(below)))))
        return node

    def repeating(self, token: Token) -> Node:
        """``0.1\\overline{6}`` as an exact fraction."""
        self.take(".")
        self.advance()
        self.take("{")
        period = self.tok.value
        whole, _, fixed = token.value.partition(".")
        if not period.isdigit() or len(period) > 60 or not whole.isdigit():
            raise self.fail("not a repeating decimal")
        self.advance()
        if self.tok.value == "}":
            self.advance()
        scale = 10 ** len(fixed)
        nines = scale * (10 ** len(period) - 1)
        return Div(Int(int(whole + fixed + period) - int(whole + fixed)), Int(nines))

    def identifier(self) -> Sym | Apply:
        name = self.tok.value
        self.advance()
        if name == "Delta" and self.tok.kind == "id" and self.tok.value != "Delta":
            inner = self.identifier()
            return inner if isinstance(inner, Apply) else Sym("Delta " + inner.name)
        if self.tok.kind == "num" and not self.tok.spaced and "\\" not in self.text and self.tok.value.isdigit():
            name += "_" + self.tok.value
            self.advance()
        while self.tok.value in ("_", "'") and self.tok.kind == "op":
            if self.tok.value == "_":
                name += self.subscript()
            else:
                self.advance()
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
            self.advance()
            while self.tok.kind == "join":
                self.advance()
            items.append(self.statement())
        closer = self.tok.value
        self.advance()
        return items, closer

    def bracket(self) -> Node:
        opener = self.tok.value
        closers = _CLOSERS[opener]
        if self.at(2).value == closers[0] and opener in ("{", "("):  # one token in brackets
            only = self.at(1)
            if only.kind == "num" or (only.kind == "id" and only.value != "Delta"):
                self.move(self.pos + 3)
                return numeral_node(only.value) if only.kind == "num" else Sym(only.value)
        bars, in_set, integrals = self.bars, self.in_set, self.integrals
        self.bars, self.in_set, self.integrals = (
            0,
            self.builders and opener in ("\\{", "{") and self.looks_like_builder(),
            0,
        )
        self.advance()
        if self.tok.value in closers:
            if opener == "\\{":
                self.advance()
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
                self.advance()
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
            self.advance()
            below = self.statement()
            self.expect(closers[0])
            return Div(top, below) if which == "over" else Fn("binom", (top, below))
        if self.tok.value in closers:
            items, closer = [first], self.tok.value
            self.advance()
        elif self.tok.value in (",", ";") or self.tok.kind == "join":
            self.advance()
            while self.tok.kind == "join":
                self.advance()
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
        self.advance()
        self.bars += opener == "|"
        inner = self.additive()
        if self.tok.value not in ("|", "|)"):
            raise self.fail("unclosed |")
        self.bars -= opener == "|"
        self.advance()
        return Fn("abs", (inner,))


def _proper(fraction: Div) -> bool:
    top, below = fraction.num, fraction.den
    return isinstance(top, Int) and isinstance(below, Int) and 0 < top.value < below.value
