"""A formula of physics to a syntax tree: names are opaque, nothing is evaluated, nothing is dropped.

The trees are those of the symbolic engine. Conventions are a physicist's: one letter is one name, a subscript belongs
to it, ``\\Delta x`` is one name, ``g(\\sin\\theta - \\mu)`` is a product, ``e`` is Euler's number as a base only.
"""

from __future__ import annotations

import re
from functools import lru_cache

from stepgauge.dag_scoring.cursor import make_number, make_product, make_sum
from stepgauge.dag_scoring.lexing import (
    ACCENTS,
    FONTS,
    FUNCTIONS,
    GREEK,
    MAX_CHARS,
    VECTORS,
    Token,
    Unreadable,
    clean_name,
)
from stepgauge.dag_scoring.notation import Notation
from stepgauge.dag_scoring.quantities import unit_node
from stepgauge.verifiers.symbolic.nodes import (
    Big,
    Const,
    Div,
    Fn,
    Int,
    Neg,
    Node,
    PlusMinus,
    Pow,
    Rel,
    Sym,
)

__all__ = ["Unreadable", "read_formula"]

MAX_DEPTH = 60
_ONE, _TWO = Int(1), Int(2)
_CLOSE = {"(": ")", "[": "]", "{": "}"}
_BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{(.*)\}", re.DOTALL)
_PUNCTUATION = re.compile(r"[\s.,;]+$")


