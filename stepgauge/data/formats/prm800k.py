"""PRM800K, phases 1 and 2: trees of rated completions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

from stepgauge.data.formats import fields
from stepgauge.data.formats.labelled import Labelled
from stepgauge.data.formats.trees import Node, paths
from stepgauge.scoring import Rollout

__all__ = ["Neutral", "read_prm800k", "write_prm800k"]

Neutral = Literal["good", "bad", "drop"]

_QUESTION = ("problem", "ground_truth_answer")


def read_prm800k(row: Mapping[str, Any], *, neutral: Neutral = "good") -> list[Labelled]:
    """The solutions of one labelling session, of either phase.

    The chosen (or human) completion of each step continues the solution; where none was chosen the first completion
    ends it. Every other completion is a solution of its own: the chosen steps before it as context without labels, and
    itself. So each rating is used once, and no label or step from later in the session leaks into an earlier prefix.
    A session that ended in "bad_problem" gives nothing.

    Args:
        row: ``{question: {problem, …}, label: {steps: [{completions: [{text, rating}], human_completion,
            chosen_completion}], finish_reason}, …}``.
        neutral: what the rating 0 means: "good" (OpenAI, Qwen), "bad" (TRL's conversion) or "drop" (no label).

    Raises:
        ValueError, TypeError: a field that is missing or wrong.
    """
    check_neutral(neutral)
    question = fields.row_of(row.get("question"), "question")
    label = fields.row_of(row.get("label"), "label")
    problem = fields.text(question, "problem")
    if label.get("finish_reason") == "bad_problem":
        return []
    steps = [fields.row_of(step, f"label.steps[{i}]") for i, step in enumerate(fields.items(label, "steps"))]
    if not steps:
        raise ValueError("label.steps is empty; a session needs at least one step")
    roots: list[Node] = []
    level = roots
    for index, step in enumerate(steps):
        where = f"label.steps[{index}]"
        nodes = _completions(step, where, neutral)
        human = step.get("human_completion")
        chosen = step.get("chosen_completion")
        if chosen is not None:
            at = fields.integer(chosen, f"{where}.chosen_completion")
            if not 0 <= at < len(nodes):
                raise ValueError(f"{where}.chosen_completion must be one of {len(nodes)} completions, got {at}")
            nodes.insert(0, nodes.pop(at))
        elif human is not None:
            written = fields.row_of(human, f"{where}.human_completion")
            nodes.insert(0, _node(written, f"{where}.human_completion", neutral))
        elif index < len(steps) - 1:
            raise ValueError(f"{where} has neither a chosen nor a human completion, and yet steps follow it")
        if not nodes:
            raise ValueError(f"{where}.completions is empty, and there is no human completion")
        level += nodes
        level = nodes[0].children
    meta = {
        **fields.others(row, "question", "label"),
        "finish_reason": label.get("finish_reason"),
        **({"total_time": label["total_time"]} if "total_time" in label else {}),
        "question": {name: value for name, value in question.items() if name not in _QUESTION},
    }
    gold = fields.optional_text(question, "ground_truth_answer")
    return [Labelled(Rollout(problem, texts, gold=gold, meta=meta), labels) for texts, labels in paths(roots)]


def check_neutral(neutral: str) -> None:
    """Raise ValueError for a policy that is not known."""
    if neutral not in get_args(Neutral):
        raise ValueError(f"read_prm800k(neutral) must be one of {', '.join(get_args(Neutral))}; got {neutral!r}")


def _completions(step: Mapping[str, Any], where: str, neutral: Neutral) -> list[Node]:
    if step.get("completions") is None:  # a step written by a human
        return []
    found = enumerate(fields.items(step, "completions"))
    return [
        _node(fields.row_of(c, f"{where}.completions[{i}]"), f"{where}.completions[{i}]", neutral) for i, c in found
    ]


def _node(completion: Mapping[str, Any], where: str, neutral: Neutral) -> Node:
    rating = completion.get("rating")
    if rating is not None and (isinstance(rating, bool) or rating not in (-1, 0, 1)):
        raise ValueError(f"{where}.rating must be -1, 0, 1 or null, got {rating!r:.40}")
    meaning = {1: 1.0, -1: 0.0, 0: {"good": 1.0, "bad": 0.0, "drop": None}[neutral], None: None}
    if not isinstance(completion.get("text"), str):
        raise TypeError(f"{where}.text must be a string, got {completion.get('text')!r:.60}")
    return Node(fields.text(completion, "text"), meaning[rating])


def write_prm800k(item: Labelled) -> dict[str, Any]:
    """A session with one completion a step: 1 becomes rating 1, 0 becomes -1, an unlabelled step null.

    A neutral rating is written as what reading made of it; an alternative becomes a session of its own.

    Raises:
        ValueError: a soft label, or a solution without steps.
    """
    if not all(label in (0.0, 1.0, None) for label in item.labels):
        raise ValueError(f"prm800k: labels must be 0, 1 or None, got {item.labels}; see harden")
    if not item.labels:
        raise ValueError("prm800k: a solution needs at least one step")
    meta = dict(item.rollout.meta)
    question = {"problem": item.rollout.problem, **meta.pop("question", {})}
    if item.rollout.gold is not None:
        question["ground_truth_answer"] = item.rollout.gold
    rated = zip(item.rollout.steps, item.labels, strict=True)
    steps = [
        {
            "completions": [{"text": text, "rating": None if label is None else 1 if label else -1, "flagged": False}],
            "human_completion": None,
            "chosen_completion": 0,
        }
        for text, label in rated
    ]
    label = {"steps": steps, "finish_reason": meta.pop("finish_reason", None)}
    if "total_time" in meta:
        label["total_time"] = meta.pop("total_time")
    return {**meta, "question": question, "label": label}
