"""Formulas as sympy objects, built node by node (no text ever reaches a sympy parser), and their comparison.
Runs in the worker only.
"""

from __future__ import annotations

import random
from functools import cache
from typing import Any

from stepgauge.verifiers.symbolic import cost
from stepgauge.verifiers.symbolic.exact import rational
from stepgauge.verifiers.symbolic.nodes import (
    Add,
    Apply,
    Big,
    Const,
    Dec,
    Div,
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


@cache
def _functions() -> dict[str, Any]:
    import sympy

    return {
        "sin": sympy.sin, "cos": sympy.cos, "tan": sympy.tan, "cot": sympy.cot, "sec": sympy.sec, "csc": sympy.csc,
        "arcsin": sympy.asin,
        "arccos": sympy.acos, "arctan": sympy.atan, "arccot": sympy.acot, "arcsec": sympy.asec, "arccsc": sympy.acsc,
        "sinh": sympy.sinh,
        "cosh": sympy.cosh, "tanh": sympy.tanh, "coth": sympy.coth, "arcsinh": sympy.asinh, "arccosh": sympy.acosh,
        "arctanh": sympy.atanh,
        "ln": sympy.log, "log": sympy.log, "abs": sympy.Abs, "conj": sympy.conjugate, "Re": sympy.re, "Im": sympy.im,
        "arg": sympy.arg,
        "floor": sympy.floor, "ceil": sympy.ceiling, "factorial": sympy.factorial, "gamma_fn": sympy.gamma,
        "binom": sympy.binomial,
        "sign": sympy.sign, "max": sympy.Max, "min": sympy.Min, "mod": sympy.Mod, "gcd": sympy.gcd, "lcm": sympy.lcm,
        "root": lambda value, index: value ** (1 / index),
    }  # fmt: skip


@cache
def _constants() -> dict[str, Any]:
    import sympy

    return {"pi": sympy.pi, "e": sympy.E, "i": sympy.I, "oo": sympy.oo}


def warm_up() -> None:
    """Load what sympy imports on first use: summation, limits, integrals, simplification."""
    import sympy

    n, x = sympy.Symbol("n", integer=True), sympy.Symbol("x")
    sympy.Sum(1 / sympy.factorial(n), (n, 0, sympy.oo)).doit()
    sympy.Limit((1 + 1 / x) ** x, x, sympy.oo).doit()
    sympy.simplify(sympy.Integral(x * sympy.sin(x), (x, 0, 1)).doit() - sympy.Derivative(x**2, x).doit())


def decide(a: Node, b: Node) -> tuple[str, str]:
    """Verdict and reason for two formulas."""
    import sympy

    left, right = build(a), build(b)
    left, right = left.doit(), right.doit()
    if left is sympy.nan or right is sympy.nan or left.has(sympy.zoo, sympy.nan) or right.has(sympy.zoo, sympy.nan):
        return "undecided", "no value"
    if left == right:
        return "equal", "same after evaluation"
    if left.has(sympy.oo, -sympy.oo) or right.has(sympy.oo, -sympy.oo):
        return ("different", "infinite") if left.is_Number or right.is_Number else ("undecided", "infinite")
    unevaluated = (sympy.Integral, sympy.Sum, sympy.Product, sympy.Limit, sympy.Derivative)
    gap = left - right
    if gap.has(*unevaluated):
        gap = sympy.simplify(gap)
        if gap == 0:
            return "equal", "difference simplifies to 0"
        return "undecided", "not evaluated"
    apart = _apart(gap)
    if apart:
        return "different", "apart at a random point"
    if sympy.simplify(gap) == 0:
        return "equal", "difference simplifies to 0"
    return ("equal", "30 digits agree at random points") if apart is False else ("undecided", "not simplified to 0")


def _apart(gap: Any) -> bool | None:
    """Whether the difference is away from 0 at a random positive point; None where it has no value there."""
    import sympy

    for _ in range(3):
        point = {symbol: sympy.Rational(random.randint(300, 4000), 1009) for symbol in gap.free_symbols}
        value = sympy.N(gap.subs(point), 30)
        if not value.is_number or not value.is_finite:
            return None
        if abs(value) > 1e-20:
            return True
    return False


def build(node: Node) -> Any:
    """The sympy object of a node."""
    import sympy

    if isinstance(node, Int):
        return sympy.Integer(node.value)
    if isinstance(node, Sym):
        return sympy.Symbol(node.name)
    if isinstance(node, Const):
        return _constants()[node.name]
    if isinstance(node, Dec):
        value = rational(node)
        if value is None:
            raise cost.TooLarge("a decimal")
        return sympy.Rational(int(value.p), int(value.q))
    if isinstance(node, Neg):
        return -build(node.arg)
    if isinstance(node, Add):
        return sympy.Add(*map(build, node.args))
    if isinstance(node, Mul):
        return sympy.Mul(*map(build, node.args))
    if isinstance(node, Div):
        return build(node.num) / build(node.den)
    if isinstance(node, Pow):
        return _power(node)
    if isinstance(node, Percent):
        return build(node.value) / 100
    if isinstance(node, Quantity) and node.unit == (("deg", 1),):
        return build(node.value) * sympy.pi / 180
    if isinstance(node, Apply):
        return sympy.Function(node.name)(*map(build, node.args))
    if isinstance(node, Big):
        return _big(node)
    if isinstance(node, Fn):
        return _function(node)
    raise TypeError(type(node).__name__)


def _power(node: Pow) -> Any:
    base, exponent = build(node.base), build(node.exp)
    if base.is_Integer and exponent.is_Integer:
        cost.check_power(int(base).bit_length(), int(exponent))
    if exponent.is_Number and abs(exponent) > 10_000:
        raise cost.TooLarge("an exponent")
    return base**exponent


def _function(node: Fn) -> Any:
    arguments = [build(arg) for arg in node.args]
    if node.name in ("factorial", "binom") and any(
        arg.is_Number and abs(arg) > cost.MAX_FACTORIAL for arg in arguments
    ):
        raise cost.TooLarge(node.name)
    return _functions()[node.name](*arguments)


def _big(node: Big) -> Any:
    import sympy

    name, body = build(node.var), node.body
    low = None if node.low is None else build(node.low)
    high = None if node.high is None else build(node.high)
    if node.op in ("sum", "prod"):
        index = sympy.Symbol(node.var.name, integer=True)
        inside = build(body).subs(name, index)
        return (sympy.Sum if node.op == "sum" else sympy.Product)(inside, (index, low, high))
    if node.op == "int":
        return sympy.Integral(build(body), name if low is None or high is None else (name, low, high))
    if node.op == "lim":
        return sympy.Limit(build(body), name, low, "+-" if low not in (sympy.oo, -sympy.oo) else "+")
    return sympy.Derivative(build(body), name)
