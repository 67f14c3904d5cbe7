"""Exact rational values by python-flint, guarded by the cost gate."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

from flint import fmpq, fmpz

from stepgauge.verifiers.symbolic import cost
from stepgauge.verifiers.symbolic.nodes import Add, BaseNum, Big, Dec, Div, Fn, Int, Mul, Neg, Node, Percent, Pow, Sym

Rational = Any  # fmpq; flint carries no types
_ZERO, _ONE = fmpq(0), fmpq(1)
_NONE: dict[str, Any] = {}
_POW10 = [fmpz(10) ** power for power in range(64)]


class NotRational(ArithmeticError):
    """The expression is no rational number (or not seen to be one)."""


def rational(node: Node) -> Rational | None:
    """The exact value; None where it is not rational or too large. Raises cost.Undefined for 0/0 and its like.

    >>> from stepgauge.verifiers.symbolic.parser import parse
    >>> rational(parse("1/3 + 0.5"))
    5/6
    """
    try:
        return _value(node, _NONE)
    except (NotRational, cost.TooLarge):
        return None


def decimal_value(node: Dec) -> Rational:
    """The exact value of a decimal literal."""
    scale = node.scale
    power = _POW10[scale] if 0 <= scale < 64 else fmpz(10) ** abs(scale)
    return fmpq(node.digits, power) if scale >= 0 else fmpq(node.digits * power)


def _value(node: Node, bound: dict[str, Any]) -> Rational:
    kind = type(node)
    if kind is Int:
        return fmpq(node.value)  # type: ignore[attr-defined]
    handler = _HANDLERS.get(kind)
    if handler is None:
        raise NotRational
    return handler(node, bound)


def _add(node: Add, bound: dict[str, Any]) -> Rational:
    return sum((_value(arg, bound) for arg in node.args), _ZERO)


def _mul(node: Mul, bound: dict[str, Any]) -> Rational:
    out = _ONE
    for arg in node.args:
        out *= _value(arg, bound)
    return out


def _div(node: Div, bound: dict[str, Any]) -> Rational:
    below = _value(node.den, bound)
    top = _value(node.num, bound)
    if below == 0:
        raise cost.Undefined("division by zero")
    return top / below


def bits(value: Rational) -> int:
    """Bits of the larger of numerator and denominator."""
    return max(int(value.p.bit_length()), int(value.q.bit_length()))


def power(base: Rational, exponent: Rational) -> Rational:
    """``base ** exponent`` where that is rational and within budget."""
    if exponent.q != 1:
        return _root_power(base, exponent)
    whole = int(exponent.p)
    if base == 0 and whole <= 0:
        raise cost.Undefined("zero to a power not above zero")
    if base == 1 or base == -1:
        return _ONE if base == 1 or whole % 2 == 0 else -_ONE
    cost.check_power(bits(base), whole)
    return base**whole


def _root_power(base: Rational, exponent: Rational) -> Rational:
    """``base ** (p/q)`` of perfect powers: 8 ** (2/3)."""
    index = int(exponent.q)
    if base < 0 or index > 64:
        raise NotRational
    if base == 0:
        if exponent > 0:
            return _ZERO
        raise cost.Undefined("zero to a negative power")
    top, below = base.p.root(index), base.q.root(index)
    if top**index != base.p or below**index != base.q:
        raise NotRational
    return power(fmpq(top, below), fmpq(exponent.p))


def _pow(node: Pow, bound: dict[str, Any]) -> Rational:
    return power(_value(node.base, bound), _value(node.exp, bound))


def whole(value: Rational) -> int:
    """An integer, or NotRational."""
    if value.q != 1:
        raise NotRational
    return int(value.p)


def _factorial(value: Rational) -> Rational:
    number = whole(value)
    if number < 0:
        raise cost.Undefined("factorial of a negative number")
    cost.check_factorial(number)
    return fmpq(fmpz.fac_ui(number))


def _binomial(top: Rational, below: Rational) -> Rational:
    k = whole(below)
    if top.q != 1 or top < 0:
        if not 0 <= k <= 200:
            raise NotRational
        return reduce(lambda out, i: out * (top - i) / (i + 1), range(k), _ONE)
    n = whole(top)
    if k < 0 or k > n:
        return _ZERO
    cost.check_binomial(n, k)
    return fmpq(math.comb(n, k))


def _root(value: Rational, index: Rational) -> Rational:
    if index == 0:
        raise cost.Undefined("zeroth root")
    if value < 0 and index.q == 1 and int(index.p) % 2:
        return -_root_power(-value, 1 / index)
    return _root_power(value, 1 / index)


def _gcd(*values: Rational) -> Rational:
    return fmpq(math.gcd(*(whole(value) for value in values)))


def _lcm(*values: Rational) -> Rational:
    return fmpq(math.lcm(*(whole(value) for value in values)))


def _mod(value: Rational, modulus: Rational) -> Rational:
    if modulus == 0:
        raise cost.Undefined("remainder by zero")
    return value - modulus * fmpq((value / modulus).floor())


_FUNCTIONS: dict[str, Any] = {
    "abs": lambda x: abs(x), "factorial": _factorial, "binom": _binomial, "root": _root, "gcd": _gcd, "lcm": _lcm,
    "mod": _mod,
    "floor": lambda x: fmpq(x.floor()), "ceil": lambda x: fmpq(x.ceil()), "max": lambda *xs: max(xs),
    "min": lambda *xs: min(xs),
    "sign": lambda x: fmpq((x > 0) - (x < 0)), "conj": lambda x: x, "Re": lambda x: x, "Im": lambda x: _ZERO,
}  # fmt: skip


def _fn(node: Fn, bound: dict[str, Any]) -> Rational:
    function = _FUNCTIONS.get(node.name)
    if function is None:
        raise NotRational
    values = [_value(arg, bound) for arg in node.args]
    try:
        return function(*values)
    except TypeError:
        raise cost.Undefined(f"{node.name} of {len(values)} values") from None


def term_range(node: Big, low: Rational | None, high: Rational | None) -> range:
    """The whole numbers a finite sum or product runs over, checked against the budget."""
    if node.op not in ("sum", "prod") or low is None or high is None:
        raise NotRational
    start, stop = whole(low), whole(high)
    cost.check_range(start, stop)
    return range(start, stop + 1)


def _big(node: Big, bound: dict[str, Any]) -> Rational:
    if node.low is None or node.high is None or len(bound) >= 2:
        raise NotRational
    out = _ZERO if node.op == "sum" else _ONE
    for index in term_range(node, _value(node.low, bound), _value(node.high, bound)):
        term = _value(node.body, {**bound, node.var.name: fmpq(index)})
        out = out + term if node.op == "sum" else out * term
        if bits(out) > cost.MAX_BITS:
            raise cost.TooLarge("a sum")
    return out


def _sym(node: Sym, bound: dict[str, Any]) -> Rational:
    value = bound.get(node.name)
    if value is None:
        raise NotRational
    return value


def _base(node: BaseNum, bound: dict[str, Any]) -> Rational:
    try:
        return fmpq(int(node.digits, node.base))
    except ValueError:
        raise cost.Undefined("a digit not below the base") from None


_HANDLERS: dict[type[Node], Any] = {
    Dec: lambda node, bound: decimal_value(node),
    Add: _add, Mul: _mul, Div: _div, Pow: _pow, Neg: lambda node, bound: -_value(node.arg, bound), Fn: _fn, Big: _big,
    Sym: _sym, BaseNum: _base,
    Percent: lambda node, bound: _value(node.value, bound) / 100,
}  # fmt: skip
