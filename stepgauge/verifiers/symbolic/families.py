"""Families of values with one whole-number parameter, ``pi/2 + k pi``: compared as sets, whatever the letter."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from stepgauge.verifiers.symbolic import balls
from stepgauge.verifiers.symbolic.nodes import (
    Add,
    Congruence,
    Int,
    ListOf,
    Mul,
    Neg,
    Node,
    Rel,
    Sym,
    rebuild,
    walk,
)
from stepgauge.verifiers.symbolic.policy import Policy
from stepgauge.verifiers.symbolic.scalars import compare_scalars

_WHOLE = Sym("\\Z")
_MAX_RESIDUES = 64


class Family(NamedTuple):
    """The values ``start + k * period`` over all whole ``k``; ``name`` is what they are values of, if said."""

    name: Node | None
    starts: tuple[Node, ...]
    periods: tuple[Node, ...]


def family(node: Node, policy: Policy) -> Family | None:
    """``x = a + b k, k in Z`` (one or several), or ``x = a (mod m)``; None for anything else."""
    if isinstance(node, Congruence):
        return Family(None if node.left == Sym("?") else node.left, (node.right,), (node.modulus,))
    if not isinstance(node, ListOf) or len(node.items) < 2:
        return None
    condition, values = node.items[-1], node.items[:-1]
    if not isinstance(condition, Rel) or condition.ops != ("in",) or condition.terms[1] != _WHOLE:
        return None
    parameter = condition.terms[0]
    if not isinstance(parameter, Sym):
        return None
    name: Node | None = None
    flat: list[Node] = []
    for value in values:
        if isinstance(value, Rel):
            if not value.named or value.ops != ("=",) or (name is not None and value.terms[0] != name):
                return None
            name, value = value.terms
        flat.extend(value.items if isinstance(value, ListOf) else (value,))
    starts, periods = [], []
    for value in flat:
        at = [_put(value, parameter, Int(k)) for k in range(4)]
        if any(isinstance(part, (Sym, Rel, ListOf)) for part in walk(at[0])):
            return None
        steps = [Add((after, Neg(before))) for before, after in pairwise(at)]
        if any(compare_scalars(step, steps[0], policy).verdict != "equal" for step in steps[1:]):
            return None
        starts.append(at[0])
        periods.append(steps[0])
    return Family(name, tuple(starts), tuple(periods))


def same(a: Family, b: Family, policy: Policy) -> bool | None:
    """Whether two families hold the same numbers; None where it cannot be told."""
    if a.name is not None and b.name is not None and a.name != b.name:
        return False
    base = a.periods[0]
    ratios = [_ratio(period, base, policy) for period in (*a.periods, *b.periods)]
    found = [ratio for ratio in ratios if ratio is not None]
    if len(found) < len(ratios) or any(top == 0 for top, _ in found):
        return None
    common = 1  # base * common is a whole number of every period
    for top, below in found:
        common = common * abs(top) if (common * below) % abs(top) else common
    if common > _MAX_RESIDUES:
        return None
    split = len(a.periods)
    left = _residues(a, found[:split], common, policy)
    right = _residues(b, found[split:], common, policy)
    if left is None or right is None:
        return None
    whole = Mul((base, Int(common)))
    return _covered(left, right, whole, policy) and _covered(right, left, whole, policy)


def _residues(side: Family, ratios: list[tuple[int, int]], common: int, policy: Policy) -> list[Node] | None:
    """One representative of each class modulo the common period."""
    out: list[Node] = []
    for start, period, (top, below) in zip(side.starts, side.periods, ratios, strict=True):
        count = common * below // abs(top)
        if len(out) + count > _MAX_RESIDUES:
            return None
        out.extend(Add((start, Mul((Int(k), period)))) for k in range(count))
    return out


def _covered(left: list[Node], right: list[Node], period: Node, policy: Policy) -> bool:
    for value in left:
        for other in right:
            found = _ratio(Add((value, Neg(other))), period, policy)
            if found is not None and found[1] == 1:
                break
        else:
            return False
    return True


def _ratio(value: Node, unit: Node, policy: Policy) -> tuple[int, int] | None:
    """``value / unit`` as a small fraction, proved by the ladder; None where it is none."""
    top, below = balls.real_value(value), balls.real_value(unit)
    if top is None or below is None or below.contains(0):
        return None
    quotient = float((top / below).mid())
    for denominator in range(1, 25):
        nearest = round(quotient * denominator)
        if abs(quotient * denominator - nearest) < 1e-9 and abs(nearest) < 10**6:
            proof = compare_scalars(Mul((Int(denominator), value)), Mul((Int(nearest), unit)), policy)
            return (nearest, denominator) if proof.verdict == "equal" else None
    return None


def _put(node: Node, name: Sym, value: Node) -> Node:
    return value if node == name else rebuild(node, lambda child: _put(child, name, value))
