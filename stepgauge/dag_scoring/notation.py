"""Functions, fractions and derivatives, integrals, sums and cases of a formula."""

from __future__ import annotations

from stepgauge.dag_scoring.cursor import Cursor, make_product
from stepgauge.dag_scoring.lexing import GREEK, VECTORS, Unreadable
from stepgauge.verifiers.symbolic.nodes import Big, Const, Div, Fn, Int, Neg, Node, Pow, Rel, Sym

_ONE, _TWO = Int(1), Int(2)
_ANGLES = frozenset("theta phi alpha beta psi delta gamma".split())
_INVERSE = {"sin": "arcsin", "cos": "arccos", "tan": "arctan", "sinh": "arcsinh", "cosh": "arccosh", "tanh": "arctanh"}
_STOP = frozenset(("end", "rel", "row"))


class Notation(Cursor):
    """What has a notation of its own."""

    def function(self, name: str) -> Node:
        exponent: Node | None = None
        base: Node | None = None
        while self.tok.value in ("^", "_") and self.tok.kind == "op":
            below = self.tok.value == "_"
            self.pos += 1
            if below:
                base = self.argument()
            else:
                exponent = self.argument()
        argument = self.function_argument()
        if name == "log" and base is not None:
            node: Node = Div(Fn("ln", (argument,)), Fn("ln", (base,)))
        elif name == "log":
            node = Div(Fn("ln", (argument,)), Fn("ln", (Int(10),)))
        else:
            if exponent == Neg(_ONE) and name in _INVERSE:
                return Fn(_INVERSE[name], (argument,))
            node = Fn(name, (argument,))
        return node if exponent is None else Pow(node, exponent)

    def function_argument(self) -> Node:
        if self.tok.value in ("(", "[", "{") and self.tok.kind == "op":
            return self.power()
        if self.tok.kind == "op" and self.tok.value == "-":
            self.pos += 1
            return Neg(self.function_argument())
        first = self.tok
        node = self.power()
        ends = first.kind == "cmd" and (first.value in _ANGLES or first.value not in GREEK)
        if ends and not isinstance(node, Const):
            return node
        while (
            self.tok.kind in ("id", "num", "cmd")
            and self.starts()
            and (self.tok.kind != "cmd" or self.tok.value in GREEK or self.tok.value == "pi")
        ):
            following = self.tok
            node = make_product(node, self.power())
            if following.kind == "cmd" and following.value in _ANGLES:
                break
        if self.tok.kind == "op" and self.tok.value == "/":
            self.pos += 1
            node = Div(node, self.denominator())
        return node

    def fraction(self) -> Node:
        start = self.pos
        derived = self.leibniz()
        if derived is not None:
            return derived
        self.pos = start
        integrals, self.integrals = self.integrals, 0
        top = self.argument()
        bottom = self.argument()
        self.integrals = integrals
        return Div(top, bottom)

    def derivative_mark(self) -> bool:
        token = self.tok
        if token.kind == "font" and token.value.strip() == "d":
            return True
        return (token.kind == "id" and token.value == "d") or (token.kind == "cmd" and token.value == "partial")

    def order(self) -> int:
        if not self.take("^"):
            return 1
        node = self.argument()
        if not isinstance(node, Int) or not 1 <= node.value <= 6:
            raise Unreadable("order of a derivative")
        return node.value

    def leibniz(self) -> Node | None:
        """``\\frac{d^2 x}{dt^2}`` or ``\\frac{d}{dt}`` before its operand; None where the fraction is a plain one."""
        if not (self.tok.value == "{" and self.at(1).value in ("d", "partial")):
            return None
        self.pos += 1
        if not self.derivative_mark():
            return None
        self.pos += 1
        try:
            order = self.order()
            body = None if self.tok.value == "}" else self.product()
            self.expect("}")
            self.expect("{")
            variables: list[Sym] = []
            while self.tok.value != "}":
                if not self.derivative_mark():
                    return None
                self.pos += 1
                variable = self.primary()
                if isinstance(variable, Big):
                    variable = Sym(_derived(variable))
                if not isinstance(variable, Sym):
                    return None
                variables.extend([variable] * self.order())
            self.expect("}")
        except Unreadable:
            return None
        if len(variables) != order:
            return None
        if body is None:
            body = self.product() if self.tok.value != "(" else self.power()
        for variable in reversed(variables):
            body = Big("diff", variable, None, None, body)
        return body

    def leibniz_inline(self) -> bool:
        """``dv/dt`` written with a slash."""
        rest = self.tokens[self.pos : self.pos + 8]
        slash = next((k for k, token in enumerate(rest) if token.value == "/"), None)
        return (
            slash is not None
            and slash >= 2
            and slash + 1 < len(rest)
            and rest[slash + 1].value in ("d", "partial")
            and all(
                token.kind in ("id", "cmd") or token.value in ("_", "{", "}", "'") or token.kind == "num"
                for token in rest[1:slash]
            )
        )

    def leibniz_slash(self) -> Node:
        start = self.tok.start
        self.pos += 1
        order = self.order()
        body = self.primary()
        if self.tok.value != "/" or self.at(1).value not in ("d", "partial"):
            raise Unreadable(f"a lone differential at {start}")
        self.pos += 2
        variable = self.primary()
        if not isinstance(variable, Sym) or self.order() != order:
            raise Unreadable(f"derivative at {start}")
        for _ in range(order):
            body = Big("diff", variable, None, None, body)
        return body

    def nabla(self) -> Node:
        if self.tok.value == "^":
            self.pos += 1
            if self.argument() != _TWO:
                raise Unreadable("power of \\nabla")
            return Fn("laplacian", (self.power(),))
        if self.tok.value in ("cdot", "times"):
            name = "div" if self.tok.value == "cdot" else "curl"
            self.pos += 1
            return Fn(name, (self.power(),))
        return Fn("grad", (self.power(),))

    def limits(self) -> tuple[Node | None, Node | None, Sym | None]:
        low = high = None
        index = None
        for _ in range(2):
            if self.tok.value == "_" and self.tok.kind == "op":
                self.pos += 1
                if self.take("{"):
                    low = self.sum()
                    if self.tok.value == "=" and isinstance(low, (Sym, Const)):
                        self.pos += 1
                        index = low if isinstance(low, Sym) else Sym("i")
                        low = self.sum()
                    self.expect("}")
                else:
                    low = self.argument()
            elif self.tok.value == "^" and self.tok.kind == "op":
                self.pos += 1
                high = self.argument()
        return low, high, index

    def opaque(self, kind: str) -> Node:
        """A contour, surface or volume integral: one name, made of its own source up to the end of the term."""
        begin, level = self.pos, 0
        while self.tok.kind not in ("end", "rel", "row") and not (
            level == 0 and self.tok.value in ("+", "-", ")", "}", "]")
        ):
            level += (self.tok.value in ("(", "[", "{")) - (self.tok.value in (")", "]", "}"))
            self.pos += 1
        values = ["vec" if token.value in VECTORS else token.value for token in self.tokens[begin : self.pos]]
        if not values:
            raise Unreadable(f"nothing under \\{kind}")
        return Sym(f"{kind} " + " ".join(value for value in values if value not in ("{", "}")))

    def integral(self, kind: str) -> Node:
        if kind != "int":
            return self.opaque(kind)
        low, high, _ = self.limits()
        self.integrals += 1
        terms: Node = _ONE
        if not self.differential():
            terms = self.sum_inside()
        if not self.differential():
            raise Unreadable("an integral without a differential")
        self.pos += 1
        variable = self.primary()
        self.integrals -= 1
        if not isinstance(variable, Sym):
            raise Unreadable("variable of an integral")
        if low is None and high is None and not self._ends():
            terms = make_product(terms, self.product())
        return Big("int", variable, low, high, terms)

    def _ends(self) -> bool:
        return (
            self.tok.kind in _STOP
            or self.tok.value in ("+", "-", ")", "]", "}", ",", ".", "|", "=")
            or not self.starts()
        )

    def sum_inside(self) -> Node:
        if self.tok.kind == "cmd" and self.tok.value in ("frac", "dfrac", "tfrac"):
            moved = self.differential_on_top()
            if moved is not None:
                return moved
        return self.sum()

    def differential_on_top(self) -> Node | None:
        r"""``\frac{dx}{x}`` under an integral: the differential is moved behind the fraction."""
        if not (self.at(1).value == "{" and self.at(2).value == "d" and self.at(3).kind in ("id", "cmd")):
            return None
        start = self.pos
        self.pos += 2
        head = self.tokens[self.pos : self.pos + 2]
        self.pos += 1
        variable = self.primary()
        span = self.tokens[start + 3 : self.pos]
        if not isinstance(variable, Sym) or not self.take("}"):
            self.pos = start
            return None
        integrals, self.integrals = self.integrals, 0
        bottom = self.argument()
        self.integrals = integrals
        self.tokens[self.pos : self.pos] = [head[0], *span]
        return Div(_ONE, bottom)

    def big_sum(self, kind: str) -> Node:
        low, high, index = self.limits()
        body = self.product()
        if index is None or low is None or high is None:
            raise Unreadable(f"\\{kind} without an index and two limits")
        return Big(kind, index, low, high, body)

    def environment(self) -> Node:
        name = self.raw_group()
        if name not in ("cases", "dcases"):
            raise Unreadable(f"environment {name!r}")
        parts: list[Node] = []
        while not (self.tok.kind == "cmd" and self.tok.value == "end"):
            parts.append(self.sum())
            self.take(",")
            if self.tok.kind == "font" and self.tok.value.strip() in ("if", "for", "when"):
                self.pos += 1
            terms, ops = [self.sum()], []
            while self.tok.kind == "rel":
                ops.append(self.tok.value)
                self.pos += 1
                terms.append(self.sum())
            if not ops:
                raise Unreadable("a case without a condition")
            parts.append(Rel(tuple(ops), tuple(terms)))
            self.take(",")
            if self.tok.kind == "row":
                self.pos += 1
        self.pos += 1
        self.raw_group()
        return Fn("piecewise", tuple(parts))


def _derived(node: Big) -> str:
    inner = node.body
    name = inner.name if isinstance(inner, Sym) else _derived(inner) if isinstance(inner, Big) else repr(inner)
    return f"D({name},{node.var.name})"
