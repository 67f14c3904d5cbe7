"""First errors found by people: MR-GSM8K, MR-Ben and BIG-Bench Mistake. Steps after the first error have no label."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from stepgauge.data.formats import fields
from stepgauge.data.formats.labelled import Labelled, first_error_labels, is_hard
from stepgauge.scoring import Rollout

__all__ = [
    "read_bigbench_mistake",
    "read_mr_ben",
    "read_mr_gsm8k",
    "write_bigbench_mistake",
    "write_mr_ben",
    "write_mr_gsm8k",
]

_NONE = "N/A"


def read_mr_gsm8k(row: Mapping[str, Any]) -> list[Labelled]:
    """``{uuid, question, ground_truth_answer, model_output_steps, model_output_answer_correctness,
    model_output_solution_first_error_step: 1-based, or "N/A", …}``.

    Example:
        >>> row = {"uuid": "u", "question": "1+1?", "ground_truth_answer": 2, "model_output_steps": ["Step 1: #### 3"],
        ...        "model_output_answer_correctness": "wrong", "model_output_solution_first_error_step": 1}
        >>> read_mr_gsm8k(row)
        [Labelled(Rollout(id='u', problem='1+1?', 1 steps, gold='2'), [0])]
    """
    steps = _steps(row, "model_output_steps")
    named = row.get("model_output_solution_first_error_step")
    first = -1 if named == _NONE else fields.integer(named, "model_output_solution_first_error_step") - 1
    if named != _NONE and not 0 <= first < len(steps):
        raise ValueError(f"model_output_solution_first_error_step must be 1..{len(steps)} or {_NONE!r}, got {named}")
    outcome = _outcome(row, "model_output_answer_correctness", {"correct": True, "wrong": False})
    gold = row.get("ground_truth_answer")
    if not isinstance(gold, str | int | float):
        raise TypeError(f"ground_truth_answer must be a string or a number, got {type(gold).__name__}")
    meta = fields.others(
        row,
        "uuid",
        "question",
        "model_output_steps",
        "model_output_answer_correctness",
        "model_output_solution_first_error_step",
    )
    rollout = Rollout(fields.text(row, "question"), steps, gold=str(gold), id=fields.text(row, "uuid"), meta=meta)
    return [Labelled(rollout, first_error_labels(len(steps), first), outcome)]


def write_mr_gsm8k(item: Labelled) -> dict[str, Any]:
    """The row of ``read_mr_gsm8k``.

    Raises:
        ValueError: no outcome, no gold answer, or a step before the first error without a hard label.
    """
    at = _first_error(item, "mr_gsm8k")
    _check_gold(item, "mr_gsm8k")
    if item.outcome is None:
        raise ValueError("mr_gsm8k: Labelled.outcome (is the final answer right) must be known, got None")
    return {
        "ground_truth_answer": item.rollout.gold,
        **item.rollout.meta,
        "uuid": item.rollout.id,
        "question": item.rollout.problem,
        "model_output_steps": list(item.rollout.steps),
        "model_output_answer_correctness": "correct" if item.outcome else "wrong",
        "model_output_solution_first_error_step": _NONE if at < 0 else at + 1,
    }


def read_mr_ben(row: Mapping[str, Any]) -> list[Labelled]:
    """``{Question_UUID, Question, Options, Ground_Truth_Answer, Model_Solution_Steps, Model_Solution_First_Error_Step:
    the k of its "Step k", or "N/A", …}``.

    The problem is the question with its options; empty lines among the steps are left out. A label that names no step,
    or several ("Step 1" twice), is reported. Rows of the coding part name a line of source instead, and are reported.
    """
    lines = fields.texts(row, "Model_Solution_Steps")
    steps = tuple(line for line in lines if line.strip())
    if not steps:
        raise ValueError("Model_Solution_Steps is empty; a row needs at least one step")
    named = fields.text(row, "Model_Solution_First_Error_Step")
    first = -1
    if named != _NONE:
        called = _called(steps, named)
        if len(called) != 1:
            raise ValueError(
                f"Model_Solution_First_Error_Step must name one step 'Step k' or be {_NONE!r}; {named!r:.20} names "
                f"{len(called)}"
            )
        first = called[0]
    meta = fields.others(
        row,
        "Question_UUID",
        "Question",
        "Ground_Truth_Answer",
        "Model_Solution_Steps",
        "Model_Solution_First_Error_Step",
    )
    problem = f"{fields.text(row, 'Question')}\n{fields.text(row, 'Options')}"
    gold, name = fields.text(row, "Ground_Truth_Answer"), fields.text(row, "Question_UUID")
    return [Labelled(Rollout(problem, steps, gold=gold, id=name, meta=meta), first_error_labels(len(steps), first))]


def _called(steps: Sequence[str], number: str) -> list[int]:
    """The steps that begin with "Step number"; "Step 1.2" is not step 1."""
    begins = re.compile(rf"\s*Step {re.escape(number)}(?!\w|\.\w)")
    return [index for index, step in enumerate(steps) if begins.match(step)]


def write_mr_ben(item: Labelled) -> dict[str, Any]:
    """The row of ``read_mr_ben``.

    Raises:
        ValueError: no gold answer, a step before the first error without a hard label, or an error step not called
            "Step k".
    """
    at, r = _first_error(item, "mr_ben"), item.rollout
    _check_gold(item, "mr_ben")
    named = _NONE
    if at >= 0:
        found = re.match(r"\s*Step (\w+)", r.steps[at])
        named = found[1] if found else ""
        if not named or _called(r.steps, named) != [at]:
            raise ValueError(f"mr_ben: step {at} is the first error and must begin 'Step k', with a k of its own")
    options = str(r.meta.get("Options", ""))
    return {
        "Options": "",
        **r.meta,
        "Question_UUID": r.id,
        "Question": r.problem.removesuffix(f"\n{options}"),
        "Ground_Truth_Answer": r.gold,
        "Model_Solution_Steps": list(r.steps),
        "Model_Solution_First_Error_Step": named,
    }


def read_bigbench_mistake(row: Mapping[str, Any]) -> list[Labelled]:
    """``{input, steps, target, answer, mistake_index: 0-based, or null}``; the outcome is whether answer is target.

    Example:
        >>> read_bigbench_mistake({"input": "1 + 1 =", "steps": ["It is 3."], "target": "2", "answer": "3",
        ...                        "mistake_index": 0})[0].labels
        (0.0,)
    """
    steps = _steps(row, "steps")
    named = row.get("mistake_index")
    first = -1 if named is None else fields.integer(named, "mistake_index")
    if named is not None and not 0 <= first < len(steps):
        raise ValueError(f"mistake_index must be 0..{len(steps) - 1} or null, got {named}")
    target, answer = fields.text(row, "target"), fields.optional_text(row, "answer")
    meta = fields.others(row, "input", "steps", "target", "mistake_index")
    rollout = Rollout(fields.text(row, "input"), steps, gold=target, meta=meta)
    return [Labelled(rollout, first_error_labels(len(steps), first), answer == target)]


def write_bigbench_mistake(item: Labelled) -> dict[str, Any]:
    """The row of ``read_bigbench_mistake``; "answer" is that of the solution's ``meta``.

    Raises:
        ValueError: a step before the first error without a hard label, or no gold answer.
    """
    at, r = _first_error(item, "bigbench_mistake"), item.rollout
    _check_gold(item, "bigbench_mistake")
    answer = {} if item.outcome is None else {"answer": r.gold if item.outcome else None}
    named = None if at < 0 else at
    return {
        **answer,
        **r.meta,
        "input": r.problem,
        "steps": list(r.steps),
        "target": r.gold,
        "mistake_index": named,
    }


def _steps(row: Mapping[str, Any], name: str) -> tuple[str, ...]:
    steps = fields.texts(row, name)
    if not steps:
        raise ValueError(f"{name} is empty; a row needs at least one step")
    return steps


def _outcome(row: Mapping[str, Any], name: str, meaning: Mapping[str, bool]) -> bool:
    said = fields.text(row, name)
    if said not in meaning:
        raise ValueError(f"{name} must be {' or '.join(map(repr, meaning))}, got {said!r:.20}")
    return meaning[said]


def _first_error(item: Labelled, name: str) -> int:
    at = item.first_error()
    before = item.labels if at < 0 else item.labels[: at + 1]
    if not is_hard(before):
        raise ValueError(
            f"{name}: every step up to the first error needs the label 0 or 1, got {before}; make soft labels hard "
            "with harden(item, threshold)"
        )
    return at


def _check_gold(item: Labelled, name: str) -> None:
    if item.rollout.gold is None:
        raise ValueError(f"{name}: Rollout.gold must be known, got None")
