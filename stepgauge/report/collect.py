"""What a report shows, gathered as plain data: the table of rules, the curves, and each problem with its candidates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from stepgauge.data import scores_to_row
from stepgauge.scoring import Kind, Progress, Rollout, Scorer, StepScores
from stepgauge.selection import Rerank, rerank

__all__ = ["collect"]

PROBABILITIES = ("correctness", "value")
BINS = 10


class _Recorded(Scorer):
    """Scores that were computed before, given again."""

    def __init__(self, name: str, kind: Kind, scores: Mapping[int, StepScores]) -> None:
        self.name = name
        self.kind = kind
        self.scores = scores

    def score_batch(
        self, rollouts: Sequence[Rollout], *, deadline_s: float | None = None, progress: Progress | None = None
    ) -> list[StepScores]:
        return [self.scores[id(rollout)] for rollout in rollouts]


def collect(
    rollouts: Sequence[Rollout], scorers: Mapping[str, Scorer], *, progress: Progress | None = None
) -> dict[str, Any]:
    """Score the rollouts and gather what a report shows.

    Args:
        rollouts: candidates, grouped by problem as ``rerank`` does.
        scorers: name to scorer; the first one's scores colour the steps, and its rule picks.
        progress: called with the number of rollouts scored since the last call.

    Returns:
        JSON-able: ``counts``, ``rules`` (as ``rerank``), ``curves`` (a rule's accuracy by n), ``reliability`` (bins of
        the first scorer, where it gives probabilities and there is gold), ``first_errors`` (how many rollouts have
        their first wrong step there) and ``problems``.

    Raises:
        ValueError: no rollouts or no scorers.
    """
    recorded: dict[str, Scorer] = {}
    for name, scorer in scorers.items():
        scored = scorer.score_batch(rollouts, progress=progress)
        known = {id(rollout): scores for rollout, scores in zip(rollouts, scored, strict=True)}
        recorded[name] = _Recorded(name, scorer.kind, known)
    result = rerank(rollouts, recorded)
    groups: dict[str, list[Rollout]] = {}
    for rollout in rollouts:
        groups.setdefault(str(rollout.meta.get("problem_id", rollout.problem)), []).append(rollout)
    problems = [_problem(pick.to_row(), groups[pick.problem_id], recorded) for pick in result.picks]
    first = next(iter(scorers))
    return {
        "scorers": [{"name": name, "kind": scorer.kind} for name, scorer in scorers.items()],
        "counts": dict(result.counts),
        "rules": _rules(result),
        "curves": _curves(rollouts, recorded, result.n),
        "reliability": _reliability(problems, first) if scorers[first].kind in PROBABILITIES else [],
        "first_errors": _first_errors(problems, first),
        "problems": problems,
    }


def _problem(row: dict[str, Any], rollouts: Sequence[Rollout], scorers: Mapping[str, Scorer]) -> dict[str, Any]:
    """One problem: the pick, who disagreed, and each candidate with steps and scores."""
    candidates = []
    for rollout, judged in zip(rollouts, row["candidates"], strict=True):
        scores = {name: _shown(rollout, name, s.score_batch([rollout])[0]) for name, s in scorers.items()}
        candidates.append({**judged, "steps": list(rollout.steps), "scores": scores})
    return {**row, "candidates": candidates}


def _shown(rollout: Rollout, name: str, scores: StepScores) -> dict[str, Any]:
    """The record of one scorer without what a report repeats elsewhere."""
    row = scores_to_row(rollout, name, scores)
    return {key: row[key] for key in ("status", "values", "reasons", "aggregate", "first_error", "summary", "details")}


def _rules(result: Rerank) -> list[dict[str, Any]]:
    return [
        {"rule": rule.name, "scorer": rule.scorer, "solved": a.mean, "low": a.low, "high": a.high}
        for rule in result.rules
        if (a := rule.accuracy) is not None
    ]


def _curves(rollouts: Sequence[Rollout], scorers: Mapping[str, Scorer], most: int) -> list[dict[str, Any]]:
    """Each rule's accuracy with 1, 2, 4, … candidates; a rule keeps its name where it says how many there are."""
    sizes = [size for size in (1, 2, 4, 8, 16, 32, 64, 128) if size < most] + [most]
    points: dict[tuple[str, str], list[dict[str, float]]] = {}
    for size in sizes:
        for rule in _rules(rerank(rollouts, scorers, n=size)):
            name = "pass@n (oracle)" if rule["rule"].startswith(f"pass@{size} ") else rule["rule"]
            point = {"n": size, "solved": rule["solved"], "low": rule["low"], "high": rule["high"]}
            points.setdefault((name, rule["scorer"]), []).append(point)
    return [
        {"rule": rule, "scorer": scorer, "points": found}
        for (rule, scorer), found in points.items()
        if not rule.startswith("pass@1 ")
    ]


def _reliability(problems: Sequence[Mapping[str, Any]], scorer: str) -> list[dict[str, Any]]:
    """Of candidates with gold: how often those of each range of aggregates are right."""
    bins: dict[int, list[tuple[float, bool]]] = {}
    for problem in problems:
        for candidate in problem["candidates"]:
            value = candidate["scores"][scorer]["aggregate"]
            if value is not None and candidate["correct"] is not None:
                bins.setdefault(min(int(value * BINS), BINS - 1), []).append((value, candidate["correct"]))
    return [
        {
            "count": len(found),
            "score": sum(value for value, _ in found) / len(found),
            "right": sum(right for _, right in found) / len(found),
        }
        for _, found in sorted(bins.items())
    ]


def _first_errors(problems: Sequence[Mapping[str, Any]], scorer: str) -> list[dict[str, int]]:
    """How many candidates have their first wrong step at each index; -1 = none."""
    found = Counter(c["scores"][scorer]["first_error"] for p in problems for c in p["candidates"])
    found.pop(None, None)
    return [{"step": step, "count": count} for step, count in sorted(found.items())]
