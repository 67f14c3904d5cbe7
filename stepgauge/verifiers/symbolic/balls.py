"""Complex ball arithmetic: rigorous enclosures of a formula's value at secret random points, at rising precision."""

from __future__ import annotations

import random
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from flint import acb, arb, ctx, fmpq

from stepgauge.verifiers.symbolic import cost
from stepgauge.verifiers.symbolic.exact import NotRational, decimal_value, rational, term_range
from stepgauge.verifiers.symbolic.modular import fingerprint
from stepgauge.verifiers.symbolic.nodes import (
    Add,
    Apply,
    BaseNum,
    Big,
    Const,
    Dec,
    Div,
    Dots,
    Fn,
    Int,
    Mul,
    Neg,
    Node,
    Percent,
    Pow,
    Quantity,
    Sym,
)

Ball = Any  # acb; flint carries no types
_LOCK = threading.RLock()  # the working precision of flint is one global
_SEED = secrets.token_hex(16)
_MAX_MAGNITUDE = 1 << 20  # bits of an exponent's argument


class NotNumeric(ArithmeticError):
    """The formula has parts without a numeric value (a limit, an unknown operator)."""


@lru_cache(maxsize=8192)
def point_value(name: str, point: int) -> Any:
    """The secret value of a symbol at a sample point: points 0..2 positive, 3 negative, 4 of either sign."""
    source = random.Random(f"{_SEED} {name} {point}")
    low, high = ((30, 97), (103, 290), (310, 700), (20, 300), (20, 300))[point % 5]
    value = fmpq(source.randint(low * 1009, high * 1009), 100 * 1009)
    return -value if point == 3 or (point > 3 and source.random() < 0.5) else value


