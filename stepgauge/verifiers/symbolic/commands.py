"""LaTeX commands as operands: fractions, roots, functions, sums, integrals, matrices, fonts and words."""

from __future__ import annotations

from stepgauge.verifiers.symbolic.cursor import END, Invalid, number, product
from stepgauge.verifiers.symbolic.nodes import (
    Apply,
    Big,
    Const,
    Div,
    Dots,
    Fn,
    Int,
    Matrix,
    Mul,
    Neg,
    Node,
    Pow,
    Quantity,
    Rel,
    Seq,
    SetOf,
    Sym,
    System,
    Text,
)
from stepgauge.verifiers.symbolic.primaries import Primaries
from stepgauge.verifiers.symbolic.tables import CANONICAL

_INVERSE = {name: "arc" + name for name in ["sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh"]}
_MATRICES = frozenset(
    [
        "matrix",
        "pmatrix",
        "bmatrix",
        "Bmatrix",
        "vmatrix",
        "Vmatrix",
        "smallmatrix",
        "array",
        "cases",
        "aligned",
        "align",
        "align*",
        "gathered",
        "split",
        "rcases",
    ]
)


_DOTS = {"dot": "'", "ddot": "''"}
_TABLES = frozenset(
    ("matrix", "pmatrix", "bmatrix", "Bmatrix", "vmatrix", "Vmatrix", "smallmatrix", "array", "cases", "rcases")
)


MAX_BRACES_IN_TEXT = 16  # a formula in \text{} is read anew, so nesting it would cost quadratic time


