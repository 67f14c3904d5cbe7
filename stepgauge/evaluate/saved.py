"""Saved scores: rows of ``stepgauge score --out`` back to ``StepScores``, matched to the solutions by id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

from stepgauge.data import BadRow, read_rows
from stepgauge.data.files import OnBad
from stepgauge.scoring import KINDS, REASONS, Reason, Rollout, Status, StepScores

__all__ = ["match_scores", "read_scores", "scores_from_row"]


def scores_from_row(row: Mapping[str, Any]) -> StepScores:
    """The scores that ``scores_to_row`` wrote. Needs ``values``; ``kind`` defaults to correctness.

    An unscored step without a reason gets "undecided".

    Raises:
        ValueError, TypeError: a field that is missing or wrong.

    Example:
        >>> scores_from_row({"id": "a", "values": [0.9, None]}).values
        (0.9, None)
    """
    values = row.get("values")
    if not isinstance(values, list | tuple):
        raise TypeError(f"values must be a list of numbers and nulls, got {type(values).__name__} {values!r:.60}")
    for index, value in enumerate(values):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise TypeError(f"values[{index}] must be a number or null, got {value!r:.40}")
    kind = row.get("kind", "correctness")
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}; got {kind!r:.40}")
    given = row.get("reasons") or [None] * len(values)
    if not isinstance(given, list | tuple) or len(given) != len(values):
        raise ValueError(f"reasons must have one entry a value: {len(values)} values, got {given!r:.60}")
    reasons: tuple[Reason | None, ...] = tuple(
        None if value is not None else (reason if reason in REASONS else "undecided")
        for value, reason in zip(values, given, strict=True)
    )
    scored = any(value is not None for value in values)
    status: Status = "ok" if scored else ("error" if row.get("status") == "error" else "abstain")
    summary = row.get("summary")
    return StepScores(tuple(values), kind, status, reasons, summary=summary if isinstance(summary, Mapping) else {})


def read_scores(source: str | PathLike[str], *, on_bad: OnBad) -> dict[str, StepScores]:
    """Scores by the id of their solution.

    Args:
        source: a file of rows with ``id`` and ``values``, as ``stepgauge score --out`` and ``evaluate --out`` write it.
        on_bad: called with a ``BadRow`` for each row that is skipped: unreadable, or an id that was there before.

    Raises:
        FileNotFoundError: no such file. ValueError: a file with the scores of several scorers, or of several kinds.
    """
    found: dict[str, StepScores] = {}
    scorer: Any = None
    kind: str | None = None
    for line, row in read_rows(source, on_bad=on_bad):
        try:
            if not isinstance(row, Mapping):
                raise TypeError(f"a row must be an object with named fields, got {type(row).__name__}")
            name = row.get("id")
            if not isinstance(name, str | int) or isinstance(name, bool) or name == "":
                raise ValueError(f"a row of scores needs the id of its solution, got {name!r:.40}")
            scores = scores_from_row(row)
            if str(name) in found and row.get("scorer") == scorer:
                raise ValueError(f"id {name!r:.60} was there before; the first counts")
        except (ValueError, TypeError, OverflowError) as error:
            on_bad(BadRow(str(source), line, str(error)))
            continue
        if found and (row.get("scorer") != scorer or scores.kind != kind):
            raise ValueError(
                f"{source}:{line}: scores of {row.get('scorer')!r} ({scores.kind}) after those of {scorer!r} ({kind}); "
                "give the scores of one scorer"
            )
        scorer, kind = row.get("scorer"), scores.kind
        found[str(name)] = scores
    return found


def match_scores(
    rollouts: Sequence[Rollout], saved: Mapping[str, StepScores]
) -> tuple[list[StepScores | None], list[str]]:
    """Each rollout's scores, None where there are none; and what did not fit (a line each, to be shown).

    Example:
        >>> match_scores([Rollout("p", ("a", "b"), id="x")], {"x": StepScores((1.0,), "value")})[1]
        ["solution 'x' has 2 steps, its saved scores 1; left out"]
    """
    matched: list[StepScores | None] = []
    problems = []
    for rollout in rollouts:
        scores = saved.get(rollout.id)
        if scores is not None and len(scores.values) != len(rollout.steps):
            problems.append(
                f"solution {rollout.id!r:.60} has {len(rollout.steps)} steps, its saved scores {len(scores.values)}; "
                "left out"
            )
            scores = None
        matched.append(scores)
    return matched, problems