class Evaluator:
    """Values of nodes at one assignment; ``odd_real`` takes odd roots of negative reals as real."""

    def __init__(
        self,
        point: int,
        *,
        odd_real: bool = True,
        values: Mapping[str, Any] | None = None,
        positive: frozenset[str] = frozenset(),
    ) -> None:
        self.point = point
        self.odd_real = odd_real
        self.values: dict[str, Any] = dict(values or {})
        self.positive = positive
        self.steps = 0

    def value(self, node: Node) -> Ball:
        self.steps += 1
        if self.steps > 20_000:
            raise NotNumeric("too many operations")
        kind = type(node)
        if kind is Int:
            return acb(node.value)  # type: ignore[attr-defined]
        handler = _HANDLERS.get(kind)
        if handler is None:
            raise NotNumeric(kind.__name__)
        return handler(self, node)

    def sym(self, node: Sym) -> Ball:
        found = self.values.get(node.name)
        if found is None:
            value = point_value(node.name, self.point)
            found = acb(abs(value) if node.name in self.positive else value)
        return found

    def add(self, node: Add) -> Ball:
        total = acb(0)
        for arg in node.args:
            total += self.value(arg)
        return total

    def mul(self, node: Mul) -> Ball:
        total = acb(1)
        for arg in node.args:
            total *= self.value(arg)
        return total

    def div(self, node: Div) -> Ball:
        return self.value(node.num) / self.value(node.den)

    def pow(self, node: Pow) -> Ball:
        exact = rational(node.exp)
        if exact is not None and exact.q == 1:
            return self.value(node.base) ** int_exponent(exact)
        base = self.value(node.base)
        if exact is not None and self.odd_real and int(exact.q) % 2 and is_negative(base):
            magnitude = (-base) ** acb(exact)
            return -magnitude if int(exact.p) % 2 else magnitude
        exponent = acb(exact) if exact is not None else self.value(node.exp)
        check_magnitude(exponent)
        if isinstance(node.base, Const) and node.base.name == "e":
            return exponent.exp()
        return base**exponent

    def const(self, node: Const) -> Ball:
        if node.name == "pi":
            return acb.pi()
        if node.name == "e":
            return acb(1).exp()
        if node.name == "i":
            return acb(0, 1)
        raise NotNumeric("infinity in a formula")

    def fn(self, node: Fn) -> Ball:
        name = node.name
        if name == "root" and len(node.args) == 2:
            return self.root(self.value(node.args[0]), node.args[1])
        function = _FUNCTIONS.get(name)
        if function is None:
            raise NotNumeric(name)
        values = [self.value(arg) for arg in node.args]
        try:
            return function(*values)
        except TypeError:
            raise cost.Undefined(f"{name} of {len(values)} values") from None

    def root(self, value: Ball, index_node: Node) -> Ball:
        if index_node == Int(2):
            return value.sqrt()
        index = rational(index_node)
        if index is None or index == 0:
            return value ** (1 / self.value(index_node))
        if self.odd_real and index.q == 1 and int(index.p) % 2 and is_negative(value):
            return -((-value) ** acb(1 / index))
        return value ** acb(1 / index)

    def big(self, node: Big) -> Ball:
        if node.op == "int" and node.low is not None and node.high is not None:
            return self.integral(node)
        if node.low is None or node.high is None:
            raise NotNumeric(node.op)
        try:
            steps = term_range(node, rational(node.low), rational(node.high))
        except (NotRational, cost.TooLarge):
            raise NotNumeric(node.op) from None
        total = acb(0) if node.op == "sum" else acb(1)
        before = self.values.get(node.var.name)
        for index in steps:
            self.values[node.var.name] = acb(index)
            term = self.value(node.body)
            total = total + term if node.op == "sum" else total * term
        self.restore(node.var.name, before)
        return total

    def integral(self, node: Big) -> Ball:
        if any(isinstance(part, Big) for part in (node.body,)) or node.low is None or node.high is None:
            raise NotNumeric("int")
        low, high = self.value(node.low), self.value(node.high)
        before = self.values.get(node.var.name)

        def integrand(z: Ball, analytic: bool) -> Ball:
            self.values[node.var.name] = z
            try:
                return self.value(node.body)
            except ArithmeticError:
                return acb("nan")

        # piecewise and branched integrands need care that this path does not take
        if any(
            isinstance(part, Fn) and part.name not in ("sin", "cos", "tan", "sec", "csc", "cot")
            for part in _walk(node.body)
        ):
            raise NotNumeric("int")
        if any(
            isinstance(part, Pow) and not isinstance(part.exp, Int) and rational(part.exp) is not None
            for part in _walk(node.body)
        ):
            raise NotNumeric("int")
        try:
            return acb.integral(integrand, low, high, eval_limit=2000, deg_limit=60)
        finally:
            self.restore(node.var.name, before)

    def restore(self, name: str, before: Ball | None) -> None:
        if before is None:
            self.values.pop(name, None)
        else:
            self.values[name] = before

    def opaque(self, node: Node) -> Ball:
        """A value of its own for what has none, equal for equal arguments."""
        return acb(point_value(f"opaque {fingerprint(node).value}", self.point % 3))


def _walk(node: Node) -> Any:
    from stepgauge.verifiers.symbolic.nodes import walk

    return walk(node)


def int_exponent(exact: Any) -> int:
    """A whole exponent small enough for a ball power."""
    if int(exact.p.bit_length()) > 60:
        raise NotNumeric("an exponent too large")
    return int(exact.p)


def check_magnitude(value: Ball) -> None:
    """Refuse exponents whose exponential would need a number of more than a million bits of exponent."""
    if not (abs(value) < _MAX_MAGNITUDE):
        raise NotNumeric("an exponent too large")


def is_negative(value: Ball) -> bool:
    """Whether the ball surely is a negative real."""
    return bool(value.imag == 0 and value.real < 0)


def _real(value: Ball) -> Any:
    if not value.imag.contains(0):
        raise NotNumeric("a real value expected")
    return value.real


def _log(value: Ball, base: Ball | None = None) -> Ball:
    return value.log() if base is None else value.log() / base.log()