class Commands(Primaries):
    """Operands that begin with a command or a function name."""

    def argument(self, *, single: bool = False) -> Node:
        """The argument of a command: a braced group or, as in LaTeX, one token."""
        token = self.tok
        if token.value == "{" and token.kind == "open":
            return self.bracket() if self.at(2).value == "}" and self.at(1).kind == "num" else self.primary()
        if token.kind == "num":
            return number(self.digit())
        if token.kind == "op" and token.value == "-":
            self.advance()
            return Neg(self.argument(single=True))
        if single and token.kind not in ("id", "const", "open"):
            raise self.fail("bad argument")
        if token.kind == "id":
            self.advance()
            return Sym(token.value)
        if token.kind in ("const", "frac", "sqrt", "fn", "font", "text", "open"):
            return self.primary()
        raise self.fail("an argument is missing")

    def fraction(self) -> Node:
        self.advance()
        variable = self.derivative() if self.at(1).value in ("d", "partial") else None
        if variable is not None:
            return Big("diff", variable, None, None, self.multiplicative())
        braced = self.tok.value == "{" and self.at(1).kind == "num"
        top = self.argument()
        if braced and self.tok.kind == "num" and self.tok.value.isdigit():  # \\frac{12}35 means 12/35
            below = number(self.tok.value)
            self.advance()
            return Div(top, below)
        return Div(top, self.argument())

    def derivative(self) -> Sym | None:
        """``{d}{dx}`` right here, as a derivative operator."""
        window = [self.at(offset).value for offset in range(7)]
        if (
            window[:5] in (["{", "d", "}", "{", "d"], ["{", "partial", "}", "{", "partial"])
            and self.at(5).kind == "id"
            and window[6] == "}"
        ):
            self.move(self.pos + 7)
            return Sym(window[5])
        return None

    def root(self) -> Node:
        self.advance()
        index: Node = Int(2)
        if self.tok.value == "[":
            self.advance()
            index = self.additive()
            self.expect("]")
        if self.tok.kind == "num":
            inner = number(self.tok.value)
            self.advance()
        elif self.tok.kind == "op" and self.tok.value == "-":
            raise self.fail("an argument is missing")
        else:
            inner = self.primary()
        if isinstance(inner, Seq):
            raise self.fail("one value expected")
        return Fn("root", (inner, index))

    def binomial(self) -> Node:
        self.advance()
        top = self.argument()
        return Fn("binom", (top, self.argument()))

    def function(self) -> Node:
        name = CANONICAL.get(self.tok.value, self.tok.value)
        self.advance()
        base: Node | None = None
        power: Node | None = None
        while self.tok.value in ("^", "_") and self.tok.kind == "op":
            self.advance()
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
            while (
                self.tok.kind in ("id", "const", "sqrt", "frac") or (self.tok.kind == "open" and self.tok.value == "{")
            ) and not (self.integrals and self.tok.value == "d" and self.differential()):
                factors.append(self.power())
            if self.tok.value == "/" and self.at(1).kind in ("num", "id") and isinstance(factors[-1], (Sym, Const)):
                self.advance()
                factors = [Div(product(factors), self.power())]
            inner = product(factors)
        return (Neg(inner) if sign == "-" else inner,)

    def apply(self) -> Node:
        name = self.tok.value
        self.advance()
        if not name:
            raise self.fail("a name is missing")
        return Apply(name, self.arguments())

    def big(self) -> Node:
        op = self.tok.value
        self.advance()
        low: Node | None = None
        high: Node | None = None
        variable: Node = Sym("")
        while self.tok.value in ("_", "^") and self.tok.kind == "op":
            self.advance()
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
        self.advance()
        point = self.additive()
        if self.tok.value == "^" and self.at(1).value in ("+", "-"):
            self.move(self.pos + 2)
        self.expect("}")
        return variable, point

    def integral(self, low: Node | None, high: Node | None) -> Node:
        self.integrals += 1
        body: Node = Int(1) if self.differential() else self.additive()
        self.integrals -= 1
        variable = self.differential()
        if variable is None:
            raise self.fail("an integral needs its differential")
        self.move(self.pos + 2)
        return Big("int", variable, low, high, body)

    def environment(self) -> Node:
        name = self.tok.value
        self.advance()
        if name not in _MATRICES:
            raise self.fail(f"unknown environment {name!r}")
        if name == "array" and self.take("{"):
            while not self.take("}"):
                if self.tok.kind == "end":
                    raise self.fail("unclosed column specification")
                self.advance()
        if name not in _TABLES:
            self.drop_alignment(name)
        rows: list[tuple[Node, ...]] = []
        while not (self.tok.kind == "end" and self.tok.value == name):
            if self.tok is END:
                raise self.fail("unclosed environment")
            row = [self.cell()]
            while self.take("&"):
                row.append(self.cell())
            rows.append(tuple(row))
            if not self.take("\\\\") and not (self.tok.kind == "end" and self.tok.value == name):
                raise self.fail("unexpected in a matrix")
        self.advance()
        if not rows:
            raise self.fail("empty matrix")
        if name in ("vmatrix",):
            return Fn("det", (Matrix(tuple(rows)),))
        if name.endswith("matrix") or name == "array":
            if len({len(row) for row in rows}) != 1:
                raise self.fail("ragged matrix")
            return Matrix(tuple(rows))
        return System(tuple(row[0] for row in rows)) if all(len(row) == 1 for row in rows) else Matrix(tuple(rows))

    def drop_alignment(self, name: str) -> None:
        """Take the alignment marks out of ``aligned`` and its like."""
        end = next((i for i in range(self.pos, self.size) if self.tokens[i][:2] == ("end", name)), self.size)
        kept = [token for token in self.tokens[self.pos : end] if token.value != "&"]
        self.tokens[self.pos : end] = kept
        self.size = len(self.tokens)
        self.move(self.pos)

    def cell(self) -> Node:
        node = self.statement()
        self.take(",")
        return node

    def font(self) -> Node:
        font = self.tok.value
        if font in _DOTS:  # a derivative in time: part of the name
            self.advance()
            inner = self.argument()
            return Sym(inner.name + _DOTS[font]) if isinstance(inner, Sym) else Apply(font, (inner,))
        word = self.font_word()
        if word is None:
            self.advance()
            return self.argument()
        if len(word) == 1:
            return Const(word) if word in "ei" and font == "mathrm" else Sym(word)
        if CANONICAL.get(word, word) in _INVERSE or word in ("ln", "log", "exp", "lg", "cis"):
            return _call(CANONICAL.get(word, word), self.arguments(), None)
        if font in ("mathrm", "mathbf", "rm", "bf", "mathit", "mathsf"):
            return Text(word)
        return product([Sym(char) for char in word if char.isalpha()])

    def overline(self) -> Node:
        self.advance()
        inner = self.argument()
        letters = inner.args if isinstance(inner, Mul) else (inner,)
        if all(isinstance(item, Sym) and item.name.isupper() for item in letters):
            return inner
        return Fn("conj", (inner,))

    def blackboard(self) -> Node:
        name = self.tok.value
        self.advance()
        return Sym("\\" + name)

    def empty_set(self) -> Node:
        self.advance()
        return SetOf(())

    def ellipsis(self) -> Node:
        self.advance()
        return Dots()

    def words(self) -> Node:
        parts = []
        while self.tok.kind == "text":
            parts.append(self.tok.value.strip())
            self.advance()
        content = " ".join(parts)
        if len(content) == 1 and content.isalpha():
            return Const("e") if content == "e" else Sym(content)
        nested = content.count("{") > MAX_BRACES_IN_TEXT
        if (content[:1].isdigit() or content[:1] in "-(\\") and not nested:
            from stepgauge.verifiers.symbolic.parser import parse

            inner = parse(content)
            if not isinstance(inner, Invalid):
                return inner
        return Text(content)

    def currency(self) -> Node:
        name = self.tok.value
        self.advance()
        return Quantity(self.unary(), ((name, 1),))


def _call(name: str, arguments: tuple[Node, ...], base: Node | None) -> Node:
    if name == "lg":
        return Fn("log", (*arguments, Int(10)))
    if name == "exp" and len(arguments) == 1:
        return Pow(Const("e"), arguments[0])
    if name == "cis" and len(arguments) == 1:
        return Pow(Const("e"), Mul((Const("i"), arguments[0])))
    if name == "log":
        return Fn("log", (*arguments, base)) if base is not None else Fn("log", arguments)
    if name in ("root", "cbrt"):
        return Fn("root", (arguments[0], Int(3) if name == "cbrt" else arguments[1] if len(arguments) > 1 else Int(2)))
    return Fn(name, arguments)
