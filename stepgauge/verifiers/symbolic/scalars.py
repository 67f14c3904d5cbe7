"""Equality of two formulas without structure: exact rationals, then random identities, then balls, then
sympy in a worker.
"""

from __future__ import annotations

from typing import Any

from flint import fmpq

from stepgauge.verifiers.symbolic import balls, cost
from stepgauge.verifiers.symbolic.exact import bits as bits_of
from stepgauge.verifiers.symbolic.exact import decimal_value, rational
from stepgauge.verifiers.symbolic.modular import fingerprint
from stepgauge.verifiers.symbolic.nodes import (
    Apply,
    Big,
    Const,
    Dec,
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
    walk,
)
from stepgauge.verifiers.symbolic.outcome import Outcome, different, equal, undecided
from stepgauge.verifiers.symbolic.policy import Policy

SIGNED = frozenset("xyzt")  # sampled on both sides of zero; other symbols stand for positive quantities
_INFINITY = Const("oo")
_MAX_HEIGHT = 8_000
_POINTS = 5


def literal(node: Node) -> tuple[Any, Any, int] | None:
    """Value, half a unit of the last digit, and significant digits of a decimal as written; None for anything else.

    >>> from stepgauge.verifiers.symbolic.parser import parse
    >>> literal(parse("0.33"))
    (33/100, 1/200, 2)
    """
    if isinstance(node, Neg):
        inner = literal(node.arg)
        return None if inner is None else (-inner[0], inner[1], inner[2])
    if isinstance(node, Percent):
        inner = literal(node.value)
        return None if inner is None else (inner[0] / 100, inner[1] / 100, inner[2])
    if isinstance(node, Dec):
        unit = decimal_value(Dec(1, node.scale))
        return decimal_value(node), unit / 2, len(str(abs(node.digits)))
    if isinstance(node, Mul) and len(node.args) == 2 and isinstance(node.args[1], Pow) and node.args[1].base == Int(10):
        inner, factor = literal(node.args[0]), rational(node.args[1])
        return None if inner is None or factor is None else (inner[0] * factor, inner[1] * factor, inner[2])
    return None


def close(a: Node, b: Node, policy: Policy) -> bool:
    """Whether one side is a decimal that rounds the exact other side, or the finer of two decimals rounds to
    the coarser.
    """
    if not policy.decimals:
        return False
    left, right = literal(a), literal(b)
    if left is None:
        left, right, a, b = right, left, b, a
    if left is None or left[2] < policy.min_digits:
        return False
    if right is not None:
        coarse, fine = (left, right) if left[1] > right[1] else (right, left)
        return bool(
            coarse[1] != fine[1] and coarse[2] >= policy.min_digits + 1 and abs(coarse[0] - fine[0]) <= coarse[1]
        )
    tolerance = left[1] if left[2] < 15 else max(left[1], abs(left[0]) / 2**52)
    value = rational(b)
    if value is not None:
        return bool(abs(value - left[0]) <= tolerance and not (value.q == 1 and left[1] >= 1))
    if any(isinstance(part, (Dec, Sym, Apply)) for part in walk(b)):
        return False
    with balls.precision(256):
        real = balls.real_value(b, 256)
        return real is not None and bool(abs(real - left[0]) <= tolerance)


def is_infinite(node: Node) -> int:
    """+1 or -1 for an infinity as it stands, 0 for anything else."""
    if isinstance(node, Neg):
        return -is_infinite(node.arg)
    return int(node == _INFINITY)


def compare_scalars(a: Node, b: Node, policy: Policy) -> Outcome:
    """Decide two formulas; symmetric, and never a guess: ``undecided`` where no rung can tell."""
    if a == b:
        return equal("identical")
    if isinstance(a, (Const, Neg)) or isinstance(b, (Const, Neg)):
        one, other = is_infinite(a), is_infinite(b)
        if one or other:
            return equal("exact") if one == other else different("exact", "infinite")
    try:
        left, right = rational(a), rational(b)
        if left is not None and right is not None:
            if left == right:
                return equal("exact")
            return (
                equal("decimal", "equal to half a unit of the last digit")
                if close(a, b, policy)
                else different("exact")
            )
        found = _by_fingerprint(a, b)
        if found is not None:
            return found
    except cost.Undefined as error:
        return different("exact", f"undefined: {error}")
    if close(a, b, policy):
        return equal("decimal", "equal to half a unit of the last digit")
    found = _by_balls(a, b)
    if found.verdict == "undecided" and _worth_sympy(a, b):
        from stepgauge.verifiers.symbolic.worker import ask

        return ask(a, b)
    return found