def _binom(top: Ball, below: Ball) -> Ball:
    return (top + 1).gamma() / ((below + 1).gamma() * (top - below + 1).gamma())


def _sign(value: Ball) -> Ball:
    real = _real(value)
    if real > 0:
        return acb(1)
    if real < 0:
        return acb(-1)
    raise NotNumeric("the sign of zero")


def _safe_trig(name: str) -> Any:
    def apply(value: Ball) -> Ball:
        check_magnitude(value)
        return getattr(value, name)()

    return apply


def _method(name: str) -> Any:
    return lambda value: getattr(value, name)()


_FUNCTIONS: dict[str, Any] = {
    **{name: _safe_trig(name) for name in ("sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh", "coth",
    "sech", "csch")},
    **{"arc" + name: _method("a" + name) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    "arccot": lambda x: acb.pi() / 2 - x.atan(), "arcsec": lambda x: (1 / x).acos(), "arccsc": lambda x: (1 / x).asin(),
    "ln": _log, "log": _log, "abs": lambda x: acb(abs(x)), "conj": lambda x: acb(x.real, -x.imag),
    "Re": lambda x: acb(x.real), "Im": lambda x: acb(x.imag), "floor": lambda x: acb(_real(x).floor()),
    "ceil": lambda x: acb(_real(x).ceil()),
    "factorial": lambda x: (x + 1).gamma(), "gamma_fn": _method("gamma"), "binom": _binom, "sign": _sign,
    "max": lambda *xs: acb(_extreme(xs, 1)), "min": lambda *xs: acb(_extreme(xs, -1)),
    "mod": lambda x, m: acb(_real(x) - _real(m) * (_real(x) / _real(m)).floor()), "arg": lambda x: acb(x.arg()),
}  # fmt: skip


def _extreme(values: tuple[Ball, ...], sign: int) -> Any:
    best = _real(values[0])
    for value in values[1:]:
        real = _real(value)
        best = best.max(real) if sign > 0 else best.min(real)
    return best


_HANDLERS: dict[type[Node], Any] = {
    Dec: lambda self, node: acb(decimal_value(node)),
    Sym: Evaluator.sym, Add: Evaluator.add, Mul: Evaluator.mul, Div: Evaluator.div, Pow: Evaluator.pow,
    Const: Evaluator.const, Fn: Evaluator.fn,
    Big: Evaluator.big, Apply: Evaluator.opaque, Dots: Evaluator.opaque,
    Neg: lambda self, node: -self.value(node.arg),
    Percent: lambda self, node: self.value(node.value) / 100,
    Quantity: lambda self, node: self.value(node.value) * acb.pi() / 180 if node.unit == (("deg",
    1),) else self.opaque(node),
    BaseNum: lambda self, node: acb(int(node.digits, node.base)),
}  # fmt: skip


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Work at ``bits`` bits, alone: flint's precision is one global."""
    with _LOCK:
        before = ctx.prec
        ctx.prec = bits
        try:
            yield
        finally:
            ctx.prec = before


def evaluate(
    node: Node, point: int, bits: int, *, odd_real: bool = True, positive: frozenset[str] = frozenset()
) -> Ball:
    """Enclosure of the node's value at a sample point, at ``bits`` bits of precision.

    Raises NotNumeric or cost.Undefined.
    """
    with precision(bits):
        try:
            return Evaluator(point, odd_real=odd_real, positive=positive).value(node)
        except (ZeroDivisionError, OverflowError) as error:
            raise NotNumeric(str(error)) from None


def real_value(node: Node, bits: int = 128) -> Any | None:
    """Enclosure (arb) of a constant's real value; None where it has none."""
    try:
        value = evaluate(node, 0, bits)
    except (NotNumeric, cost.Undefined, cost.TooLarge):
        return None
    if not value.is_finite() or not value.imag.contains(0) or value.imag.rad() > arb(2) ** -40:
        return None
    return value.real
