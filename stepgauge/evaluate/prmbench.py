"""PRMBench's score, as its authors compute it: F1 of right steps and F1 of wrong steps, half each, over all steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from stepgauge.scoring import KINDS, Kind

__all__ = ["CATEGORIES", "PRMBenchReport", "PRMBenchRow", "evaluate_prmbench", "prm_score"]

Rule = Literal["0.5", "oracle"]

CATEGORIES: dict[str, tuple[str, str]] = {  # classification -> (short name, group)
    "redundency": ("NR", "simplicity"),
    "circular": ("NCL", "simplicity"),
    "counterfactual": ("ES", "soundness"),
    "step_contradiction": ("SC", "soundness"),
    "domain_inconsistency": ("DC", "soundness"),
    "confidence": ("CI", "soundness"),
    "missing_condition": ("PS", "sensitivity"),
    "deception": ("DR", "sensitivity"),
    "multi_solutions": ("MS", "sensitivity"),
}
_NO_ERRORS = "multi_solutions"  # has right steps only: its score is F1 of right steps alone


@dataclass(frozen=True, slots=True)
class PRMBenchRow:
    """One class, one group (mean of its classes) or "overall" (all steps pooled); shares, None where undefined."""

    name: str
    solutions: int
    steps: int
    wrong_steps: int
    f1: float | None
    negative_f1: float | None
    score: float | None


@dataclass(frozen=True, slots=True)
class PRMBenchReport:
    """The result of ``evaluate_prmbench``: overall first, then groups, then classes."""

    kind: Kind
    threshold: float
    fitted: bool
    scored_steps: float
    rows: tuple[PRMBenchRow, ...]

    def row(self, name: str) -> PRMBenchRow | None:
        """One row by its name."""
        return next((row for row in self.rows if row.name == name), None)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def prm_score(tp: int, fp: int, tn: int, fn: int) -> tuple[float | None, float | None, float | None]:
    """(F1 of right steps, F1 of wrong steps, PRMScore = their mean) from counts; positive = a step called right.

    F1 = 2 TP / (2 TP + FP + FN), negative F1 = 2 TN / (2 TN + FN + FP). An F1 is None where its denominator is 0, and
    PRMScore where either is (the authors' script puts -1 there, and -1 where precision and recall are both 0; here that
    is 0).

    Example:
        >>> prm_score(tp=6, fp=1, tn=2, fn=1)[2]
        0.7619047619047619

    References:
        Song et al. 2025, PRMBench, section 4; ssmisya/PRMBench, mr_eval/tasks/prmtest_classified/task.py.
    """
    f1 = 2 * tp / (2 * tp + fp + fn) if tp + fp + fn else None
    negative = 2 * tn / (2 * tn + fn + fp) if tn + fn + fp else None
    return f1, negative, None if f1 is None or negative is None else 0.5 * f1 + 0.5 * negative


def evaluate_prmbench(
    step_scores: Sequence[Sequence[float | None]],
    labels: Sequence[Sequence[float]],
    classes: Sequence[str],
    *,
    kind: Kind = "correctness",
    threshold: float | Rule = "0.5",
) -> PRMBenchReport:
    """PRMScore overall, by group and by class.

    A step below the threshold is called wrong; a step without a score is called right, since it accuses nobody. Overall
    pools the steps of all classes; a group is the mean of its classes, as in the authors' tables.

    Args:
        step_scores: (R, S_r), None = not scored.
        labels: (R, S_r) 1 = right, 0 = wrong.
        classes: (R,) PRMBench's ``classification`` of each solution.
        kind: of the scores; decides what "0.5" means.
        threshold: a number, "0.5" (the natural threshold of the kind; 0 for log-ratios) or "oracle" (fitted on these
            very steps: an upper bound).

    Raises:
        ValueError: lengths that differ, an unknown class, "0.5" for a kind without natural threshold, "oracle" without
            a scored step.
    """
    if not len(step_scores) == len(labels) == len(classes) or not classes:
        raise ValueError(
            f"evaluate_prmbench needs scores, labels and a class for each solution, at least one; got "
            f"{len(step_scores)}, {len(labels)} and {len(classes)}"
        )
    unknown = sorted(set(classes) - set(CATEGORIES))
    if unknown:
        raise ValueError(f"evaluate_prmbench: unknown class {unknown[0]!r}; known: {', '.join(CATEGORIES)}")
    for index, (scores, truth) in enumerate(zip(step_scores, labels, strict=True)):
        if len(scores) != len(truth):
            raise ValueError(f"evaluate_prmbench: solution {index} has {len(truth)} labels and {len(scores)} scores")
    flat = [score for scores in step_scores for score in scores]
    values = np.array([np.inf if score is None else score for score in flat])  # (N,) steps of all solutions
    right = np.array([bool(label) for truth in labels for label in truth])
    owner = np.repeat(np.arange(len(classes)), [len(truth) for truth in labels])
    bound, fitted = _bound(values, right, kind, threshold)
    called_right = ~(values < bound)
    rows = []
    for name in dict.fromkeys(name for name in CATEGORIES if name in classes):
        members = np.array([c == name for c in classes])
        rows.append(_row(name, called_right[members[owner]], right[members[owner]], int(members.sum())))
    groups = [_group(group, [r for r in rows if CATEGORIES[r.name][1] == group]) for group in _groups(rows)]
    overall = _row("overall", called_right, right, len(classes))
    share = sum(score is not None for score in flat) / len(flat)
    return PRMBenchReport(kind, bound, fitted, share, (overall, *groups, *rows))


def _bound(values: Any, right: Any, kind: Kind, threshold: float | Rule) -> tuple[float, bool]:
    if threshold == "0.5":
        natural = KINDS[kind].threshold
        if natural is None:
            raise ValueError(
                f"scores of kind {kind!r} have no natural threshold; give a number, or 'oracle' for an upper bound"
            )
        return natural, False
    if threshold != "oracle":
        return float(threshold), False
    known = np.isfinite(values)
    if not known.any():
        raise ValueError("evaluate_prmbench(threshold='oracle') needs at least one scored step")
    grid = np.unique(values[known])  # a threshold above every score would call each scored step wrong, whatever it is
    below_right = np.searchsorted(np.sort(values[right]), grid, side="left")  # right steps called wrong at grid[i]
    below_wrong = np.searchsorted(np.sort(values[~right]), grid, side="left")
    counts = ((right.sum() - below_right, (~right).sum() - below_wrong), (below_wrong, below_right))
    (tp, fp), (tn, fn) = counts
    f1 = 2 * tp / np.maximum(2 * tp + fp + fn, 1)
    negative = 2 * tn / np.maximum(2 * tn + fp + fn, 1)
    return float(grid[int(np.argmax(f1 + negative))]), True


def _row(name: str, called_right: Any, right: Any, solutions: int) -> PRMBenchRow:
    tp, fp = int((called_right & right).sum()), int((called_right & ~right).sum())
    tn, fn = int((~called_right & ~right).sum()), int((~called_right & right).sum())
    f1, negative, score = prm_score(tp, fp, tn, fn)
    return PRMBenchRow(name, solutions, len(right), fp + tn, f1, negative, f1 if name == _NO_ERRORS else score)


def _groups(rows: Sequence[PRMBenchRow]) -> list[str]:
    return list(dict.fromkeys(CATEGORIES[row.name][1] for row in rows))


def _group(name: str, rows: Sequence[PRMBenchRow]) -> PRMBenchRow:
    scores = [row.score for row in rows if row.score is not None]
    mean = sum(scores) / len(scores) if len(scores) == len(rows) else None
    solutions, steps = sum(row.solutions for row in rows), sum(row.steps for row in rows)
    return PRMBenchRow(name, solutions, steps, sum(row.wrong_steps for row in rows), None, None, mean)
