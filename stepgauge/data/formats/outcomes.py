"""Rows with several solutions of one problem and whether each is right: UltraInteract rollouts, RLHFlow's test sets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from stepgauge.data.formats import fields
from stepgauge.data.formats.labelled import Labelled
from stepgauge.data.steps import rollout_from_text
from stepgauge.scoring import Rollout

__all__ = ["read_rlhflow_test", "read_ultrainteract", "write_rlhflow_test", "write_ultrainteract"]


def read_ultrainteract(row: Mapping[str, Any], *, how: str = "auto") -> list[Labelled]:
    """``{dataset, prompt, completions: [text, or list of steps], correctness: [bool]}``: outcomes, no step labels.

    Args:
        row: the row.
        how: the splitter for completions that are texts, see ``stepgauge.data.split``.

    Example:
        >>> row = {"prompt": "1+1?", "completions": ["So 2.", "So 3."], "correctness": [True, False]}
        >>> [item.outcome for item in read_ultrainteract(row)]
        [True, False]
    """
    return _read(row, "completions", "correctness", how)


def read_rlhflow_test(row: Mapping[str, Any], *, how: str = "auto") -> list[Labelled]:
    """``{prompt, answers: [text], label (or labels): [0 or 1]}``: outcomes, no step labels."""
    return _read(row, "answers", "label" if "label" in row else "labels", how)


def _read(row: Mapping[str, Any], solutions: str, outcomes: str, how: str) -> list[Labelled]:
    problem = fields.text(row, "prompt")
    texts, rights = fields.items(row, solutions), fields.items(row, outcomes)
    if len(texts) != len(rights):
        raise ValueError(f"{outcomes} must have one entry a solution: {len(texts)} {solutions}, {len(rights)} given")
    if not texts:
        raise ValueError(f"{solutions} is empty; a row needs at least one solution")
    meta = fields.others(row, "prompt", solutions, outcomes)
    found = []
    for index, (text, right) in enumerate(zip(texts, rights, strict=True)):
        where = f"{solutions}[{index}]"
        if isinstance(text, list | tuple):
            rollout = Rollout(problem, fields.texts({where: text}, where), meta=meta)
        else:
            rollout = rollout_from_text(problem, fields.text({where: text}, where), how=how, meta=meta)
        found.append(Labelled(rollout, (None,) * len(rollout.steps), fields.boolean(right, f"{outcomes}[{index}]")))
    return found


def write_ultrainteract(items: Iterable[Labelled]) -> Iterator[dict[str, Any]]:
    """One row for consecutive solutions of one problem (and the same other fields).

    Raises:
        ValueError: a solution without outcome.
    """
    return _write(items, "completions", "correctness", bool)


def write_rlhflow_test(items: Iterable[Labelled]) -> Iterator[dict[str, Any]]:
    """One row for consecutive solutions of one problem (and the same other fields).

    Raises:
        ValueError: a solution without outcome.
    """
    return _write(items, "answers", "label", int)


def _write(items: Iterable[Labelled], solutions: str, outcomes: str, as_: type) -> Iterator[dict[str, Any]]:
    for (problem, _), group in groupby(items, key=lambda item: (item.rollout.problem, repr(dict(item.rollout.meta)))):
        members = list(group)
        if any(item.outcome is None for item in members):
            raise ValueError("Labelled.outcome (is the final answer right) must be known, got None")
        yield {
            **members[0].rollout.meta,
            "prompt": problem,
            solutions: [_solution(item.rollout) for item in members],
            outcomes: [as_(item.outcome) for item in members],
        }


def _solution(rollout: Rollout) -> str | list[str]:
    return list(rollout.steps) if rollout.text is None else rollout.text
