"""Equations are compared up to a non-zero factor, inequalities up to a positive one."""

from __future__ import annotations

from typing import Any

from stepgauge.verifiers.symbolic import balls, cost
from stepgauge.verifiers.symbolic.nodes import Add, Div, Mul, Neg, Node, Sym, walk
from stepgauge.verifiers.symbolic.outcome import Outcome, different, equal, undecided
from stepgauge.verifiers.symbolic.scalars import symbols

_POINTS = 4


def constant_factor(left: Node, right: Node, *, positive: bool) -> Outcome:
    """Whether ``left`` is a constant times ``right``: the quotient of their numerators is one number at
    several random points.
    """
    left, right = numerator(left), numerator(right)
    if symbols(left) != symbols(right):
        return different("relations", "other variables")
    with balls.precision(256):
        ratio: Any = None
        seen = 0
        for point in range(_POINTS):
            try:
                one = balls.evaluate(left, point, 256)
                other = balls.evaluate(right, point, 256)
            except (balls.NotNumeric, cost.Undefined, cost.TooLarge) as error:
                return undecided("relations", str(error))
            if not one.is_finite() or not other.is_finite():
                continue
            if one.contains(0) or other.contains(0):
                if not (one.contains(0) and other.contains(0)):
                    return different("relations", "only one side vanishes")
                continue
            quotient = one / other
            if ratio is not None and not (quotient - ratio).contains(0):
                return different("relations", "not proportional")
            ratio = quotient
            seen += 1
        if seen >= 2:
            if positive and not ratio.real > 0:
                return different("relations", "turned around")
            return equal("relations", f"proportional at {seen} random points")
        return undecided("relations", "no values at the sample points")


def numerator(node: Node) -> Node:
    """The formula times the denominators of its terms, so that ``a/b = c`` and ``a = b c`` agree."""
    terms = _terms(node)
    dens = [
        term.den
        for term in map(_plain, terms)
        if isinstance(term, Div) and any(isinstance(part, Sym) for part in walk(term.den))
    ]
    unique = list(dict.fromkeys(dens))
    if not unique or len(unique) > 4:
        return node
    return Mul((node, *unique))


def _plain(node: Node) -> Node:
    while isinstance(node, Neg):
        node = node.arg
    return node


def _terms(node: Node) -> list[Node]:
    if isinstance(node, Add):
        return [term for arg in node.args for term in _terms(arg)]
    if isinstance(node, Neg):
        return _terms(node.arg)
    return [node]
