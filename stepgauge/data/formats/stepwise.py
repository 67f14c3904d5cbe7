"""TRL's stepwise supervision, and ProcessBench and PRMBench: rows that give the steps as a list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepgauge.data.formats import fields
from stepgauge.data.formats.labelled import Labelled, first_error_labels, is_hard
from stepgauge.scoring import Rollout

__all__ = ["read_prmbench", "read_processbench", "read_trl", "write_prmbench", "write_processbench", "write_trl"]


def read_trl(row: Mapping[str, Any]) -> list[Labelled]:
    """``{prompt, completions: [step], labels: [bool or number]}``.

    Example:
        >>> read_trl({"prompt": "1+1?", "completions": ["1+1 = 2."], "labels": [True]})[0].labels
        (1.0,)
    """
    steps = fields.texts(row, "completions")
    labels = [fields.label(value, f"labels[{i}]") for i, value in enumerate(fields.items(row, "labels"))]
    if len(labels) != len(steps):
        raise ValueError(f"labels must have one entry a completion: {len(steps)} completions, {len(labels)} labels")
    if not steps:
        raise ValueError("completions is empty; a row needs at least one step")
    meta = fields.others(row, "prompt", "completions", "labels", "id")
    rollout = Rollout(fields.text(row, "prompt"), steps, id=str(row.get("id", "")), meta=meta)
    return [Labelled(rollout, tuple(labels))]


def write_trl(item: Labelled) -> dict[str, Any]:
    """The row of ``read_trl``, labels as booleans.

    Raises:
        ValueError: a soft label (TRL turned 0.9 into False) or an unlabelled step; ``harden`` and
            ``truncate_at_first_error`` make rows that can be written.
    """
    if None in item.labels:
        at = item.labels.index(None)
        raise ValueError(f"trl: step {at} has no label; cut the solution with truncate_at_first_error, or leave it out")
    if not is_hard(item.labels):
        raise ValueError(f"trl: labels must be 0 or 1, got {item.labels}; make them so with harden(item, threshold)")
    name = {"id": item.rollout.id} if item.rollout.id else {}
    labels = [label == 1 for label in item.labels]
    steps = list(item.rollout.steps)
    return {**name, "prompt": item.rollout.problem, "completions": steps, "labels": labels, **item.rollout.meta}


def read_processbench(row: Mapping[str, Any]) -> list[Labelled]:
    """``{id, generator, problem, steps, final_answer_correct, label}``; label = 0-based first error, -1 none.

    Steps after the first error have no label.
    """
    steps = fields.texts(row, "steps")
    at = fields.integer(row.get("label"), "label")
    if not -1 <= at < len(steps):
        raise ValueError(f"label must be -1 (no error) or a step 0..{len(steps) - 1}, got {at}")
    meta = fields.others(row, "id", "problem", "steps", "final_answer_correct", "label")
    rollout = Rollout(fields.text(row, "problem"), steps, id=fields.text(row, "id"), meta=meta)
    outcome = fields.boolean(row.get("final_answer_correct"), "final_answer_correct")
    return [Labelled(rollout, first_error_labels(len(steps), at), outcome)]


def write_processbench(item: Labelled) -> dict[str, Any]:
    """The row of ``read_processbench``.

    Raises:
        ValueError: no outcome, or a step before the first error without a hard label.
    """
    at = item.first_error()
    before = item.labels if at < 0 else item.labels[: at + 1]
    if not is_hard(before):
        raise ValueError(
            f"processbench: every step up to the first error needs the label 0 or 1, got {before}; make soft labels "
            "hard with harden(item, threshold)"
        )
    if item.outcome is None:
        raise ValueError("processbench: Labelled.outcome (is the final answer right) must be known, got None")
    r = item.rollout
    return {
        "id": r.id,
        **r.meta,
        "problem": r.problem,
        "steps": list(r.steps),
        "final_answer_correct": item.outcome,
        "label": at,
    }


def read_prmbench(row: Mapping[str, Any]) -> list[Labelled]:
    """``{idx, modified_question, modified_process: [step], error_steps: [1-based], classification, …}``.

    Labels are those of the modified process. Some published rows name error steps past the end; like the authors'
    evaluation this leaves them without effect, and keeps them in ``meta["error_steps_past_end"]``.
    """
    steps = fields.texts(row, "modified_process")
    if not steps:
        raise ValueError("modified_process is empty; a row needs at least one step")
    errors = [fields.integer(e, f"error_steps[{i}]") for i, e in enumerate(fields.items(row, "error_steps"))]
    if any(error < 1 for error in errors):
        raise ValueError(f"error_steps counts from 1, got {errors}")
    meta = fields.others(row, "idx", "modified_question", "modified_process", "error_steps")
    meta["classification"] = fields.text(row, "classification")
    past_end = [error for error in errors if error > len(steps)]
    if past_end:
        meta["error_steps_past_end"] = past_end
    labels = tuple(float(index not in errors) for index in range(1, len(steps) + 1))
    rollout = Rollout(fields.text(row, "modified_question"), steps, id=fields.text(row, "idx"), meta=meta)
    return [Labelled(rollout, labels)]


def write_prmbench(item: Labelled) -> dict[str, Any]:
    """The row of ``read_prmbench``.

    Raises:
        ValueError: a label that is not 0 or 1.
    """
    if not is_hard(item.labels):
        raise ValueError(f"prmbench: every step needs the label 0 or 1, got {item.labels}; see harden")
    r = item.rollout
    errors = [index for index, label in enumerate(item.labels, start=1) if label == 0]
    return {
        **{name: value for name, value in r.meta.items() if name != "error_steps_past_end"},
        "idx": r.id,
        "modified_question": r.problem,
        "modified_process": list(r.steps),
        "error_steps": [*errors, *r.meta.get("error_steps_past_end", ())],
    }