def _by_fingerprint(a: Node, b: Node) -> Outcome | None:
    try:
        left, right = fingerprint(a), fingerprint(b)
    except cost.TooLarge:
        return None
    if left.value == right.value:
        return equal("modular", "same value modulo a secret prime")
    if left.exact and right.exact:
        return different("modular", "other value modulo a secret prime")
    return None


def height(parts: list[Node]) -> int:
    """Bits of the numbers written in a formula, powers multiplied out: how small a difference it can hide."""
    total = 0
    for part in parts:
        if isinstance(part, Int):
            total += part.value.bit_length()
        elif isinstance(part, Dec):
            total += part.digits.bit_length() + 4 * abs(part.scale)
        elif isinstance(part, (Pow, Fn)):
            value = rational(part)
            if value is not None:
                total += bits_of(value)
            elif isinstance(part, Pow):
                exponent = rational(part.exp)
                if exponent is not None:
                    total += 4 * min(int(abs(exponent)) if exponent.q == 1 else bits_of(exponent), 10**6)
        if total > _MAX_HEIGHT:
            return total
    return total


def symbols(node: Node) -> set[str]:
    """Names of the free and bound symbols of a formula."""
    return {part.name for part in walk(node) if isinstance(part, Sym)}


def _by_balls(a: Node, b: Node) -> Outcome:
    parts = [*walk(a), *walk(b)]
    names = {part.name for part in parts if isinstance(part, Sym)}
    constant = not names and not any(isinstance(part, (Apply, Dots)) for part in parts)
    positive = frozenset(names - SIGNED)
    points = (0,) if constant else tuple(range(_POINTS)) if names & SIGNED else (0, 1, 2)
    depth = height(parts)
    reason = "no value at the sample points"
    for odd_real in (True, False) if _has_odd_root(parts) else (True,):
        seen, apart = 0, False
        for point in points:
            bits = (64, 160) if seen else (64, 1024 + 2 * min(depth, _MAX_HEIGHT))
            same, why = _at_point(a, b, point, bits, odd_real, positive)
            if same is False:
                apart = True
                break
            if same is None:
                reason = why
            seen += same is True
        if apart:
            continue
        if depth > _MAX_HEIGHT:
            return undecided("balls", "numbers too large to tell apart")
        if seen >= min(2, len(points)):
            return equal("balls", f"enclosures agree at {seen} random points")
        return undecided("balls", reason)
    return different("balls", "enclosures apart at a random point")


def _has_odd_root(parts: list[Node]) -> bool:
    for part in parts:
        if isinstance(part, Fn) and part.name == "root" and part.args[1] != Int(2):
            return True
        if isinstance(part, Pow) and not isinstance(part.exp, (Int, Sym)):
            exponent = rational(part.exp)
            if exponent is not None and exponent.q > 1 and int(exponent.q) % 2:
                return True
    return False


def _at_point(
    a: Node, b: Node, point: int, precisions: tuple[int, ...], odd_real: bool, positive: frozenset[str]
) -> tuple[bool | None, str]:
    """True: enclosures meet and are tight; False: they are apart; None: no verdict here."""
    for bits in precisions:
        try:
            left = balls.evaluate(a, point, bits, odd_real=odd_real, positive=positive)
            right = balls.evaluate(b, point, bits, odd_real=odd_real, positive=positive)
        except (balls.NotNumeric, cost.TooLarge, cost.Undefined) as error:
            return None, str(error)
        if not left.is_finite() or not right.is_finite():
            return None, "no finite value"
        if not left.overlaps(right):
            if point >= 3 and not (left.imag.contains(0) and right.imag.contains(0)):
                return None, "complex at a negative point"
            return False, "apart"
    tight = max(left.rel_accuracy_bits(), right.rel_accuracy_bits()) > precisions[-1] // 4
    return (True, "") if tight or _both_zero(left, right, precisions[-1]) else (None, "enclosures too wide")


def _both_zero(left: Any, right: Any, precision: int) -> bool:
    bound = fmpq(1, 1 << (precision // 4))
    return bool(abs(left) < bound and abs(right) < bound)


def _worth_sympy(a: Node, b: Node) -> bool:
    """Only unevaluated operators are worth a worker's seconds."""
    parts = [*walk(a), *walk(b)]
    return (
        len(parts) < 200
        and any(isinstance(part, Big) for part in parts)
        and not any(isinstance(part, (Dots, Quantity)) for part in parts)
    )
