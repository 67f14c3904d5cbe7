"""A formula of physics to a syntax tree: names are opaque, nothing is evaluated, nothing is dropped.

The trees are those of the symbolic engine. Conventions are a physicist's: one letter is one name, a subscript belongs
to it, ``\\Delta x`` is one name, ``g(\\sin\\theta - \\mu)`` is a product, ``e`` is Euler's number as a base only.
"""

from __future__ import annotations

import re
from functools import lru_cache

from stepgauge.dag_scoring.lexing import (
    ACCENTS,
    FONTS,
    FUNCTIONS,
    GREEK,
    VARIANTS,
    VECTORS,
    Token,
    Unreadable,
    clean_name,
    tokenize,
)
from stepgauge.dag_scoring.quantities import unit_node
from stepgauge.verifiers.symbolic.nodes import (
    Add,
    Big,
    Const,
    Dec,
    Div,
    Fn,
    Int,
    Mul,
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
_ANGLES = frozenset("theta phi alpha beta psi delta gamma".split())
_INVERSE = {"sin": "arcsin", "cos": "arccos", "tan": "arctan", "sinh": "arcsinh", "cosh": "arccosh", "tanh": "arctanh"}
_CLOSE = {"(": ")", "[": "]", "{": "}"}
_STOP = frozenset(("end", "rel", "row"))
_BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{(.*)\}", re.DOTALL)
_PUNCTUATION = re.compile(r"[\s.,;]+$")


class _Reader:
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
        return self.tokens[self.pos]

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
                terms = [PlusMinus(_add(terms), self.product(), upper)]
            else:
                terms.append(self.signed())
        self.depth -= 1
        return _add(terms)

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
        closing = ("rangle", "cdot", "times", "pm", "mp", "end", "div", "rbrace", "rvert", "rVert", "over", "cup", "cap")
        return kind == "cmd" and value not in closing and not (value in ("circ", "prime"))

    def differential(self) -> bool:
        if self.tok.value not in ("d", "mathrm") or self.tok.kind not in ("id", "font"):
            return False
        following = self.at(1)
        if self.at(1).value == "^":
            return True
        return following.kind == "id" or (following.kind == "cmd" and following.value in GREEK | VECTORS)

    def product(self) -> Node:
        left = self.power()
        while True:
            if self.tok.kind == "cmd" and self.tok.value in ("cdot", "times", "div") or self.tok.value == "*":
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
                    left = _mul(left, right)
            elif self.tok.kind == "op" and self.tok.value == "/":
                self.pos += 1
                left = Div(left, self.denominator())
            elif self.starts():
                left = _mul(left, self.power())
            else:
                return left

    def denominator(self) -> Node:
        letters = self.tok.kind == "id" or (self.tok.kind == "cmd" and self.tok.value in GREEK)
        right = self.power()
        while letters and self.starts() and not self.tok.spaced and (
            self.tok.kind == "id" or (self.tok.kind == "cmd" and self.tok.value in GREEK)
        ):
            right = _mul(right, self.power())
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
                return unit_node(base, "deg" + letter.value.strip())
            return Div(_mul(base, Const("pi")), Int(180))
        if inner.value in ("dagger", "*", "ast", "star", "prime", "T", "+") and (
            not braced or self.at(2).value == "}"
        ):
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
            return _number(digit)
        if self.tok.value == "-":
            self.pos += 1
            return Neg(self.argument())
        return self.primary()

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
            elif self.tok.value == "^" and self.at(1).value in ("prime", "'"):
                self.pos += 2
                stem += "'"
            elif self.tok.value == "^" and self.at(1).value == "{" and self.at(2).value in ("prime", "'") and self.at(3).value == "}":
                self.pos += 4
                stem += "'"
            else:
                break
        if stem in self.calls and self.tok.value == "(" and self.at(2).value == ")":
            self.pos += 3
        elif self.tok.value == "(" and self.at(1).value in ("t", "x", "r", "z") and self.at(2).value == ")":
            self.pos += 3
        return Sym(stem)

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
            number = _number(value)
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
        if self.tok.kind == "cmd" and self.tok.value in ("times", "cdot") and self.at(1).value == "10" and self.at(2).value == "^":
            self.pos += 3
            number = _mul(number, Pow(Int(10), self.argument()))
        if self.tok.kind == "font":
            text = self.tok.value
            node = unit_node(number, text)
            if node is not None:
                self.pos += 1
                if self.tok.value == "^":
                    self.pos += 1
                    power = self.argument()
                    node = _mul(number, Pow(unit_node(_ONE, text) or _ONE, power))
                while self.tok.kind == "font" or (self.tok.value in ("/", "cdot") and self.at(1).kind == "font"):
                    divide = self.take("/")
                    self.take("cdot")
                    factor = unit_node(_ONE, self.tok.value)
                    if factor is None:
                        break
                    self.pos += 1
                    if self.take("^"):
                        factor = Pow(factor, self.argument())
                    node = Div(node, factor) if divide else _mul(node, factor)
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

    def command(self, value: str) -> Node:
        self.pos += 1
        if value in FUNCTIONS:
            return self.function(value)
        if value == "pi":
            return Const("pi") if self.tok.value != "_" else self.name("pi")
        if value == "infty":
            return Const("oo")
        if value == "Delta" or value == "delta":
            if value == "Delta" or (self.tok.kind == "id" and not self.tok.spaced and self.tok.value not in "i"):
                if self.tok.kind == "id" or (self.tok.kind == "cmd" and self.tok.value in GREEK | VECTORS):
                    inner = self.primary()
                    if isinstance(inner, Sym):
                        prefix = "vec:" if inner.name.startswith("vec:") else ""
                        return Sym(f"{prefix}{value} {inner.name.removeprefix('vec:')}")
            return self.name(value)
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

    def raw_name(self) -> str:
        if self.tok.value == "{":
            return clean_name(self.raw_group())
        value = self.tok.value
        self.pos += 1
        return value

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
        if first.kind == "cmd" and (first.value in _ANGLES or first.value not in GREEK):
            if not (first.value == "pi" or isinstance(node, Const)):
                return node
        while self.tok.kind in ("id", "num", "cmd") and self.starts() and (
            self.tok.kind != "cmd" or self.tok.value in GREEK or self.tok.value == "pi"
        ):
            following = self.tok
            node = _mul(node, self.power())
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
        return slash is not None and slash >= 2 and slash + 1 < len(rest) and rest[slash + 1].value in ("d", "partial") and all(
            token.kind in ("id", "cmd") or token.value in ("_", "{", "}", "'") or token.kind == "num" for token in rest[1:slash]
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

    def integral(self, kind: str) -> Node:
        low, high, _ = self.limits()
        if kind != "int":
            raise Unreadable(f"\\{kind} is not read")
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
            terms = _mul(terms, self.product())
        return Big("int", variable, low, high, terms)

    def _ends(self) -> bool:
        return self.tok.kind in _STOP or self.tok.value in ("+", "-", ")", "]", "}", ",", ".", "|", "=") or not self.starts()

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


def _number(text: str) -> Node:
    whole, _, decimals = text.partition(".")
    return Dec(int(whole + decimals or "0"), len(decimals)) if decimals else Int(int(whole))


def _add(terms: list[Node]) -> Node:
    return terms[0] if len(terms) == 1 else Add(tuple(terms))


def _mul(left: Node, right: Node) -> Node:
    return Mul((*left.args, right)) if isinstance(left, Mul) else Mul((left, right))


def _whole(node: Node) -> bool:
    return isinstance(node, Int)


def _derived(node: Big) -> str:
    inner = node.body
    return f"D({inner.name if isinstance(inner, Sym) else _derived(inner) if isinstance(inner, Big) else repr(inner)},{node.var.name})"


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
    text = _PUNCTUATION.sub("", latex).strip().strip("$")
    boxed = _BOXED.fullmatch(text)
    text = _PUNCTUATION.sub("", boxed[1] if boxed else text)
    if not text:
        raise Unreadable("empty")
    try:
        return _Reader(text).statement()
    except RecursionError:
        raise Unreadable("nested too deeply") from None
