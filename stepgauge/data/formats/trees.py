"""Trees of steps to solutions: every labelled step appears in exactly one of them with its label."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

__all__ = ["Node", "paths"]


MAX_STEPS = 200_000  # of all solutions of one row together; a long and wide tree multiplies


@dataclass(slots=True)
class Node:
    """A step, its label (None = none) and what may follow it."""

    text: str
    label: float | None
    children: list[Node] = field(default_factory=list)


def paths(roots: list[Node]) -> Iterator[tuple[tuple[str, ...], tuple[float | None, ...]]]:
    """(steps, labels) of every path from a root to a leaf, depth first.

    A step that several paths share keeps its label in the first of them only and is context (None) in the others: no
    label is counted twice, and none depends on what comes after it.

    Raises:
        ValueError: a tree that expands to more than ``MAX_STEPS`` steps.

    Example:
        >>> list(paths([Node("a", 1.0, [Node("b", 1.0), Node("c", 0.0)])]))
        [(('a', 'b'), (1.0, 1.0)), (('a', 'c'), (None, 0.0))]
    """
    stack: list[tuple[Node, tuple[Node, ...]]] = [(root, ()) for root in reversed(roots)]
    used: set[int] = set()
    total = 0
    while stack:
        node, before = stack.pop()
        path = (*before, node)
        if node.children:
            stack += [(child, path) for child in reversed(node.children)]
            continue
        total += len(path)
        if total > MAX_STEPS:
            raise ValueError(f"the tree of steps expands to more than {MAX_STEPS} steps; leave the row out")
        labels = tuple(None if id(step) in used else step.label for step in path)
        used.update(id(step) for step in path)
        yield tuple(step.text for step in path), labels
