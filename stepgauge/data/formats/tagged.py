"""Steps marked by a tag in one text: Math-Shepherd, OpenRLHF and ER-PRM.

Their first piece holds the problem and the first step; "Step 1:" tells where one ends, or a column "problem", which is
written where "Step 1:" would not tell. ``ки`` is the tag of all three.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from stepgauge.data.formats import fields
from stepgauge.data.formats.labelled import Labelled, is_hard
from stepgauge.scoring import Rollout

__all__ = [
    "STEP_ONE",
    "problem_and_steps",
    "problem_column",
    "read_er_prm",
    "read_math_shepherd",
    "read_openrlhf",
    "split_problem",
    "write_er_prm",
    "write_math_shepherd",
    "write_openrlhf",
]

TAG = "ки"
_PROBLEM = "problem"
STEP_ONE = re.compile(r"(?<!\w)Step 1\s?:")


def split_problem(first: str, problem: object = None) -> tuple[str, str] | None:
    """(problem, first step) of a piece that holds both; None where it cannot be told.

    A ``problem`` that the piece begins with decides; else "Step 1:" must be there exactly once.

    Example:
        >>> split_problem("What is 1+1? Step 1: 1+1 = 2.")
        ('What is 1+1?', 'Step 1: 1+1 = 2.')
    """
    if isinstance(problem, str) and first.strip().startswith(problem.strip()):
        return problem, first.strip()[len(problem.strip()) :].strip()
    found = list(STEP_ONE.finditer(first))
    if len(found) != 1:
        return None
    at = found[0].start()
    return first[:at].strip(), first[at:].strip()


def problem_column(problem: str, step: str) -> dict[str, str]:
    """What to add to a row whose first piece is problem and step: the problem, where it could not be told from it."""
    return {} if split_problem(f"{problem} {step}") == (problem, step.strip()) else {_PROBLEM: problem}


def problem_and_steps(
    pieces: Sequence[str], row: Mapping[str, Any], meta: dict[str, Any]
) -> tuple[str, tuple[str, ...]] | None:
    """Problem and stripped steps of a row's pieces; a column "problem" that was used is taken out of ``meta``."""
    known = row.get(_PROBLEM)
    parts = split_problem(pieces[0], known)
    if parts is None:
        return None
    if parts[0] == known:
        meta.pop(_PROBLEM, None)
    return parts[0], (parts[1], *(piece.strip() for piece in pieces[1:]))


def _no_problem(field: str, first: str) -> ValueError:
    return ValueError(
        f"{field} must name its first step 'Step 1:' once, or the row a 'problem' that {field} begins with, to tell "
        f"where the problem ends; it begins {first!r:.60}"
    )


def _sign(value: str, name: str) -> float:
    if value not in ("+", "-"):
        raise ValueError(f"{name} must be '+' or '-', got {value!r:.20}")
    return float(value == "+")


def read_math_shepherd(row: Mapping[str, Any]) -> list[Labelled]:
    """``{input: "q Step 1: … ки\\nStep 2: … ки", label: the same text with + or - for each ки, task}``.

    Example:
        >>> row = {"input": "1+1? Step 1: 1+1 = 2. ки\\nStep 2: So 3. ки", "task": "GSM8K",
        ...        "label": "1+1? Step 1: 1+1 = 2. +\\nStep 2: So 3. -"}
        >>> read_math_shepherd(row)
        [Labelled(Rollout(id='', problem='1+1?', 2 steps), [1, 0])]
    """
    tagged, marked = fields.text(row, "input"), fields.text(row, "label")
    pieces = tagged.split(TAG)
    if len(pieces) == 1:
        raise ValueError(f"input has no step tag {TAG!r}")
    if pieces[-1].strip():
        raise ValueError(f"input has text behind its last step tag: {pieces[-1].strip()!r:.60}")
    labels, at = [], 0
    for index, piece in enumerate(pieces[:-1]):
        if not marked.startswith(piece, at):
            raise ValueError(f"label must be input with + or - for each {TAG!r}; they differ before tag {index + 1}")
        at += len(piece) + 1
        labels.append(_sign(marked[at - 1 : at], f"label at tag {index + 1}"))
    if marked[at:].strip():
        raise ValueError(f"label has text behind the last tag: {marked[at:].strip()!r:.60}")
    meta = fields.others(row, "input", "label")
    found = problem_and_steps(pieces[:-1], row, meta)
    if found is None:
        raise _no_problem("input", pieces[0])
    return [Labelled(Rollout(*found, meta=meta), tuple(labels))]


