"""Two annotators, one label: keep a solution where Monte-Carlo labels and a judge name the same first error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["ConsensusFilter", "consensus_filter", "first_zero"]


def first_zero(labels: Sequence[int]) -> int:
    """Index of the first label 0, -1 where there is none.

    Example:
        >>> first_zero([1, 1, 0, 1]), first_zero([1, 1]), first_zero([])
        (2, -1, -1)
    """
    return next((index for index, label in enumerate(labels) if not label), -1)


@dataclass(frozen=True, slots=True)
class ConsensusFilter:
    """Whether to ``keep`` a solution, both first errors, and the ``labels`` to train on: up to the first error.

    ``reason``: None where it is kept, else "differ", or "no_judge" where the judge gave no usable labels.
    """

    keep: bool
    mc_first: int
    judge_first: int | None
    labels: tuple[int, ...] | None
    reason: str | None


def consensus_filter(mc_hard: Sequence[int], judge: Sequence[int] | int | None) -> ConsensusFilter:
    """Keep a solution exactly where both annotators name the same first error (no error counts as one).

    Args:
        mc_hard: (S,) hard Monte-Carlo labels, 1 or 0.
        judge: (S,) labels of the judge, or the index of its first error (-1 = none). None, labels of another length and
            an index outside the solution are no judgement: the solution is dropped, with the reason "no_judge".

    Raises:
        ValueError: no steps, or labels other than 0 and 1.

    Example:
        >>> kept = consensus_filter([1, 1, 0, 0], [1, 1, 0, 1])
        >>> kept.keep, kept.labels
        (True, (1, 1, 0))

    References: Zhang et al. 2025, Lessons of developing PRMs, https://arxiv.org/abs/2501.07301 (section 3).
    """
    n_steps = len(mc_hard)
    if n_steps == 0:
        raise ValueError("consensus_filter(mc_hard) has no steps; leave such a solution out")
    _check("mc_hard", mc_hard)
    mc_first = first_zero(mc_hard)
    judge_first: int | None = None
    if isinstance(judge, int) and not isinstance(judge, bool):
        judge_first = judge if -1 <= judge < n_steps else None
    elif isinstance(judge, Sequence) and len(judge) == n_steps:
        _check("judge", judge)
        judge_first = first_zero(judge)
    if judge_first is None:
        return ConsensusFilter(False, mc_first, None, None, "no_judge")
    if judge_first != mc_first:
        return ConsensusFilter(False, mc_first, judge_first, None, "differ")
    labels = (1,) * n_steps if mc_first == -1 else (*(1,) * mc_first, 0)
    return ConsensusFilter(True, mc_first, judge_first, labels, None)


def _check(name: str, labels: Sequence[int]) -> None:
    wrong = next((label for label in labels if label not in (0, 1)), None)
    if wrong is not None:
        raise ValueError(f"consensus_filter({name}) must hold 0 and 1 only, got {wrong!r}; make soft labels hard first")
