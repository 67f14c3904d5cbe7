"""ProcessBench's measure: does a scorer find the first wrong step, and leave right solutions alone?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["FirstErrorScore", "first_below", "processbench_f1"]


@dataclass(frozen=True, slots=True)
class FirstErrorScore:
    """Accuracy on solutions with an error and on those without, and their harmonic mean; None = no such solution."""

    predictions: tuple[int, ...]
    acc_error: float | None
    acc_correct: float | None
    f1: float | None


def first_below(step_scores: Sequence[float | None], threshold: float) -> int:
    """Index of the first step that scores below ``threshold``, -1 if none; an unscored step accuses nobody.

    Example:
        >>> first_below([0.9, None, 0.2], 0.5), first_below([], 0.5)
        (2, -1)
    """
    return next((i for i, score in enumerate(step_scores) if score is not None and score < threshold), -1)


def processbench_f1(
    step_scores: Sequence[Sequence[float | None]], labels: Sequence[int], *, threshold: float
) -> FirstErrorScore:
    """Harmonic mean of the accuracies on wrong and on right solutions.

    Args:
        step_scores: (R, S_r) of each solution's steps; None = not scored.
        labels: (R,) index of the first wrong step, -1 for a right solution.
        threshold: a step below it is called wrong. Fit it on other data than these.

    Returns:
        ``f1`` is None where one of the two groups is empty, and 0 where both accuracies are 0.

    Raises:
        ValueError: counts that differ, or a label that is no step of its solution.

    Example:
        >>> processbench_f1([[0.9, 0.2], [0.8]], [1, -1], threshold=0.5).f1
        1.0

    References:
        Zheng et al. 2024, ProcessBench, section 4.1.
    """
    if len(step_scores) != len(labels):
        raise ValueError(f"processbench_f1 needs one label a solution, got {len(step_scores)} and {len(labels)}")
    for index, (scores, label) in enumerate(zip(step_scores, labels, strict=True)):
        if not -1 <= label < len(scores):
            raise ValueError(
                f"processbench_f1: labels[{index}] is {label}, and solution {index} has {len(scores)} steps"
            )
    predictions = tuple(first_below(scores, threshold) for scores in step_scores)
    hits = [(label >= 0, predicted == label) for predicted, label in zip(predictions, labels, strict=True)]
    acc_error = _share([hit for wrong, hit in hits if wrong])
    acc_correct = _share([hit for wrong, hit in hits if not wrong])
    f1 = None
    if acc_error is not None and acc_correct is not None:
        total = acc_error + acc_correct
        f1 = 2 * acc_error * acc_correct / total if total else 0.0
    return FirstErrorScore(predictions, acc_error, acc_correct, f1)


def _share(hits: Sequence[bool]) -> float | None:
    return sum(hits) / len(hits) if hits else None
