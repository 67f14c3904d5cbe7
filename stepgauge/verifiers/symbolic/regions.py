"""Subsets of the real line: intervals, points, unions and the solutions of inequalities in one variable,
with exact ends.
"""

from __future__ import annotations

from functools import cmp_to_key
from itertools import pairwise
from typing import Any, NamedTuple

from flint import arb, fmpq, fmpq_poly

from stepgauge.verifiers.symbolic import balls, cost
from stepgauge.verifiers.symbolic.exact import rational
from stepgauge.verifiers.symbolic.nodes import (
    Add,
    Apply,
    Builder,
    Div,
    Fn,
    Int,
    ListOf,
    Mul,
    Neg,
    Node,
    Pow,
    Rel,
    Seq,
    SetOf,
    SetOp,
    Sym,
    System,
    walk,
)
from stepgauge.verifiers.symbolic.scalars import is_infinite

_PRECISION = 256
_MAX_PARTS = 200


class NoRegion(ValueError):
    """The node is no subset of the real line that can be computed."""


class End(NamedTuple):
    """An end of an interval: an exact rational, an enclosure of a real, or an infinity (-1, +1)."""

    infinite: int
    exact: Any
    ball: Any


class Span(NamedTuple):
    low: End
    low_in: bool
    high: End
    high_in: bool


Region = tuple[Span, ...]
_MINUS, _PLUS = End(-1, None, None), End(1, None, None)
REALS: Region = (Span(_MINUS, False, _PLUS, False),)
_ZERO = End(0, fmpq(0), arb(0))
_NAMED: dict[str, Region] = {
    "\\R": REALS,
    "\\R+": (Span(_ZERO, False, _PLUS, False),),
    "\\R_+": (Span(_ZERO, False, _PLUS, False),),
    "\\R-": (Span(_MINUS, False, _ZERO, False),),
}
_INTEGERS = {"\\Z": None, "\\N": 1}  # the least member
_FLIP = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!=", "~": "~"}


def end_of(node: Node) -> End:
    """The end a constant stands for. Raises NoRegion where it is not a real constant."""
    infinite = is_infinite(node)
    if infinite:
        return _PLUS if infinite > 0 else _MINUS
    try:
        value = rational(node)
    except cost.Undefined:
        raise NoRegion("undefined end") from None
    if value is not None:
        return End(0, value, arb(value))
    if any(isinstance(part, (Sym, Apply)) for part in walk(node)):
        raise NoRegion("a symbolic end")
    ball = balls.real_value(node, _PRECISION)
    if ball is None:
        raise NoRegion("no real end")
    return End(0, None, ball)


def order(a: End, b: End) -> int:
    """-1, 0 or 1; ends whose 256-bit enclosures meet count as one."""
    if a.infinite or b.infinite:
        return (a.infinite > b.infinite) - (a.infinite < b.infinite)
    if a.exact is not None and b.exact is not None:
        return int(a.exact > b.exact) - int(a.exact < b.exact)
    if a.ball < b.ball:
        return -1
    return 1 if a.ball > b.ball else 0


def point(end: End) -> Span:
    return Span(end, True, end, True)


def _by_low(a: Span, b: Span) -> int:
    return order(a.low, b.low) or int(b.low_in) - int(a.low_in)


def normal(spans: list[Span]) -> Region:
    """Sorted, disjoint and joined where they touch; empty ones dropped."""
    kept = [
        span
        for span in spans
        if order(span.low, span.high) < 0 or (order(span.low, span.high) == 0 and span.low_in and span.high_in)
    ]
    kept.sort(key=cmp_to_key(_by_low))
    out: list[Span] = []
    for span in kept:
        if out:
            last = out[-1]
            gap = order(last.high, span.low)
            if gap > 0 or (gap == 0 and (last.high_in or span.low_in)):
                side = order(last.high, span.high)
                if side < 0:
                    out[-1] = Span(last.low, last.low_in, span.high, span.high_in)
                elif side == 0:
                    out[-1] = Span(last.low, last.low_in, last.high, last.high_in or span.high_in)
                continue
        out.append(span)
    if len(out) > _MAX_PARTS:
        raise NoRegion("too many parts")
    return tuple(out)


