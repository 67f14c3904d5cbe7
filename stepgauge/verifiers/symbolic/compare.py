"""Equality of two answers: structure first (names, units, sets, intervals, relations, matrices), formulas by
the scalar ladder.
"""

from __future__ import annotations

from typing import Any

from stepgauge.verifiers.symbolic import cost, families, regions
from stepgauge.verifiers.symbolic.kinds import READINGS, exact_value, is_region, key, keys, plain_equation, scale, words
from stepgauge.verifiers.symbolic.matrices import entries, has_matrix
from stepgauge.verifiers.symbolic.nodes import (
    Add,
    BaseNum,
    Builder,
    Congruence,
    Const,
    Dec,
    Div,
    Dots,
    Fn,
    Int,
    ListOf,
    Matrix,
    Mul,
    Neg,
    Node,
    Percent,
    Pow,
    Quantity,
    Ratio,
    Rel,
    Seq,
    SetOf,
    SetOp,
    Sym,
    System,
    Text,
)
from stepgauge.verifiers.symbolic.outcome import Outcome, all_of, different, equal, undecided
from stepgauge.verifiers.symbolic.policy import Policy
from stepgauge.verifiers.symbolic.scalars import compare_scalars
from stepgauge.verifiers.symbolic.shapes import named_value, record
from stepgauge.verifiers.symbolic.units import si
from stepgauge.verifiers.symbolic.vectors import components

_MAX_ITEMS = 64
_COLLECTIONS = (ListOf, SetOf, Seq)
_SCALAR_OPS = frozenset(("=", "<", ">", "<=", ">=", "!=", "~"))
_SPELLED = {"Omega": "Ω"}
_MIRROR = {">": "<", ">=": "<=", "supset": "subset", "supseteq": "subseteq"}
_NUMERALS = frozenset((Int, Dec, Div, Neg))
_FORMULAS = frozenset((Int, Dec, Add, Mul, Div, Pow, Neg, Fn, Sym, Const))
_EMPTY = frozenset(("empty set", "null set", "no solution"))
_DEGREE = (("deg", 1),)


def compare(a: Node, b: Node, policy: Policy, *, readings: tuple[str, ...] = ()) -> Outcome:
    """Decide whether two parsed answers are the same.

    ``readings`` are further usual ones to try: ``i`` takes ``I`` as the imaginary unit, ``log`` a bare ``log`` to
    base 10.

    >>> from stepgauge.verifiers.symbolic.parser import parse
    >>> compare(parse("x + 1"), parse("1 + x"), Policy()).verdict
    'equal'
    """
    if a == b:
        return equal("identical")
    if type(a) in _NUMERALS and type(b) in _NUMERALS:
        return compare_scalars(a, b, policy)
    found = _Comparison(policy).compare(a, b)
    for reading in readings:
        if found.verdict != "equal":
            other = _Comparison(policy).compare(READINGS[reading](a), READINGS[reading](b))
            found = other if other.verdict == "equal" else found
    return found