def write_math_shepherd(item: Labelled) -> dict[str, Any]:
    """The row of ``read_math_shepherd``; steps without a label "Step k:" get one.

    Raises:
        ValueError: labels other than 0 and 1, or text that holds the tag.
    """
    if not is_hard(item.labels):
        raise ValueError(f"math_shepherd: every step needs the label 0 or 1, got {item.labels}; see harden")
    tagged, more = _tagged(item, "math_shepherd")
    pieces = tagged.split(TAG)
    signs = ["+" if label else "-" for label in item.labels]
    marked = "".join(piece + sign for piece, sign in zip(pieces, [*signs, ""], strict=True))
    return {"input": tagged, "label": marked, **more, **item.rollout.meta}


def _tagged(item: Labelled, name: str) -> tuple[str, dict[str, str]]:
    """The text with a tag behind each step, and the column that tells where the problem ends, if it takes one."""
    rollout = item.rollout
    if not rollout.steps:
        raise ValueError(f"{name}: a solution needs at least one step")
    for where, part in (("the problem", rollout.problem), *((f"step {i}", s) for i, s in enumerate(rollout.steps))):
        if TAG in part:
            raise ValueError(f"{name}: {where} holds the step tag {TAG!r}, so it would be read as two")
    steps = [
        step if re.match(rf"Step {number}\s?:", step) else f"Step {number}: {step}"
        for number, step in enumerate(rollout.steps, start=1)
    ]
    text = f"{rollout.problem} " + "\n".join(f"{step} {TAG}" for step in steps)
    return text, problem_column(rollout.problem, steps[0])


def read_openrlhf(row: Mapping[str, Any]) -> list[Labelled]:
    """``{input: as Math-Shepherd's, value: ["+" or "-" or number in [0, 1]] one a tag}``."""
    return [_with_values(row, "input", strict=True)]


def read_er_prm(row: Mapping[str, Any]) -> list[Labelled]:
    """``{text: "q s1 ки\\ns2 ки…", value: [number in [0, 1]] one a step}``; the last tag may be missing.

    Where the text has no "Step 1:" and the row no column "problem", there is no telling where the problem ends: then
    the problem is empty, the first step holds both, and ``meta["problem_in_first_step"]`` is true.
    """
    return [_with_values(row, "text", strict=False)]


def _with_values(row: Mapping[str, Any], field: str, *, strict: bool) -> Labelled:
    pieces = fields.text(row, field).split(TAG)
    if not pieces[-1].strip():
        pieces.pop()
    elif strict:
        raise ValueError(f"{field} has text behind its last step tag: {pieces[-1].strip()!r:.60}")
    if not pieces:
        raise ValueError(f"{field} is empty")
    values = fields.items(row, "value")
    if len(values) != len(pieces):
        raise ValueError(f"value must have one entry a step: {len(pieces)} steps in {field}, {len(values)} values")
    labels = [
        _sign(value, f"value[{index}]") if isinstance(value, str) else fields.label(value, f"value[{index}]")
        for index, value in enumerate(values)
    ]
    meta = fields.others(row, field, "value")
    found = problem_and_steps(pieces, row, meta)
    if found is None and strict:
        raise _no_problem(field, pieces[0])
    if found is None:
        meta["problem_in_first_step"] = True
        found = "", tuple(piece.strip() for piece in pieces)
    return Labelled(Rollout(*found, meta=meta), tuple(labels))


def write_openrlhf(item: Labelled) -> dict[str, Any]:
    """The row of ``read_openrlhf``: hard labels as "+" and "-", soft ones as numbers.

    Raises:
        ValueError: an unlabelled step, or text that holds the tag.
    """
    _all_labelled(item, "openrlhf")
    hard = is_hard(item.labels)
    value = [("+" if label else "-") if hard else label for label in item.labels]
    tagged, more = _tagged(item, "openrlhf")
    return {"input": tagged, "value": value, **more, **item.rollout.meta}


def write_er_prm(item: Labelled) -> dict[str, Any]:
    """The row of ``read_er_prm``, with a tag behind every step.

    Raises:
        ValueError: an unlabelled step, or text that holds the tag.
    """
    _all_labelled(item, "er_prm")
    meta = dict(item.rollout.meta)
    more: dict[str, str] = {}
    if meta.pop("problem_in_first_step", False):
        if TAG in "".join(item.rollout.steps):
            raise ValueError(f"er_prm: a step holds the step tag {TAG!r}, so it would be read as two")
        tagged = "\n".join(f"{step} {TAG}" for step in item.rollout.steps)
    else:
        tagged, more = _tagged(item, "er_prm")
    return {"text": tagged, "value": list(item.labels), **more, **meta}


def _all_labelled(item: Labelled, name: str) -> None:
    if None in item.labels:
        at = item.labels.index(None)
        raise ValueError(f"{name}: step {at} has no label; cut the solution with truncate_at_first_error")
