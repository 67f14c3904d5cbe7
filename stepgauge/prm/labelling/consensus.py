"""Keep a labelled solution only where rollouts and a judge agree on its first wrong step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stepgauge.prm.targets import first_error_of

__all__ = ["Consensus", "consensus_filter"]


@dataclass(frozen=True, slots=True)
class Consensus:
    """First wrong steps by both (-1 = none), whether they agree, and the labels to train on (None = drop)."""

    mc_first: int
    judge_first: int
    keep: bool
    train_labels: tuple[int, ...] | None


def consensus_filter(mc_hard: Sequence[int], judge: Sequence[int] | None) -> Consensus | None:
    """Compare hard labels from rollouts with a judge's; steps after the first wrong one are not trained on.

    Args:
        mc_hard: (S,) 1 = some rollout from here reached the right answer.
        judge: (S,) 1 = the judge calls the step right; None = no readable judgement.

    Returns:
        None where the judge gave nothing that fits the steps: drop the row, and count it.

    Raises:
        ValueError: a label other than 0 and 1.

    Example:
        >>> consensus_filter([1, 1, 0, 0], [1, 1, 0, 1])
        Consensus(mc_first=2, judge_first=2, keep=True, train_labels=(1, 1, 0))

    References:
        Zhang et al. 2025, The Lessons of Developing PRMs, section 3.1.3.
    """
    if judge is None or len(judge) != len(mc_hard):
        return None
    if not {*mc_hard, *judge} <= {0, 1}:
        raise ValueError(f"consensus_filter takes labels 0 and 1, got {[*mc_hard]} and {[*judge]}")
    mc_first, judge_first = first_error_of(mc_hard), first_error_of(judge)
    keep = mc_first == judge_first
    end = len(mc_hard) if mc_first < 0 else mc_first + 1
    return Consensus(mc_first, judge_first, keep, tuple(int(label) for label in mc_hard[:end]) if keep else None)