class _Comparison:
    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.budget = 3_000

    def compare(self, a: Node, b: Node) -> Outcome:
        self.budget -= 1
        if self.budget < 0:
            return undecided("structure", "too many comparisons")
        if a == b:
            return equal("identical")
        first, second = type(a), type(b)
        if first in _FORMULAS and second in _FORMULAS:
            outcome = compare_scalars(a, b, self.policy)
            if outcome.verdict == "equal" or not (has_matrix(a) or has_matrix(b)):
                return outcome
        if first.__name__ > second.__name__:
            a, b = b, a  # one order, so that the verdict is symmetric
        for rule in _RULES:
            found = rule(self, a, b)
            if found is not None:
                return found
        return compare_scalars(a, b, self.policy)

    # -- one rule each; None passes on ---------------------------------------------------------------------------------
    def names(self, a: Node, b: Node) -> Outcome | None:
        """``x = 3`` against 3, against ``x = 3`` and against ``y = 3``."""
        left, right = named_value(a), named_value(b)
        if left is not None and right is not None:
            if left[0] == right[0]:
                return self.compare(left[1], right[1])
            if is_collection(left[1]) or is_collection(right[1]):
                return different("structure", "other names")
            return None
        if left is None:
            left, right, a, b = right, left, b, a
        if left is None or not self.policy.names or isinstance(b, (Rel, System, Congruence, Builder)):
            return None
        if record(b) is not None or (isinstance(b, ListOf) and any(isinstance(item, Rel) for item in b.items)):
            return None
        return self.compare(left[1], b)

    def records(self, a: Node, b: Node) -> Outcome | None:
        """``x = 1, y = 2`` by name, or by order against bare values."""
        left, right = record(a), record(b)
        if left is None and right is None:
            return None
        if left is not None and right is not None:
            if {name for name, _ in left} != {name for name, _ in right}:
                return None
            values = dict(right)
            return all_of([self.compare(value, values[name]) for name, value in left])
        pairs = left or right or ()
        other = b if left is not None else a
        if (
            isinstance(other, (ListOf, Seq))
            and not any(isinstance(item, Rel) for item in other.items)
            and self.policy.names
        ):
            return self.ordered(tuple(value for _, value in pairs), other.items)
        if isinstance(other, Rel) and named_value(other) is not None:
            name, value = named_value(other) or (other, other)
            if isinstance(name, Seq) and isinstance(value, Seq) and len(name.items) == len(value.items):
                return self.compare(
                    ListOf(tuple(Rel(("=",), pair, True) for pair in zip(name.items, value.items, strict=True)), ","),
                    _as_list(pairs),
                )
        return None

    def texts(self, a: Node, b: Node) -> Outcome | None:
        if not isinstance(a, Text) and not isinstance(b, Text):
            return None
        if isinstance(a, Text) and isinstance(b, Text):
            same = words(a.value, self.policy) == words(b.value, self.policy)
            return equal("text") if same else different("text", "other words")
        text, other = (a, b) if isinstance(a, Text) else (b, a)
        if other == SetOf(()) and isinstance(text, Text) and words(text.value, self.policy).casefold() in _EMPTY:
            return equal("text", "the empty set in words")
        return different("text", "words against a formula")

    def percents(self, a: Node, b: Node) -> Outcome | None:
        if not isinstance(a, Percent) and not isinstance(b, Percent):
            return None
        if isinstance(a, Percent) and isinstance(b, Percent):
            return self.compare(a.value, b.value)
        found = compare_scalars(a, b, self.policy)
        if found.verdict == "equal" or self.policy.percent_sign == "required":
            return found
        inner, other = (a.value, b) if isinstance(a, Percent) else (getattr(b, "value", b), a)
        value = exact_value(inner)
        if value is None or value.q != 1 or isinstance(other, (Rel, *_COLLECTIONS)):
            return found
        loose = self.compare(inner, other)
        return loose if loose.verdict == "equal" else found

    def quantities(self, a: Node, b: Node) -> Outcome | None:
        left, right = isinstance(a, Quantity), isinstance(b, Quantity)
        if not left and not right:
            return None
        if isinstance(a, Quantity) and isinstance(b, Quantity):
            if a.unit == b.unit:
                return self.compare(a.value, b.value)
            if not a.unit or not b.unit:
                return (
                    self.compare(a.value, b.value)
                    if self.policy.missing_unit
                    else different("units", "a unit is missing")
                )
            (one, dims), (other, dims_other) = si(a.unit), si(b.unit)
            if dims != dims_other:
                return different("units", "other units")
            return self.compare(scale(a.value, one), scale(b.value, other))
        quantity, other_node = (a, b) if isinstance(a, Quantity) else (b, a)
        assert isinstance(quantity, Quantity)
        if isinstance(other_node, (Rel, *_COLLECTIONS, SetOp)):
            return different("units", "a quantity against a structure")
        if quantity.unit == _DEGREE:
            found = (
                self.compare(quantity.value, other_node)
                if self.policy.missing_unit
                else different("units", "a unit is missing")
            )
            return (
                found
                if found.verdict == "equal"
                else compare_scalars(Mul((quantity.value, Div(Const("pi"), Int(180)))), other_node, self.policy)
            )
        spelled = self.spelled_unit(quantity, other_node)
        if spelled is not None:
            return spelled
        if not self.policy.missing_unit:
            return different("units", "a unit is missing")
        return self.compare(quantity.value, other_node)

    def spelled_unit(self, quantity: Quantity, other: Node) -> Outcome | None:
        """``5 N`` typed as a product of 5 and N."""
        if (
            isinstance(other, Mul)
            and isinstance(other.args[-1], Sym)
            and quantity.unit == ((_SPELLED.get(other.args[-1].name, other.args[-1].name), 1),)
        ):
            rest = other.args[:-1]
            return self.compare(quantity.value, rest[0] if len(rest) == 1 else Mul(rest))
        return None

    def areas(self, a: Node, b: Node) -> Outcome | None:
        """Sets of reals, where at least one side is more than a list."""
        if not (is_region(a) or is_region(b)) or (isinstance(a, Seq) and isinstance(b, Seq)):
            return None
        if plain_equation(a) and plain_equation(b):
            return None
        try:
            left, right = regions.solution(a), regions.solution(b)
        except (regions.NoRegion, cost.Undefined):
            return None
        if left.variable is not None and right.variable is not None and left.variable != right.variable:
            return different("sets", "other variables")
        return equal("sets") if regions.same(left.region, right.region) else different("sets", "other sets")

    def collections(self, a: Node, b: Node) -> Outcome | None:
        if not is_collection(a) and not is_collection(b):
            return None
        if isinstance(a, Matrix) or isinstance(b, Matrix):
            return None
        if not is_collection(a) or not is_collection(b):
            collection, other = (a, b) if is_collection(a) else (b, a)
            items = collection.items  # type: ignore[attr-defined]
            if len(items) == 1 and not isinstance(other, (Rel, SetOp)):
                return (
                    self.compare(items[0], other)
                    if isinstance(collection, ListOf)
                    else different("structure", "a set is not its member")
                )
            if isinstance(other, (SetOp, Builder)):
                return None
            if isinstance(collection, ListOf) and not isinstance(other, (Rel, System)):
                unique = self.distinct(items)
                if len(unique) == 1:
                    return self.compare(unique[0], other)
            if isinstance(other, (Rel, System, Text, Ratio, Congruence)) and any(
                isinstance(item, (Rel, Congruence)) for item in items
            ):
                if isinstance(other, System):
                    return self.unordered(items, other.items)
                return None
            if isinstance(collection, Seq) and (parts := components(other, len(items))) is not None:
                return self.ordered(items, parts)
            return different("structure", "a collection against one value")
        assert isinstance(a, (ListOf, SetOf, Seq))
        assert isinstance(b, (ListOf, SetOf, Seq))
        if isinstance(a, Seq) and isinstance(b, Seq):
            if len(a.items) == 2 and (a.open, a.close) != (b.open, b.close) and not self.policy.tuple_as_set:
                return different("structure", "other brackets")
            return self.ordered(a.items, b.items)
        if isinstance(a, Seq) or isinstance(b, Seq):
            return self.seq_and_list(a, b) if isinstance(a, Seq) else self.seq_and_list(b, a)
        if any(isinstance(item, Dots) for item in (*a.items, *b.items)):
            return self.ordered(a.items, b.items)
        if isinstance(a, ListOf) and isinstance(b, ListOf) and not self.policy.unordered:
            return self.ordered(a.items, b.items)
        return self.unordered(a.items, b.items)

    def seq_and_list(self, seq: Node, other: Node) -> Outcome:
        assert isinstance(seq, Seq)
        assert isinstance(other, (ListOf, SetOf))
        if isinstance(other, ListOf) and not any(isinstance(item, (Seq, Rel)) for item in other.items):
            return self.ordered(seq.items, other.items)
        if isinstance(other, SetOf) and self.policy.tuple_as_set:
            return self.unordered(seq.items, other.items)
        return different("structure", "a tuple is not a set")

    def ordered(self, a: tuple[Node, ...], b: tuple[Node, ...]) -> Outcome:
        if len(a) != len(b):
            return different("structure", f"{len(a)} items against {len(b)}")
        return all_of([self.compare(x, y) for x, y in zip(a, b, strict=True)]) if a else equal("structure")

    def unordered(self, a: tuple[Node, ...], b: tuple[Node, ...]) -> Outcome:
        """Sets: each member of one has its equal in the other."""
        left_keys, right_keys = keys(a), keys(b)
        if left_keys is not None and left_keys == right_keys:
            return equal("structure")
        if max(len(a), len(b)) > _MAX_ITEMS:
            return (
                different("structure")
                if left_keys is not None and right_keys is not None
                else undecided("structure", "too many items")
            )
        left, right = self.distinct(a), self.distinct(b)
        if len(left) != len(right):
            return different("structure", f"{len(left)} items against {len(right)}")
        rest = list(right)
        doubtful: Outcome | None = None
        for item in left:
            for index, candidate in enumerate(rest):
                found = self.compare(item, candidate)
                if found.verdict == "equal":
                    del rest[index]
                    break
                if found.verdict == "undecided":
                    doubtful = found
            else:
                return doubtful or different("structure", "an item has no match")
        return equal("structure")

    def distinct(self, items: tuple[Node, ...]) -> list[Node]:
        kept: list[Node] = []
        seen: set[Any] = set()
        for item in items:
            mark = key(item)
            if mark in seen:
                continue
            seen.add(mark)
            kept.append(item)
        return kept

    def ratios(self, a: Node, b: Node) -> Outcome | None:
        if not isinstance(a, Ratio) and not isinstance(b, Ratio):
            return None
        if isinstance(a, Ratio) and isinstance(b, Ratio):
            if len(a.items) != len(b.items):
                return different("structure", "other ratios")
            if any(isinstance(item, Dots) for item in (*a.items, *b.items)) or any(
                exact_value(item) == 0 for item in (*a.items, *b.items)
            ):
                return self.ordered(a.items, b.items)
            first, other = a.items[0], b.items[0]
            return all_of(
                [
                    compare_scalars(Mul((x, other)), Mul((y, first)), self.policy)
                    for x, y in zip(a.items, b.items, strict=True)
                ]
            )
        ratio, value = (a, b) if isinstance(a, Ratio) else (b, a)
        assert isinstance(ratio, Ratio)
        if len(ratio.items) == 2 and exact_value(ratio.items[1]) != 0 and not isinstance(value, (Rel, *_COLLECTIONS)):
            return self.compare(Div(*ratio.items), value)
        return different("structure", "a ratio against something else")

    def bases(self, a: Node, b: Node) -> Outcome | None:
        if not isinstance(a, BaseNum) and not isinstance(b, BaseNum):
            return None
        if isinstance(a, BaseNum) and isinstance(b, BaseNum):
            return (
                equal("exact")
                if exact_value(a) == exact_value(b) and exact_value(a) is not None
                else different("exact", "other numerals")
            )
        numeral, other = (a, b) if isinstance(a, BaseNum) else (b, a)
        assert isinstance(numeral, BaseNum)
        if self.policy.base_suffix and isinstance(other, Int) and str(other.value) == numeral.digits.lstrip("0"):
            return equal("text", "same digits")
        return different("exact", "a numeral in a base against a formula")

    def families(self, a: Node, b: Node) -> Outcome | None:
        """Values with a free whole number, under any letter."""
        if not isinstance(a, (ListOf, Congruence)) or not isinstance(b, (ListOf, Congruence)):
            return None
        if isinstance(a, Congruence) and isinstance(b, Congruence):
            return None
        left, right = families.family(a, self.policy), families.family(b, self.policy)
        if left is None or right is None:
            return None
        same = families.same(left, right, self.policy)
        if same is None:
            return undecided("families", "periods that have no common multiple in reach")
        return equal("families") if same else different("families", "other members")

    def congruences(self, a: Node, b: Node) -> Outcome | None:
        if not isinstance(a, Congruence) and not isinstance(b, Congruence):
            return None
        if not isinstance(a, Congruence) or not isinstance(b, Congruence):
            return different("structure", "a congruence against something else")
        if self.compare(a.modulus, b.modulus).verdict != "equal":
            return different("exact", "other moduli")
        if a.left != b.left and Sym("?") not in (a.left, b.left):
            return different("structure", "other variables")
        modulus = exact_value(a.modulus)
        left, right = exact_value(a.right), exact_value(b.right)
        if modulus and left is not None and right is not None:
            return equal("exact") if ((left - right) / modulus).q == 1 else different("exact", "other residues")
        return self.compare(a.right, b.right)

    def matrices(self, a: Node, b: Node) -> Outcome | None:
        if not has_matrix(a) and not has_matrix(b):
            return None
        left, right = entries(a), entries(b)
        if left is None or right is None:
            return (
                different("structure", "a matrix against something else")
                if (left is None and right is None) or not has_matrix(a) or not has_matrix(b)
                else None
            )
        if len(left) != len(right) or len(left[0]) != len(right[0]):
            return different("structure", "other shapes")
        return all_of(
            [
                self.compare(x, y)
                for row, other in zip(left, right, strict=True)
                for x, y in zip(row, other, strict=True)
            ]
        )

    def relations(self, a: Node, b: Node) -> Outcome | None:
        if isinstance(a, System) and isinstance(b, System):
            return self.unordered(a.items, b.items)
        if isinstance(a, System) or isinstance(b, System):
            system, other = (a, b) if isinstance(a, System) else (b, a)
            assert isinstance(system, System)
            if len(system.items) == 1:
                return self.compare(system.items[0], other)
            return different("structure", "a system against something else")
        if not isinstance(a, Rel) and not isinstance(b, Rel):
            return None
        if not isinstance(a, Rel) or not isinstance(b, Rel):
            return different("structure", "a relation against a value")
        return self.two_relations(_canonical(a), _canonical(b))

    def two_relations(self, a: Rel, b: Rel) -> Outcome:
        if a.ops != b.ops:
            return different("relations", "other relations")
        if len(a.ops) > 1 and set(a.ops) == {"="}:
            return self.unordered(a.terms, b.terms)
        if a.ops[0] in ("parallel", "perp") and len(a.ops) == 1:
            return self.unordered(a.terms, b.terms)
        if (
            len(a.ops) > 1
            or a.ops[0] not in _SCALAR_OPS
            or any(is_collection(term) or isinstance(term, Text) for term in (*a.terms, *b.terms))
        ):
            return self.terms(a, b)
        if a.ops[0] == "!=" or a.ops[0] == "=":
            straight = all_of([compare_scalars(x, y, self.policy) for x, y in zip(a.terms, b.terms, strict=True)])
            if straight.verdict == "equal":
                return straight
        left, right = Add((a.terms[0], Neg(a.terms[1]))), Add((b.terms[0], Neg(b.terms[1])))
        return _proportional(left, right, signed=a.ops[0] not in ("=", "!=", "~"))

    def terms(self, a: Rel, b: Rel) -> Outcome:
        return all_of([self.compare(x, y) for x, y in zip(a.terms, b.terms, strict=True)])