class _Reader(Notation):
    """Precedence climbing: statements, sums, products, powers, operands."""

    def statement(self) -> Node:
        terms, ops = [self.side()], []
        while self.tok.kind == "rel":
            ops.append(self.tok.value)
            self.pos += 1
            terms.append(self.side())
        if self.tok.kind != "end":
            raise Unreadable(f"{self.tok.value!r} at {self.tok.start} cannot be read")
        return Rel(tuple(ops), tuple(terms)) if ops else terms[0]

    def side(self) -> Node:
        call = self.call_on_left()
        return call if call is not None else self.sum()

    def call_on_left(self) -> Node | None:
        """``v(t)`` alone on a side is the value of v, one name."""
        start = self.pos
        if self.tok.kind not in ("id", "cmd") or (self.tok.kind == "cmd" and self.tok.value not in GREEK | VECTORS):
            return None
        try:
            name = self.primary()
            if isinstance(name, Sym) and self.take("("):
                while self.tok.kind in ("id", "cmd") and (self.tok.kind == "id" or self.tok.value in GREEK):
                    self.primary()
                    if not self.take(","):
                        break
                if self.take(")") and self.tok.kind in ("rel", "end"):
                    self.calls.add(name.name)
                    return name
        except Unreadable:
            pass
        self.pos = start
        return None

    def sum(self) -> Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unreadable("nested too deeply")
        terms = [self.signed()]
        while self.tok.kind in ("op", "cmd") and self.tok.value in ("+", "-", "pm", "mp"):
            if self.tok.value in ("pm", "mp"):
                upper = 1 if self.tok.value == "pm" else -1
                self.pos += 1
                terms = [PlusMinus(make_sum(terms), self.product(), upper)]
            else:
                terms.append(self.signed())
        self.depth -= 1
        return make_sum(terms)

    def signed(self) -> Node:
        negative = False
        while self.tok.kind == "op" and self.tok.value in ("+", "-"):
            negative ^= self.tok.value == "-"
            self.pos += 1
        if self.tok.kind == "cmd" and self.tok.value in ("pm", "mp"):
            upper = 1 if self.tok.value == "pm" else -1
            self.pos += 1
            return PlusMinus(None, self.product(), upper)
        term = self.product()
        return Neg(term) if negative else term

    def starts(self) -> bool:
        kind, value = self.tok.kind, self.tok.value
        if kind in ("num", "id", "font"):
            return not (self.integrals and self.differential())
        if kind == "op":
            return value in ("(", "[", "{") or (value in ("|", "‖") and self.bars == 0)
        closing = (
            "rangle",
            "cdot",
            "times",
            "pm",
            "mp",
            "end",
            "div",
            "rbrace",
            "rvert",
            "rVert",
            "over",
            "cup",
            "cap",
        )
        return kind == "cmd" and value not in closing and value not in ("circ", "prime")

    def product(self) -> Node:
        left = self.power()
        while True:
            if (self.tok.kind == "cmd" and self.tok.value in ("cdot", "times", "div")) or self.tok.value == "*":
                op = self.tok.value
                self.pos += 1
                negative = False
                while self.tok.kind == "op" and self.tok.value in ("+", "-"):
                    negative ^= self.tok.value == "-"
                    self.pos += 1
                right = self.power()
                right = Neg(right) if negative else right
                if op == "div":
                    left = Div(left, right)
                elif op == "cdot":
                    left = Fn("dot", (left, right))
                elif op == "times":
                    left = Fn("cross", (left, right))
                else:
                    left = make_product(left, right)
            elif self.tok.kind == "op" and self.tok.value == "/":
                self.pos += 1
                left = Div(left, self.denominator())
            elif self.starts():
                left = make_product(left, self.power())
            else:
                return left

    def denominator(self) -> Node:
        letters = self.tok.kind == "id" or (self.tok.kind == "cmd" and self.tok.value in GREEK)
        right = self.power()
        while (
            letters
            and self.starts()
            and not self.tok.spaced
            and (self.tok.kind == "id" or (self.tok.kind == "cmd" and self.tok.value in GREEK))
        ):
            right = make_product(right, self.power())
        return right

    def power(self) -> Node:
        base = self.primary()
        while self.tok.kind == "op" and self.tok.value in ("^", "!", "'", "%"):
            if self.take("!"):
                base = Fn("factorial", (base,))
            elif self.take("%"):
                base = Div(base, Int(100))
            elif self.tok.value == "'":
                break
            else:
                self.pos += 1
                base = self.superscript(base)
        return base

    def superscript(self, base: Node) -> Node:
        braced = self.tok.value == "{"
        inner = self.at(1) if braced else self.tok
        if inner.kind == "cmd" and inner.value in ("circ", "degree"):
            self.pos += 1 + braced
            if braced:
                self.expect("}")
            letter = self.tok
            if letter.value.strip() in ("C", "F") and letter.kind in ("font", "id"):
                self.pos += 1
                return unit_node(base, "deg" + letter.value.strip()) or base
            return Div(make_product(base, Const("pi")), Int(180))
        if inner.value in ("dagger", "*", "ast", "star", "prime", "T", "+") and (not braced or self.at(2).value == "}"):
            self.pos += 1 + 2 * braced
            if inner.value == "prime" and isinstance(base, Sym):
                return Sym(base.name + "'")
            return Fn("dagger" if inner.value in ("dagger", "+") else "conj", (base,))
        exponent = self.argument()
        if isinstance(base, Sym) and base.name == "e" and not _whole(exponent):
            return Fn("exp", (exponent,))
        return Pow(base, exponent)

    def argument(self) -> Node:
        """A braced group or a single token, as TeX reads it."""
        if self.take("{"):
            inner = self.sum()
            if self.tok.kind == "rel":
                raise Unreadable(f"relation in a group at {self.tok.start}")
            self.expect("}")
            return inner
        if self.tok.kind == "num":
            token = self.tok
            digit = token.value[0]
            if len(token.value) > 1:
                self.tokens[self.pos] = Token("num", token.value[1:], False, token.start + 1)
            else:
                self.pos += 1
            return make_number(digit)
        if self.tok.value == "-":
            self.pos += 1
            return Neg(self.argument())
        return self.primary()

    def primary(self) -> Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unreadable("nested too deeply")
        node = self._primary()
        self.depth -= 1
        return node

    def _primary(self) -> Node:
        token = self.tok
        kind, value = token.kind, token.value
        if kind == "num":
            self.pos += 1
            number = make_number(value)
            return self.with_unit(number)
        if kind == "id":
            if value == "d" and self.leibniz_inline():
                return self.leibniz_slash()
            self.pos += 1
            if value in ("i", "j") and not (self.tok.kind == "op" and self.tok.value in ("_", "'")):
                return Const("i") if value == "i" else Sym("j")
            return self.name(value)
        if kind == "font":
            self.pos += 1
            stem = clean_name(value)
            if stem in FUNCTIONS:
                return self.function(stem)
            if stem == "e" and self.tok.value == "^":
                return Sym("e")
            if not stem:
                raise Unreadable("empty text")
            return self.name(stem)
        if kind == "op":
            return self.bracket(value)
        if kind == "cmd":
            return self.command(value)
        raise Unreadable(f"an operand is missing at {token.start}")

    def with_unit(self, number: Node) -> Node:
        if (
            self.tok.kind == "cmd"
            and self.tok.value in ("times", "cdot")
            and self.at(1).value == "10"
            and self.at(2).value == "^"
        ):
            self.pos += 3
            number = make_product(number, Pow(Int(10), self.argument()))
        if self.tok.kind == "font":
            text = self.tok.value
            node = unit_node(number, text)
            if node is not None:
                self.pos += 1
                if self.tok.value == "^":
                    self.pos += 1
                    power = self.argument()
                    node = make_product(number, Pow(unit_node(_ONE, text) or _ONE, power))
                while self.tok.kind == "font" or (self.tok.value in ("/", "cdot") and self.at(1).kind == "font"):
                    divide = self.take("/")
                    self.take("cdot")
                    factor = unit_node(_ONE, self.tok.value)
                    if factor is None:
                        break
                    self.pos += 1
                    if self.take("^"):
                        factor = Pow(factor, self.argument())
                    node = Div(node, factor) if divide else make_product(node, factor)
                return node
        return number

    def bracket(self, value: str) -> Node:
        if value in ("|", "‖"):
            self.pos += 1
            self.bars += 1
            inner = self.sum()
            self.bars -= 1
            self.expect(value)
            return Fn("abs", (inner,))
        if value not in _CLOSE:
            raise Unreadable(f"{value!r} at {self.tok.start} is out of place")
        self.pos += 1
        if value == "{" and self.tok.value == "}":
            self.pos += 1
            return self.primary()
        bars, self.bars = self.bars, 0
        integrals, self.integrals = self.integrals, 0 if value != "{" else self.integrals
        inner = self.sum()
        if value == "[" and self.take(","):
            inner = Fn("commutator", (inner, self.sum()))
        elif value == "(" and self.tok.value == ",":
            raise Unreadable(f"a list of arguments at {self.tok.start}")
        self.bars, self.integrals = bars, integrals
        self.expect(_CLOSE[value])
        return inner

    def difference(self) -> Node:
        """``\\Delta x``, one name."""
        if self.tok.kind != "id" and not (self.tok.kind == "cmd" and self.tok.value in GREEK | VECTORS):
            return self.name("Delta")
        inner = self.primary()
        if not isinstance(inner, Sym):
            raise Unreadable(f"\\Delta before something that is no name, at {self.tok.start}")
        prefix = "vec:" if inner.name.startswith("vec:") else ""
        return Sym(f"{prefix}Delta {inner.name.removeprefix('vec:')}")

    def command(self, value: str) -> Node:
        self.pos += 1
        if value in FUNCTIONS:
            return self.function(value)
        if value == "pi":
            return Const("pi") if self.tok.value != "_" else self.name("pi")
        if value == "infty":
            return Const("oo")
        if value == "Delta":
            return self.difference()
        if value in GREEK:
            return self.name(value)
        if value in ("frac", "dfrac", "tfrac", "cfrac"):
            return self.fraction()
        if value == "sqrt":
            index = None
            if self.take("["):
                index = self.sum()
                self.expect("]")
            inner = self.argument()
            return Fn("sqrt", (inner,)) if index is None else Pow(inner, Div(_ONE, index))
        if value in VECTORS:
            inner_text = self.raw_name()
            return self.name(f"vec:{inner_text}")
        if value in ("dot", "ddot", "dddot"):
            inner = self.argument()
            node: Node = inner
            for _ in range(len(value) - 2):
                node = Big("diff", Sym("t"), None, None, node)
            if isinstance(inner, Sym) and self.tok.value == "_":
                renamed = self.name(inner.name)
                node = renamed
                for _ in range(len(value) - 2):
                    node = Big("diff", Sym("t"), None, None, node)
            return node
        if value in ACCENTS:
            inner_text = self.raw_name()
            if value in ("hat", "widehat"):
                return self.name(f"hat:{inner_text}")
            return self.name(f"{value}:{inner_text}")
        if value == "nabla":
            return self.nabla()
        if value in ("int", "oint", "iint", "oiint", "iiint"):
            return self.integral(value)
        if value in ("sum", "prod"):
            return self.big_sum(value)
        if value == "langle":
            begin = self.pos
            level = 1
            while level and self.tok.kind != "end":
                level += (self.tok.value == "langle") - (self.tok.value == "rangle")
                self.pos += 1
            if level:
                raise Unreadable("unclosed \\langle")
            inside = " ".join(token.value for token in self.tokens[begin : self.pos - 1])
            return self.name(f"<{inside}>")
        if value == "partial":
            self.pos -= 1
            return self.leibniz_slash()
        if value in ("lvert", "lVert"):
            inner = self.sum()
            self.expect("rvert" if value == "lvert" else "rVert")
            return Fn("abs", (inner,))
        if value in ("boxed", "fbox", "underbrace", "overbrace", "mathop"):
            return self.argument()
        if value == "begin":
            return self.environment()
        if value in FONTS:
            return self.argument()
        if value in ("max", "min"):
            raise Unreadable(f"\\{value} outside a subscript")
        raise Unreadable(f"unknown command \\{value}")


def _whole(node: Node) -> bool:
    return isinstance(node, Int)


@lru_cache(maxsize=4096)
def read_formula(latex: str) -> Node:
    """The syntax tree of one formula.

    Args:
        latex: a formula without math delimiters; trailing punctuation is dropped.

    Raises:
        Unreadable: some part cannot be read. Nothing is ever left out silently.

    Example:
        >>> read_formula(r"F = m a,").ops
        ('=',)
    """
    if len(latex) > MAX_CHARS:
        raise Unreadable(f"longer than {MAX_CHARS} characters")
    text = _PUNCTUATION.sub("", latex).strip().strip("$")
    boxed = _BOXED.fullmatch(text)
    text = _PUNCTUATION.sub("", boxed[1] if boxed else text)
    if not text:
        raise Unreadable("empty")
    try:
        return _Reader(text).statement()
    except RecursionError:
        raise Unreadable("nested too deeply") from None