def complement(region: Region) -> Region:
    out: list[Span] = []
    low, low_in = _MINUS, False
    for span in region:
        out.append(Span(low, low_in, span.low, not span.low_in and not span.low.infinite))
        low, low_in = span.high, not span.high_in and not span.high.infinite
    out.append(Span(low, low_in, _PLUS, False))
    return normal([span for span in out if not (span.low.infinite > 0 or span.high.infinite < 0)])


def union(a: Region, b: Region) -> Region:
    return normal([*a, *b])


def intersection(a: Region, b: Region) -> Region:
    return complement(union(complement(a), complement(b)))


def same(a: Region, b: Region) -> bool:
    """Whether two regions are one set."""
    with balls.precision(_PRECISION):
        return _same(a, b)


def _same(a: Region, b: Region) -> bool:
    return len(a) == len(b) and all(
        order(x.low, y.low) == 0 and order(x.high, y.high) == 0 and x.low_in == y.low_in and x.high_in == y.high_in
        for x, y in zip(a, b, strict=True)
    )


class Solution(NamedTuple):
    """A region and the variable it is stated of (None for a bare set)."""

    variable: Node | None
    region: Region


def solution(node: Node) -> Solution:
    """The set a node stands for. Raises NoRegion where it is none that can be computed."""
    with balls.precision(_PRECISION):
        return _solution(node)


def _solution(node: Node) -> Solution:
    if isinstance(node, Seq):
        return Solution(None, _interval(node))
    if isinstance(node, SetOf):
        return Solution(None, normal([point(end_of(item)) for item in node.items]))
    if isinstance(node, Sym) and node.name in _NAMED:
        return Solution(None, _NAMED[node.name])
    if isinstance(node, SetOp):
        left, right = solution(node.left), solution(node.right)
        return Solution(_one_variable(left, right), _combine(node.op, left.region, right.region))
    if isinstance(node, Builder):
        variable = node.var.terms[0] if isinstance(node.var, Rel) else node.var
        inner = solution(node.cond)
        region = _members(node.var, inner.region) if isinstance(node.var, Rel) else inner.region
        if inner.variable is not None and inner.variable != variable:
            raise NoRegion("a condition on another variable")
        return Solution(None, region)
    if isinstance(node, (ListOf, System)):
        parts = [solution(item) for item in node.items]
        if not all(isinstance(item, (Rel, Seq, SetOf, SetOp)) for item in node.items):
            raise NoRegion("a list")
        joined = parts[0]
        either = isinstance(node, ListOf) and (
            node.joiner == "or" or not isinstance(node.items[0], Rel) or node.items[0].ops[0] in ("=", "in")
        )
        for part in parts[1:]:
            joined = Solution(
                _one_variable(joined, part), _combine("cup" if either else "cap", joined.region, part.region)
            )
        return joined
    if isinstance(node, Rel):
        return _relation(node)
    raise NoRegion(type(node).__name__)


def _members(membership: Rel, region: Region) -> Region:
    """The part of a region that a membership allows; whole numbers are listed."""
    within = membership.terms[1]
    if not isinstance(within, Sym) or within.name not in _INTEGERS:
        return intersection(region, _solution(membership).region)
    points: list[Span] = []
    for span in region:
        if span.low.infinite or span.high.infinite or span.low.exact is None or span.high.exact is None:
            raise NoRegion("unbounded whole numbers")
        low, high = int(span.low.exact.ceil()), int(span.high.exact.floor())
        if high - low > _MAX_PARTS:
            raise NoRegion("too many whole numbers")
        values = (End(0, fmpq(value), arb(value)) for value in range(low, high + 1))
        points.extend(point(end) for end in values if _contains((span,), end.exact))
    least = _INTEGERS[within.name]
    return normal([item for item in points if least is None or item.low.exact >= least])


def _one_variable(a: Solution, b: Solution) -> Node | None:
    if a.variable is not None and b.variable is not None and a.variable != b.variable:
        raise NoRegion("two variables")
    return a.variable or b.variable


def _combine(op: str, left: Region, right: Region) -> Region:
    if op == "cup":
        return union(left, right)
    return intersection(left, right if op == "cap" else complement(right))


def _interval(node: Seq) -> Region:
    if len(node.items) != 2:
        raise NoRegion("no interval")
    low, high = end_of(node.items[0]), end_of(node.items[1])
    if order(low, high) >= 0 and not (order(low, high) == 0 and node.open == "[" and node.close == "]"):
        raise NoRegion("ends out of order")
    return (Span(low, node.open == "[" and not low.infinite, high, node.close == "]" and not high.infinite),)


