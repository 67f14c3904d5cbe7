"""Bring an answer to the shape it is compared in: signs ± written out, names taken off, lists of roots gathered."""

from __future__ import annotations

import re

from stepgauge.verifiers.symbolic import cost
from stepgauge.verifiers.symbolic.exact import rational
from stepgauge.verifiers.symbolic.nodes import (
    Add,
    Builder,
    ListOf,
    Mul,
    Neg,
    Node,
    PlusMinus,
    Rel,
    Seq,
    SetOf,
    Sym,
    System,
    rebuild,
    walk,
)

_INDEX = re.compile(r"(.+?)_?(\d+)")


def expand_signs(node: Node) -> Node:
    """Write ± and ∓ out: a list of the upper and the lower reading, joined into the list or set around it."""
    if not any(isinstance(part, PlusMinus) for part in walk(node)):
        return node
    if isinstance(node, (ListOf, SetOf)):
        items: list[Node] = []
        for item in node.items:
            out = expand_signs(item)
            items.extend(out.items if isinstance(out, ListOf) and not isinstance(item, ListOf) else (out,))
        return SetOf(tuple(items)) if isinstance(node, SetOf) else ListOf(tuple(items), node.joiner)
    if isinstance(node, Rel):
        last = expand_signs(node.terms[-1])
        if isinstance(last, ListOf) and not any(
            isinstance(part, PlusMinus) for term in node.terms[:-1] for part in walk(term)
        ):
            return Rel(node.ops, (*node.terms[:-1], last), node.named)
    return ListOf((_signed(node, 1), _signed(node, -1)), "or")


def _signed(node: Node, sign: int) -> Node:
    if isinstance(node, PlusMinus):
        right = _signed(node.right, sign)
        term = right if node.upper * sign > 0 else Neg(right)
        return term if node.left is None else Add((_signed(node.left, sign), term))
    return rebuild(node, lambda child: _signed(child, sign))


def family(name: Node) -> Node:
    """Roots are numbered: ``x_1`` and ``x_2`` are values of ``x``."""
    if isinstance(name, Sym) and (match := _INDEX.fullmatch(name.name)) and "_" in name.name:
        return Sym(match[1])
    return name


def gather(node: Node) -> Node:
    """``x = 1, x = 2`` and ``x = 1, 2`` and ``x_1 = 1, x_2 = 2`` as one name with a list of values."""
    if isinstance(node, Rel):
        return settle(node)
    if isinstance(node, Mul) and len(node.args) == 2 and _is_point(*node.args):
        return Rel(("=",), node.args, True)
    if not isinstance(node, ListOf):
        return node
    items = [gather(item) if isinstance(item, (Rel, ListOf)) else item for item in node.items]
    named = [isinstance(item, Rel) and item.named and item.ops == ("=",) for item in items]
    if named[0] and not any(named[1:]) and not any(isinstance(item, (Rel, System)) for item in items[1:]):
        first = items[0]
        assert isinstance(first, Rel)
        return Rel(("=",), (first.terms[0], ListOf((*_values(first.terms[1]), *items[1:]), node.joiner)), True)
    if all(named):
        rels = [item for item in items if isinstance(item, Rel)]
        for key in (lambda term: term, family):
            if len({key(rel.terms[0]) for rel in rels}) == 1:
                values = tuple(value for rel in rels for value in _values(rel.terms[1]))
                return Rel(("=",), (key(rels[0].terms[0]), ListOf(values, node.joiner)), True)
        rows = _rows(rels)
        if rows is not None:
            return ListOf(rows, node.joiner)
    return ListOf(tuple(items), node.joiner)


def _is_point(name: Node, place: Node) -> bool:
    """``M(2, -1)``: a point's name before its coordinates."""
    return (
        isinstance(place, Seq)
        and isinstance(name, Sym)
        and name.name[0].isupper()
        and len(name.name.partition("_")[0]) == 1
    )


def _rows(rels: list[Rel]) -> tuple[Node, ...] | None:
    """``p = 5, q = 2 and p = 7, q = 2`` as one record after the other."""
    names = [rel.terms[0] for rel in rels]
    width = len(set(names))
    if (
        width < 2
        or len(names) <= width
        or len(names) % width
        or any(name != names[index % width] for index, name in enumerate(names))
    ):
        return None
    return tuple(System(tuple(rels[start : start + width])) for start in range(0, len(rels), width))


def _values(node: Node) -> tuple[Node, ...]:
    return node.items if isinstance(node, ListOf) else (node,)


def settle(node: Rel) -> Node:
    """One relation from a chain: ``x = 1 + 1 = 2`` is ``x = 2``, a trailing approximation is dropped,
    a true chain of numbers is its value.
    """
    terms, ops, named = list(node.terms), list(node.ops), node.named
    if "~" in ops:
        at = ops.index("~")
        if at == 0:
            if not named:
                return terms[0]
            ops[0] = "="
            at = ops.index("~") if "~" in ops else len(ops)
        terms, ops = terms[: at + 1], ops[:at]
        if not ops:
            return terms[0]
    if set(ops) == {"="}:
        values = terms[1:] if named else terms
        if len(values) > 1 and _consistent(values):
            return Rel(("=",), (terms[0], values[-1]), True) if named else values[-1]
        if len(values) == 1 and named:
            return Rel(("=",), (terms[0], values[0]), True)
    if ops == ["in"] and named and isinstance(terms[1], SetOf):
        return Rel(("=",), (terms[0], terms[1]), True)
    return Rel(tuple(ops), tuple(terms), named)


def _consistent(values: list[Node]) -> bool:
    """Whether a chain states nothing false: its constant members are one value."""
    try:
        known = [value for value in map(rational, values) if value is not None]
    except cost.Undefined:
        return False
    if len(known) < len(values):
        return (
            len(known) == 0
            and len(values) > 1
            and not any(isinstance(part, Sym) for value in values for part in walk(value))
        )
    return all(value == known[0] for value in known)


def named_value(node: Node) -> tuple[Node, Node] | None:
    """Name and value of ``x = value``, ``x in set``; None for anything else."""
    if isinstance(node, Rel) and node.named and node.ops in (("=",), ("in",)):
        return node.terms[0], node.terms[1]
    return None


def record(node: Node) -> tuple[tuple[Node, Node], ...] | None:
    """Names and values of ``x = 1, y = 2`` (distinct names); None for anything else."""
    if not isinstance(node, (ListOf, System)):
        return None
    pairs = [named_value(item) for item in node.items]
    found = tuple(pair for pair in pairs if pair is not None)
    if len(found) != len(pairs) or len({name for name, _ in found}) != len(found):
        return None
    return found


def is_tuple_name(node: Node) -> bool:
    return isinstance(node, Seq) and all(isinstance(item, Sym) for item in node.items)


def is_set_like(node: Node) -> bool:
    return isinstance(node, (SetOf, ListOf, Builder))
