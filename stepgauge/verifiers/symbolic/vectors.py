"""Vectors written in unit vectors: ``3i - 4j`` as components."""

from __future__ import annotations

from stepgauge.verifiers.symbolic.nodes import Add, Const, Div, Int, Mul, Neg, Node, Sym

_BASIS = {"i": 0, "j": 1, "k": 2}


def components(node: Node, size: int) -> tuple[Node, ...] | None:
    """The coefficients of i, j, k in a sum of multiples of them; None where it is no such sum.

    >>> from stepgauge.verifiers.symbolic.parser import parse
    >>> components(parse("3i-4j"), 2)
    (Int(value=3), Neg(arg=Int(value=4)))
    """
    if size not in (2, 3):
        return None
    found: list[list[Node]] = [[] for _ in range(size)]
    for term in _terms(node):
        split = _split(term)
        if split is None or split[0] >= size:
            return None
        found[split[0]].append(split[1])
    if not any(found):
        return None
    return tuple(Int(0) if not parts else parts[0] if len(parts) == 1 else Add(tuple(parts)) for parts in found)


def _terms(node: Node) -> tuple[Node, ...]:
    return node.args if isinstance(node, Add) else (node,)


def _axis(node: Node) -> int | None:
    return _BASIS.get(node.name) if isinstance(node, (Sym, Const)) else None


def _split(term: Node) -> tuple[int, Node] | None:
    """The axis of one term and its coefficient."""
    if isinstance(term, Neg):
        inner = _split(term.arg)
        return None if inner is None else (inner[0], Neg(inner[1]))
    if isinstance(term, Div):
        inner = _split(term.num)
        return None if inner is None else (inner[0], Div(inner[1], term.den))
    axis = _axis(term)
    if axis is not None:
        return axis, Int(1)
    if isinstance(term, Mul):
        axes = [(index, axis) for index, arg in enumerate(term.args) if (axis := _axis(arg)) is not None]
        if len(axes) == 1:
            rest = term.args[: axes[0][0]] + term.args[axes[0][0] + 1 :]
            return axes[0][1], rest[0] if len(rest) == 1 else Mul(rest)
    return None