_RULES = (
    _Comparison.names,
    _Comparison.families,
    _Comparison.records,
    _Comparison.texts,
    _Comparison.percents,
    _Comparison.quantities,
    _Comparison.areas,
    _Comparison.matrices,
    _Comparison.ratios,
    _Comparison.bases,
    _Comparison.congruences,
    _Comparison.collections,
    _Comparison.relations,
)


def is_collection(node: Node) -> bool:
    return isinstance(node, _COLLECTIONS)


def _as_list(pairs: tuple[tuple[Node, Node], ...]) -> Node:
    return ListOf(tuple(Rel(("=",), pair, True) for pair in pairs), ",")


def _canonical(rel: Rel) -> Rel:
    """Relations point one way: all ``>`` chains are read from right to left."""
    if all(op in _MIRROR for op in rel.ops):
        return Rel(tuple(_MIRROR[op] for op in reversed(rel.ops)), tuple(reversed(rel.terms)))
    return Rel(tuple("=" if op == "~" else op for op in rel.ops), rel.terms)


def _proportional(left: Node, right: Node, *, signed: bool) -> Outcome:
    """Whether two formulas differ by a constant factor (a positive one where ``signed``)."""
    from stepgauge.verifiers.symbolic.proportion import constant_factor

    return constant_factor(left, right, positive=signed)
