"""MATH-APS: Monte-Carlo values of solution prefixes, as a list (first release) or as a tree (second)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepgauge.data.formats import fields
from stepgauge.data.formats.labelled import Labelled
from stepgauge.data.formats.trees import Node, paths
from stepgauge.scoring import Rollout

__all__ = ["read_math_aps", "write_math_aps"]

MAX_DEPTH = 1000


def read_math_aps(row: Mapping[str, Any]) -> list[Labelled]:
    """``{question_id, question, final_answer, reasoning_steps: [{solution_prefix, mc_value}]}``, or a tree.

    A prefix that begins with another one continues it; what it adds is a step. In the second release each step is
    ``{text, mc_value, children}``. Labels are the values; one shared by several solutions counts in the first only.

    Example:
        >>> read_math_aps({"question_id": 7, "question": "1+1?", "final_answer": "2", "reasoning_steps": [
        ...     {"solution_prefix": "1+1 = 2.", "mc_value": 1.0},
        ...     {"solution_prefix": "1+1 = 2. So 3.", "mc_value": 0.25}]})
        [Labelled(Rollout(id='7', problem='1+1?', 2 steps, gold='2'), [1, 0.25])]
    """
    problem = fields.text(row, "question")
    steps = [fields.row_of(s, f"reasoning_steps[{i}]") for i, s in enumerate(fields.items(row, "reasoning_steps"))]
    if not steps:
        raise ValueError("reasoning_steps is empty; a row needs at least one step")
    if "solution_prefix" in steps[0]:
        roots = _nested([_prefix(step, f"reasoning_steps[{i}]") for i, step in enumerate(steps)])
    else:
        roots = [_tree(step, f"reasoning_steps[{i}]", 1) for i, step in enumerate(steps)]
    gold = row.get("final_answer")
    if gold is not None and not isinstance(gold, str | int | float):
        raise TypeError(f"final_answer must be a string or a number, got {type(gold).__name__}")
    name = str(row.get("question_id", ""))
    meta = fields.others(row, "question_id", "question", "final_answer", "reasoning_steps")
    answer = None if gold is None else str(gold)
    found = []
    for texts, labels in paths(roots):
        text, spans, at = "".join(texts), [], 0
        for part in texts:
            start = at + len(part) - len(part.lstrip())
            spans.append((start, max(start, at + len(part.rstrip()))))
            at += len(part)
        rollout = Rollout(
            problem, tuple(text[a:b] for a, b in spans), gold=answer, text=text, spans=tuple(spans), id=name, meta=meta
        )
        found.append(Labelled(rollout, labels))
    return found


def _prefix(step: Mapping[str, Any], where: str) -> tuple[str, float | None]:
    if not isinstance(step.get("solution_prefix"), str) or not step["solution_prefix"].strip():
        raise ValueError(f"{where}.solution_prefix must be a text, got {step.get('solution_prefix')!r:.60}")
    return fields.text(step, "solution_prefix"), fields.label(step.get("mc_value"), f"{where}.mc_value", nullable=True)


def _nested(prefixes: list[tuple[str, float | None]]) -> list[Node]:
    """Each prefix below the longest other one that it continues; "is 12" does not continue "is 1"."""
    roots: list[Node] = []
    begun: list[tuple[str, Node]] = []  # those that the current text begins with, shortest first
    for text, label in sorted(prefixes, key=lambda prefix: prefix[0]):  # a prefix comes before what continues it
        while begun and not text.startswith(begun[-1][0]):
            begun.pop()
        if begun and text == begun[-1][0]:
            raise ValueError(f"reasoning_steps gives the same solution_prefix twice: {text!r:.60}")
        above = next((pair for pair in reversed(begun) if _continues(text, pair[0])), None)
        node = Node(text if above is None else text[len(above[0]) :], label)
        (roots if above is None else above[1].children).append(node)
        begun.append((text, node))
    return roots


def _continues(text: str, prefix: str) -> bool:
    return not (text[len(prefix) - 1].isalnum() and text[len(prefix)].isalnum())


def _tree(step: Mapping[str, Any], where: str, depth: int) -> Node:
    if depth > MAX_DEPTH:
        raise ValueError(f"{where}: the tree is deeper than {MAX_DEPTH} steps")
    if not isinstance(step.get("text"), str):
        raise ValueError(f"{where} needs 'text' (or 'solution_prefix'), got {', '.join(map(str, step)) or 'nothing'}")
    label = fields.label(step.get("mc_value"), f"{where}.mc_value", nullable=True)
    children = fields.items(step, "children") if step.get("children") is not None else []
    below = [_tree(fields.row_of(c, f"{where}.children[{i}]"), where, depth + 1) for i, c in enumerate(children)]
    return Node(fields.text(step, "text"), label, below)


def write_math_aps(item: Labelled) -> dict[str, Any]:
    """The row of ``read_math_aps`` in the layout of the first release: one prefix a step.

    Raises:
        ValueError: a step without text, which no prefix can show, or no steps.
    """
    rollout = item.rollout
    if not rollout.steps or not all(step.strip() for step in rollout.steps):
        raise ValueError("math_aps: a solution needs steps, and each step needs text")
    prefixes = [
        {"solution_prefix": rollout.response[:end], "mc_value": label}
        for (_, end), label in zip(rollout.step_spans, item.labels, strict=True)
    ]
    gold = {} if rollout.gold is None else {"final_answer": rollout.gold}
    return {
        "question_id": rollout.id,
        "question": rollout.problem,
        **gold,
        "reasoning_steps": prefixes,
        **rollout.meta,
    }
