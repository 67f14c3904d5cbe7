"""The syntax tree of an answer: small frozen nodes, compared by value, safe to hash, pickle and share
between threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import TypeVar, dataclass_transform

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True)
def _node(cls: type[_T]) -> type[_T]:
    """A value class. Frozen for the type checker only: the guard at run time triples the cost of each node."""
    return dataclass(slots=True, unsafe_hash=True)(cls)


@_node
class Node:
    """Any piece of an answer."""


@_node
class Int(Node):
    """A whole number as written."""

    value: int


@_node
class Dec(Node):
    """A decimal literal, ``digits * 10**-scale``; ``scale`` is negative where an exponent outweighs the decimals."""

    digits: int
    scale: int


@_node
class Sym(Node):
    """A variable; subscripts and primes belong to the name (``v_0``, ``f'``)."""

    name: str


@_node
class Const(Node):
    """``pi``, ``e``, ``i`` or ``oo``."""

    name: str


@_node
class Add(Node):
    args: tuple[Node, ...]


@_node
class Mul(Node):
    args: tuple[Node, ...]


@_node
class Div(Node):
    num: Node
    den: Node


@_node
class Pow(Node):
    base: Node
    exp: Node


@_node
class Neg(Node):
    arg: Node


@_node
class PlusMinus(Node):
    """``left ± right``; ``left`` is None for a prefix sign; ``upper`` is +1 for ± and -1 for ∓."""

    left: Node | None
    right: Node
    upper: int


@_node
class Fn(Node):
    """A known function: ``sin``, ``root``, ``log`` (argument, base), ``abs``, ``binom`` ..."""

    name: str
    args: tuple[Node, ...]


@_node
class Apply(Node):
    """An unknown function of its arguments: ``f(x)``."""

    name: str
    args: tuple[Node, ...]


@_node
class Big(Node):
    """``sum prod int lim diff`` over ``var``; ``low``/``high`` are None where absent (``low`` is the point
    of a limit).
    """

    op: str
    var: Sym
    low: Node | None
    high: Node | None
    body: Node


@_node
class Seq(Node):
    """Items in brackets, in order: a tuple, a point, a vector or (two items) an interval."""

    open: str
    close: str
    items: tuple[Node, ...]


@_node
class SetOf(Node):
    """A finite set ``{a, b}``."""

    items: tuple[Node, ...]


@_node
class Builder(Node):
    """The set of all ``var`` with ``cond``."""

    var: Node
    cond: Node


@_node
class ListOf(Node):
    """Answers side by side, joined by ``,`` ``;`` ``and`` ``or``; no brackets."""

    items: tuple[Node, ...]
    joiner: str


@_node
class SetOp(Node):
    """``cup``, ``cap`` or ``setminus`` of two sets."""

    op: str
    left: Node
    right: Node


@_node
class Rel(Node):
    """A chain of relations, ``terms[0] ops[0] terms[1] ops[1] ...``; ops from ``= != < > <= >= ~ in notin``."""

    ops: tuple[str, ...]
    terms: tuple[Node, ...]
    named: bool = False  # the first term is a bare name for the value: x, f(x), |AB|, NO/BO


@_node
class Congruence(Node):
    left: Node
    right: Node
    modulus: Node


@_node
class System(Node):
    """Conditions that hold together (``cases``)."""

    items: tuple[Node, ...]


@_node
class Matrix(Node):
    rows: tuple[tuple[Node, ...], ...]


@_node
class Text(Node):
    """Words."""

    value: str


@_node
class Quantity(Node):
    """A value with a unit, ``((name, power), ...)``."""

    value: Node
    unit: tuple[tuple[str, int], ...]


@_node
class Percent(Node):
    value: Node


@_node
class Ratio(Node):
    """``a : b : c``."""

    items: tuple[Node, ...]


@_node
class BaseNum(Node):
    """Digits in a base: ``204_5``."""

    digits: str
    base: int


@_node
class Dots(Node):
    """An ellipsis."""


_FIELDS: dict[type[Node], tuple[str, ...]] = {}


def _names(kind: type[Node]) -> tuple[str, ...]:
    found = _FIELDS.get(kind)
    if found is None:
        found = _FIELDS[kind] = tuple(field.name for field in fields(kind))
    return found


def children(node: Node) -> Iterator[Node]:
    """Yield the direct sub-nodes in order."""
    for name in _names(type(node)):
        value = getattr(node, name)
        if isinstance(value, Node):
            yield value
        elif isinstance(value, tuple):
            for item in value:
                if isinstance(item, Node):
                    yield item
                elif isinstance(item, tuple):
                    yield from (cell for cell in item if isinstance(cell, Node))


def rebuild(node: Node, change: Callable[[Node], Node]) -> Node:
    """The node with ``change`` applied to each direct sub-node; the same object where nothing changed."""
    values = []
    changed = False
    for name in _names(type(node)):
        old = getattr(node, name)
        new = _mapped(old, change)
        changed = changed or new is not old
        values.append(new)
    return type(node)(*values) if changed else node


def _mapped(value: object, change: Callable[[Node], Node]) -> object:
    if isinstance(value, Node):
        return change(value)
    if isinstance(value, tuple):
        new = tuple(_mapped(item, change) for item in value)
        return value if all(a is b for a, b in zip(new, value, strict=True)) else new
    return value


def walk(node: Node) -> Iterator[Node]:
    """Yield the node and all below it, without recursion."""
    stack: list[Node] = [node]
    while stack:
        top = stack.pop()
        yield top
        for name in _FIELDS.get(type(top)) or _names(type(top)):
            value = getattr(top, name)
            if isinstance(value, Node):
                stack.append(value)
            elif type(value) is tuple:
                for item in value:
                    if isinstance(item, Node):
                        stack.append(item)
                    elif type(item) is tuple:
                        stack.extend(cell for cell in item if isinstance(cell, Node))