def _relation(node: Rel) -> Solution:
    terms, ops = node.terms, node.ops
    if ops == ("in",) or ops == ("notin",):
        inner = solution(terms[1]).region
        return _pull_back(terms[0], inner if ops[0] == "in" else complement(inner))
    variable, region = None, REALS
    for left, op, right in zip(terms, ops, terms[1:], strict=False):
        step = _step(left, op, right)
        if variable is not None and step.variable is not None and variable != step.variable:
            raise NoRegion("two variables")
        variable, region = variable or step.variable, intersection(region, step.region)
    return Solution(variable, region)


def _constant(node: Node) -> bool:
    return not any(isinstance(part, (Sym, Apply)) for part in walk(node))


def _step(left: Node, op: str, right: Node) -> Solution:
    if op not in _FLIP:
        raise NoRegion("not an inequality")
    if _constant(left) and not _constant(right):
        left, op, right = right, _FLIP[op], left
    if not _constant(right):
        left, right = Add((left, Neg(right))), Int(0)
    if isinstance(right, (ListOf, SetOf)) and op == "=":
        items = [point(end_of(item)) for item in right.items]
        return _pull_back(left, normal(items))
    return _pull_back(left, _half_line(op, end_of(right)))


def _half_line(op: str, end: End) -> Region:
    if op in ("=", "~"):
        return (point(end),)
    if op == "!=":
        return complement((point(end),))
    if op in ("<", "<="):
        return (Span(_MINUS, False, end, op == "<=" and not end.infinite),)
    return (Span(end, op == ">=" and not end.infinite, _PLUS, False),)


def _pull_back(node: Node, region: Region) -> Solution:
    """All values of the node's variable that put the node's value into the region."""
    if isinstance(node, (Sym, Apply)):
        return Solution(node, region)
    if isinstance(node, Fn) and node.name == "abs":
        zero = End(0, fmpq(0), arb(0))
        inside = intersection(region, (Span(zero, True, _PLUS, False),))
        mirrored = [Span(_negated(span.high), span.high_in, _negated(span.low), span.low_in) for span in inside]
        return _pull_back(node.args[0], union(inside, normal(mirrored)))
    linear = _linear(node)
    if linear is not None:
        variable, slope, offset = linear
        return Solution(variable, normal([_scaled(span, slope, offset) for span in region]))
    return _polynomial(node, region)


def _negated(end: End) -> End:
    if end.infinite:
        return _PLUS if end.infinite < 0 else _MINUS
    return End(0, None if end.exact is None else -end.exact, -end.ball)


def _scaled(span: Span, slope: Any, offset: Any) -> Span:
    """The span of x with slope * x + offset in ``span``."""
    low, high = _unscaled(span.low, slope, offset), _unscaled(span.high, slope, offset)
    return Span(low, span.low_in, high, span.high_in) if slope > 0 else Span(high, span.high_in, low, span.low_in)


def _unscaled(end: End, slope: Any, offset: Any) -> End:
    if end.infinite:
        return end if slope > 0 else _negated(end)
    exact = None if end.exact is None else (end.exact - offset) / slope
    return End(0, exact, arb(exact) if exact is not None else (end.ball - offset) / slope)


def _linear(node: Node) -> tuple[Node, Any, Any] | None:
    """Variable, slope and offset of a formula linear in one variable with rational coefficients."""
    names: set[Node] = {part for part in walk(node) if isinstance(part, (Sym, Apply))}
    outer: list[Node] = [name for name in names if isinstance(name, Apply)]
    outer = outer or list(names)
    if len(outer) != 1:
        raise NoRegion("not one variable")
    variable = outer[0]
    poly = _poly(node, variable)
    if poly is None or poly.degree() != 1:
        return None
    return variable, poly[1], poly[0]


def _poly(node: Node, variable: Node) -> Any | None:
    """The node as a polynomial in the variable; None where it is none."""
    if node == variable:
        return fmpq_poly([0, 1])
    if isinstance(node, Add):
        return _fold(node.args, variable, lambda x, y: x + y)
    if isinstance(node, Mul):
        return _fold(node.args, variable, lambda x, y: x * y)
    if isinstance(node, Neg):
        inner = _poly(node.arg, variable)
        return None if inner is None else -inner
    if isinstance(node, Div):
        top, below = _poly(node.num, variable), rational(node.den)
        return None if top is None or not below else top / below
    if isinstance(node, Pow) and isinstance(node.exp, Int) and 0 <= node.exp.value <= 12:
        base = _poly(node.base, variable)
        return None if base is None else base**node.exp.value
    value = rational(node) if _constant(node) else None
    return None if value is None else fmpq_poly([value])


