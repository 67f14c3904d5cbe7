"""RLHFlow's PRM data: a conversation of steps, each answered by "+" or "-"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepgauge.data.formats import fields
from stepgauge.data.formats.labelled import Labelled, is_hard
from stepgauge.data.formats.tagged import STEP_ONE, problem_and_steps, problem_column
from stepgauge.scoring import Rollout

__all__ = ["read_rlhflow", "write_rlhflow"]

_FIRST = "problem_in_first_step"


def read_rlhflow(row: Mapping[str, Any]) -> list[Labelled]:
    """``{conversations: [{role: user, content: "q s1"}, {role: assistant, content: "+"}, …]}``.

    Keys "from" and "value", and roles "human" and "gpt", are read too. Where the first turn has no "Step 1:" and
    the row no column "problem", there is no telling where the problem ends: then the problem is empty, the first step
    holds both, and ``meta["problem_in_first_step"]`` is true.

    Example:
        >>> turns = [{"role": "user", "content": "1+1? Step 1: 1+1 = 2."}, {"role": "assistant", "content": "+"}]
        >>> read_rlhflow({"conversations": turns})
        [Labelled(Rollout(id='', problem='1+1?', 1 steps), [1])]
    """
    name = "conversations" if "conversations" in row else "messages"
    turns = [_turn(turn, f"{name}[{index}]") for index, turn in enumerate(fields.items(row, name))]
    if not turns or len(turns) % 2:
        raise ValueError(f"{name} must alternate between a step and its label, got {len(turns)} turns")
    steps, labels = [], []
    for index, (role, content) in enumerate(turns):
        expected = ("user", "human") if index % 2 == 0 else ("assistant", "gpt")
        if role not in expected:
            raise ValueError(f"{name}[{index}] must be a turn of {expected[0]!r}, got {role!r:.30}")
        if index % 2 == 0:
            steps.append(content.strip())
        elif content.strip() in ("+", "-"):
            labels.append(float(content.strip() == "+"))
        else:
            raise ValueError(f"{name}[{index}] must be '+' or '-', got {content!r:.40}")
    meta = fields.others(row, name)
    found = problem_and_steps(steps, row, meta)
    if found is None:
        meta[_FIRST] = True
    return [Labelled(Rollout(*(found or ("", tuple(steps))), meta=meta), tuple(labels))]


def _turn(turn: object, where: str) -> tuple[str, str]:
    turn = fields.row_of(turn, where)
    names = ("role", "content") if "role" in turn else ("from", "value")
    values = [turn.get(name) for name in names]
    if not all(isinstance(value, str) for value in values):
        raise TypeError(f"{where} needs strings 'role' and 'content' (or 'from' and 'value'), got {dict(turn)!r:.60}")
    return fields.text(turn, names[0]), fields.text(turn, names[1])


def write_rlhflow(item: Labelled) -> dict[str, Any]:
    """The row of ``read_rlhflow``, with "role" and "content"; the first step gets the label "Step 1:" if it has none.

    Raises:
        ValueError: labels other than 0 and 1, or no steps.
    """
    if not item.labels or not is_hard(item.labels):
        raise ValueError(f"rlhflow: every step needs the label 0 or 1, got {item.labels}; see harden")
    meta = dict(item.rollout.meta)
    more: dict[str, str] = {}
    contents = list(item.rollout.steps)
    if not meta.pop(_FIRST, False):
        first = contents[0] if STEP_ONE.match(contents[0]) else f"Step 1: {contents[0]}"
        more = problem_column(item.rollout.problem, first)
        contents[0] = f"{item.rollout.problem} {first}"
    turns = []
    for content, label in zip(contents, item.labels, strict=True):
        turns.append({"role": "user", "content": content})
        turns.append({"role": "assistant", "content": "+" if label else "-"})
    return {"conversations": turns, **more, **meta}
