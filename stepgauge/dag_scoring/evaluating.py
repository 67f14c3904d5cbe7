"""Formulas at many points at once: numpy over points, every value with the size of the terms it is made of.

A residual is judged against that size, so ``x - y`` at x = y is a zero and not a small number.
Vectors have three components in front; nabla is a fixed random vector, as it is on plane waves, so that every linear
identity of vector calculus holds and curl is never divergence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepgauge.verifiers.symbolic.nodes import Add, Big, Const, Dec, Div, Fn, Int, Mul, Neg, Node, Pow, Rel, Sym

__all__ = ["Array", "Unsupported", "Value", "evaluate", "holds_relation"]

Array = Any
NABLA = np.array([0.731, -1.137, 0.519])
_CONSTANTS: dict[str, complex | float] = {"pi": math.pi, "e": math.e, "i": 1j, "oo": math.inf}
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(40)
_SUM_TERMS = 400
_GAMMA = np.vectorize(math.gamma, otypes=[float])


class Unsupported(ValueError):
    """The tree has a part that has no value here."""


@dataclass(slots=True)
class Value:
    """Values at all points and the size of the terms they were made of."""

    at: Array
    size: Array
    vector: bool = False


def _plain(number: Array, size: Array | None = None, vector: bool = False) -> Value:
    return Value(number, np.abs(number) if size is None else size, vector)


def _inverse(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda x: 1.0 / function(x)


_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "cot": _inverse(np.tan), "sec": _inverse(np.cos),
    "csc": _inverse(np.sin), "arcsin": np.arcsin, "arccos": np.arccos, "arctan": np.arctan, "sinh": np.sinh,
    "cosh": np.cosh, "tanh": np.tanh, "coth": _inverse(np.tanh), "sech": _inverse(np.cosh), "csch": _inverse(np.sinh),
    "arcsinh": np.arcsinh, "arccosh": np.arccosh, "arctanh": np.arctanh, "ln": np.log, "exp": np.exp,
}  # fmt: skip
_BOUNDED = frozenset(("sin", "cos", "tan", "ln", "arctan", "arcsin", "arccos"))


def evaluate(node: Node, env: Mapping[str, Array]) -> Value:
    """Values of the tree where each name has the values in ``env``.

    Raises:
        Unsupported: a name without a value, or a node that has no number.
    """
    with np.errstate(all="ignore"):
        return _value(node, env)


def _value(node: Node, env: Mapping[str, Array]) -> Value:
    kind = type(node)
    if isinstance(node, Sym):
        if node.name not in env:
            raise Unsupported(f"no value for {node.name!r}")
        return _plain(env[node.name], vector=node.name.startswith("vec:"))
    if isinstance(node, Int):
        return _plain(np.float64(node.value if abs(node.value) < 10**300 else math.inf))
    if isinstance(node, Dec):
        return _plain(np.float64(node.digits) * np.float64(10.0) ** -node.scale)
    if isinstance(node, Const):
        return _plain(_CONSTANTS[node.name])
    if isinstance(node, Add):
        total = _value(node.args[0], env)
        for item in node.args[1:]:
            term = _value(item, env)
            if term.vector != total.vector and not (_is_zero(term) or _is_zero(total)):
                raise Unsupported("a vector is added to a scalar")
            total = Value(total.at + term.at, total.size + term.size, total.vector or term.vector)
        return total
    if isinstance(node, Neg):
        inner = _value(node.arg, env)
        return Value(-inner.at, inner.size, inner.vector)
    if isinstance(node, Mul):
        total = _value(node.args[0], env)
        for item in node.args[1:]:
            total = _times(total, _value(item, env))
        return total
    if isinstance(node, Div):
        top, below = _value(node.num, env), _value(node.den, env)
        if below.vector:
            raise Unsupported("division by a vector")
        return Value(top.at / below.at, top.size / np.abs(below.at), top.vector)
    if isinstance(node, Pow):
        return _power(node, env)
    if isinstance(node, Fn):
        return _function(node, env)
    if isinstance(node, Big):
        return _big(node, env)
    raise Unsupported(f"{kind.__name__} has no value")


def _is_zero(value: Value) -> bool:
    return np.ndim(value.at) == 0 and value.at == 0


def _times(left: Value, right: Value) -> Value:
    if left.vector and right.vector:
        raise Unsupported("a product of two vectors without a sign")
    return Value(left.at * right.at, left.size * right.size, left.vector or right.vector)


def _power(node: Pow, env: Mapping[str, Array]) -> Value:
    base, exponent = _value(node.base, env), _value(node.exp, env)
    if base.vector:
        if node.exp != Int(2):
            raise Unsupported("power of a vector")
        return _plain((base.at * base.at).sum(axis=0), (base.size * base.size).sum(axis=0))
    whole = isinstance(node.exp, Int) or (isinstance(node.exp, Neg) and isinstance(node.exp.arg, Int))
    power = exponent.at
    if whole:
        power = int(power)
        if abs(power) > 10_000:
            raise Unsupported("a huge exponent")
        at = base.at**power if power >= 0 else 1.0 / base.at**-power
    else:
        at = np.power(base.at, power)
    size = np.where(np.real(power) > 0, np.power(base.size, np.real(power)), np.abs(at))
    return Value(at, np.maximum(size, np.abs(at)))


def _function(node: Fn, env: Mapping[str, Array]) -> Value:
    if node.name == "piecewise":
        return _piecewise(node, env)
    values = [_value(item, env) for item in node.args]
    first = values[0]
    name = node.name
    if name in ("dot", "cross"):
        right = values[1]
        if not (first.vector and right.vector):
            return _times(first, right)
        a, b = (
            np.broadcast_arrays(first.at, right.at) if np.ndim(first.at) == np.ndim(right.at) else (first.at, right.at)
        )
        if name == "dot":
            return _plain((a * b).sum(axis=0), (first.size * right.size).sum(axis=0))
        return _plain(_cross(a, b), _cross(first.size, right.size, 1.0), True)
    if name in ("div", "curl", "grad", "laplacian"):
        return _nabla(name, first)
    if name == "abs":
        if first.vector:
            return _plain(np.sqrt((np.abs(first.at) ** 2).sum(axis=0)))
        return _plain(np.abs(first.at), first.size)
    if name == "conj":
        return Value(np.conj(first.at), first.size, first.vector)
    if first.vector:
        raise Unsupported(f"{name} of a vector")
    if name == "sqrt":
        return Value(np.sqrt(first.at), np.sqrt(first.size))
    if name == "factorial":
        return _plain(_GAMMA(np.real(first.at) + 1))
    if name in _FUNCTIONS:
        at = _FUNCTIONS[name](first.at)
        return Value(at, np.maximum(np.abs(at), 1.0) if name in _BOUNDED else np.abs(at))
    raise Unsupported(f"{name} has no value")


def _cross(a: Array, b: Array, sign: float = -1.0) -> Array:
    return np.stack(
        [a[1] * b[2] + sign * a[2] * b[1], a[2] * b[0] + sign * a[0] * b[2], a[0] * b[1] + sign * a[1] * b[0]]
    )


def _nabla(name: str, field: Value) -> Value:
    if name in ("div", "curl") and not field.vector:
        raise Unsupported(f"{name} of a scalar")
    k = NABLA.reshape(3, *([1] * (np.ndim(field.at) - (1 if field.vector else 0))))
    if name == "div":
        return _plain((k * field.at).sum(axis=0), (np.abs(k) * field.size).sum(axis=0))
    if name == "curl":
        return _plain(_cross(k, field.at), _cross(np.abs(k), field.size, 1.0), True)
    if name == "grad":
        if field.vector:
            raise Unsupported("gradient of a vector")
        return _plain(k * field.at, np.abs(k) * field.size, True)
    factor = float(NABLA @ NABLA)
    return Value(field.at * factor, field.size * factor, field.vector)


def _piecewise(node: Fn, env: Mapping[str, Array]) -> Value:
    total: Array = np.nan
    size: Array = np.nan
    for k in range(len(node.args) - 2, -1, -2):
        part, condition = _value(node.args[k], env), node.args[k + 1]
        assert isinstance(condition, Rel)
        true = holds_relation(condition, env)
        total, size = np.where(true, part.at, total), np.where(true, part.size, size)
    return Value(total, size)


def holds_relation(node: Rel, env: Mapping[str, Array]) -> Array:
    """Where a chain of inequalities is true."""
    values = [np.real(evaluate(term, env).at) for term in node.terms]
    true: Array = np.True_
    for op, a, b in zip(node.ops, values[:-1], values[1:], strict=True):
        if op not in ("<", "<=", ">", ">=", "=", "!="):
            raise Unsupported(f"relation {op!r}")
        near = np.abs(a - b) <= 1e-12 * (np.abs(a) + np.abs(b))
        step = {
            "<": (a < b) & ~near,
            "<=": (a < b) | near,
            ">": (a > b) & ~near,
            ">=": (a > b) | near,
            "=": near,
            "!=": ~near,
        }
        true = true & step[op]
    return true


def _big(node: Big, env: Mapping[str, Array]) -> Value:
    if node.low is None or node.high is None or node.op not in ("int", "sum"):
        raise Unsupported(f"{node.op} without limits")
    low, high = _value(node.low, env).at, _value(node.high, env).at
    inner = {name: _spread(name, value) for name, value in env.items()}
    if node.op == "sum":
        if np.ndim(low) or np.ndim(high):
            raise Unsupported("a sum with symbolic limits")
        last = min(float(high), float(low) + _SUM_TERMS)
        if not math.isfinite(float(low)) or (math.isfinite(float(high)) and float(high) > last):
            raise Unsupported("a sum of too many terms")
        inner[node.var.name] = np.arange(float(low), last + 1)
        terms = _value(node.body, inner)
        at = np.broadcast_to(terms.at, np.broadcast_shapes(np.shape(terms.at), (1, inner[node.var.name].size)))
        total = at.sum(axis=-1)
        if math.isinf(float(high)):
            total = np.where(np.abs(at[..., -1]) <= 1e-13 * np.abs(total), total, np.nan)
        return _plain(total, np.abs(at).sum(axis=-1))
    low, high = np.broadcast_arrays(np.asarray(low, float), np.asarray(high, float))
    total, size = _quadrature(node, inner, low[..., None], high[..., None])
    return _plain(total, size)


def _spread(name: str, value: Array) -> Array:
    return value[..., None] if np.ndim(value) else value


def _quadrature(node: Big, inner: dict[str, Array], low: Array, high: Array) -> tuple[Array, Array]:
    finite = np.isfinite(low).all() and np.isfinite(high).all()
    if finite:
        half = (high - low) / 2
        points, weights = low + half * (1 + _NODES), half * _WEIGHTS
    elif np.isposinf(high).all() and np.isfinite(low).all():
        # x = low + u/(1-u), composed over two panels of u for the tail
        u = (1 + _NODES) / 2
        points, weights = low + u / (1 - u), _WEIGHTS / 2 / (1 - u) ** 2
    elif np.isposinf(low).all() and np.isfinite(high).all():
        u = (1 + _NODES) / 2
        points, weights = high / u, -_WEIGHTS / 2 * np.abs(high) / u**2
    else:
        raise Unsupported("limits of an integral")
    inner[node.var.name] = points
    body = _value(node.body, inner)
    parts = body.at * weights
    return parts.sum(axis=-1), np.abs(parts).sum(axis=-1)