def _fold(args: tuple[Node, ...], variable: Node, step: Any) -> Any | None:
    total = None
    for arg in args:
        poly = _poly(arg, variable)
        if poly is None or poly.degree() > 24:
            return None
        total = poly if total is None else step(total, poly)
    return total


def _polynomial(node: Node, region: Region) -> Solution:
    """Solve p(x)/q(x) in a region bounded by rationals, by the real roots of p - c q and q."""
    names = {part for part in walk(node) if isinstance(part, Sym)}
    if len(names) != 1:
        raise NoRegion("not one variable")
    variable = names.pop()
    top, below = _fraction(node, variable)
    if top is None or below is None:
        raise NoRegion("not a polynomial")
    bounds = {end.exact for span in region for end in (span.low, span.high) if not end.infinite}
    if None in bounds or len(bounds) > 4:
        raise NoRegion("an irrational bound")
    roots: list[End] = []
    for poly in [below, *(top - below * bound for bound in bounds)]:
        roots.extend(_real_roots(poly))
    roots.sort(key=cmp_to_key(order))
    unique = [root for index, root in enumerate(roots) if index == 0 or order(roots[index - 1], root) != 0]
    spans: list[Span] = []
    marks = [_MINUS, *unique, _PLUS]
    for low, high in pairwise(marks):
        if _inside(top, below, _between(low, high), region):
            spans.append(Span(low, False, high, False))
    for root in unique:
        if root.exact is not None:
            if below(root.exact) != 0 and _contains(region, fmpq(top(root.exact) / below(root.exact))):
                spans.append(point(root))
        elif not _at(below, root.ball).contains(0):
            value = _at(top, root.ball) / _at(below, root.ball)
            hit = next((bound for bound in bounds if (value - bound).contains(0)), None)
            if hit is not None and _contains(region, hit):
                spans.append(point(root))
    return Solution(variable, normal(spans))


def _at(poly: Any, x: Any) -> Any:
    """A polynomial's value at a ball, by Horner's rule."""
    total = arb(0)
    for coefficient in reversed(poly.coeffs()):
        total = total * x + arb(coefficient)
    return total


def _fraction(node: Node, variable: Node) -> tuple[Any | None, Any | None]:
    if isinstance(node, Div):
        return _poly(node.num, variable), _poly(node.den, variable)
    if isinstance(node, Add) and len(node.args) == 2 and isinstance(node.args[0], Div):
        top, below, rest = (
            _poly(node.args[0].num, variable),
            _poly(node.args[0].den, variable),
            _poly(node.args[1], variable),
        )
        return (None, None) if top is None or below is None or rest is None else (top + below * rest, below)
    return _poly(node, variable), fmpq_poly([1])


def _real_roots(poly: Any) -> list[End]:
    if poly.degree() < 1:
        return []
    out = []
    for root, _ in poly.numer().complex_roots():
        if root.imag == 0:
            whole = root.real.unique_fmpz()
            exact = fmpq(whole) if whole is not None and poly(fmpq(whole)) == 0 else None
            out.append(End(0, exact, root.real))
    return out


def _between(low: End, high: End) -> Any:
    """A rational strictly between two ends."""
    if low.infinite and high.infinite:
        return fmpq(0)
    if low.infinite:
        return fmpq(high.ball.lower().floor().unique_fmpz() - 1)
    if high.infinite:
        return fmpq(low.ball.upper().ceil().unique_fmpz() + 1)
    middle = (low.ball.mid() + high.ball.mid()) / 2
    man, exp = middle.man_exp()
    return fmpq(man) * fmpq(2) ** int(exp)


def _inside(top: Any, below: Any, x: Any, region: Region) -> bool:
    return below(x) != 0 and _contains(region, fmpq(top(x) / below(x)))


def _contains(region: Region, value: Any) -> bool:
    end = End(0, value, arb(value))
    for span in region:
        low, high = order(span.low, end), order(end, span.high)
        if (low < 0 or (low == 0 and span.low_in)) and (high < 0 or (high == 0 and span.high_in)):
            return True
    return False
