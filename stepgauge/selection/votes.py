"""Selection rules: N candidate answers, and their scores, to one answer.

In every rule a candidate without an answer (None) is skipped, ties go to the answer seen first, and where no candidate
has an answer the winner is None. Answers are compared with ``==``: pass class numbers (``verifiers.answer_classes``) to
count ``1/2`` and ``0.5`` together.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

__all__ = ["Vote", "best_of_n", "borda_vote", "majority_vote", "weighted_vote"]


@dataclass(frozen=True, slots=True)
class Vote:
    """The outcome of a rule.

    ``winner`` is the winning answer, ``votes`` what each answer got, in order of appearance, and ``index`` the
    candidate that stands for the winner: its best-scored one, the first of equals.
    """

    winner: Hashable | None
    votes: dict[Hashable, float]
    index: int | None


def _check(answers: Sequence[Hashable | None], scores: Sequence[float | None], name: str) -> None:
    if len(scores) != len(answers):
        raise ValueError(f"{name} must have one entry an answer: {len(answers)} answers, {len(scores)} {name}")
    for index, score in enumerate(scores):
        if score is not None and math.isnan(score):
            raise ValueError(f"{name}[{index}] is NaN; use None for a candidate that was not scored")


def _rank(score: float | None) -> float:
    return -math.inf if score is None else score


def _vote(answers: Sequence[Hashable | None], votes: dict[Hashable, float], scores: Sequence[float | None]) -> Vote:
    if not votes:
        return Vote(None, {}, None)
    winner = max(votes, key=lambda answer: votes[answer])
    return Vote(winner, votes, _best([at for at, answer in enumerate(answers) if answer == winner], scores))


def _best(candidates: Sequence[int], scores: Sequence[float | None]) -> int:
    """The best-scored of some candidates, the first of equals."""
    return max(candidates, key=lambda index: (scores[index] is not None, _rank(scores[index])))


def best_of_n(answers: Sequence[Hashable | None], scores: Sequence[float | None]) -> Vote:
    """Best-of-n: the answer of the highest-scored candidate; ``votes`` = each answer's best score.

    A candidate that was not scored (None) ranks below every number.

    Args:
        answers: (N,) answers or class numbers; None = no answer.
        scores: (N,) one score a candidate, any unit.

    Raises:
        ValueError: lengths that differ, or a NaN score.

    Example:
        >>> best_of_n(["A", "B", "B"], [0.9, 0.6, 0.5]).winner
        'A'
    """
    _check(answers, scores, "scores")
    votes: dict[Hashable, float] = {}
    for answer, score in zip(answers, scores, strict=True):
        if answer is not None:
            votes[answer] = max(votes.get(answer, -math.inf), _rank(score))
    answered = [index for index, answer in enumerate(answers) if answer is not None]
    if not answered:
        return Vote(None, {}, None)
    best = _best(answered, scores)
    return Vote(answers[best], votes, best)


def majority_vote(answers: Sequence[Hashable | None]) -> Vote:
    """Majority (self-consistency): the most frequent answer; ``votes`` = counts.

    Example:
        >>> majority_vote(["7", None, "8", "8"]).votes
        {'7': 1.0, '8': 2.0}

    References:
        Wang et al. 2023, Self-Consistency.
    """
    votes: dict[Hashable, float] = {}
    for answer in answers:
        if answer is not None:
            votes[answer] = votes.get(answer, 0.0) + 1.0
    return _vote(answers, votes, [None] * len(answers))


def weighted_vote(answers: Sequence[Hashable | None], scores: Sequence[float | None]) -> Vote:
    """Weighted majority: the answer with the largest sum of scores; ``votes`` = the sums.

    Invariant to a positive factor on the scores, not to a shift. A candidate that was not scored weighs 0.

    Args:
        answers: (N,) answers or class numbers; None = no answer.
        scores: (N,) scores >= 0, such as probabilities.

    Raises:
        ValueError: lengths that differ, a NaN, or a negative score (a negative weight punishes an answer for being
            frequent; scores in nats take ``borda_vote``).

    Example:
        >>> weighted_vote(["A", "B", "B"], [0.9, 0.6, 0.5]).winner
        'B'

    References:
        Li et al. 2023, Step-Aware Verifier; Wang et al. 2024, Math-Shepherd.
    """
    _check(answers, scores, "scores")
    negative = next((score for score in scores if score is not None and score < 0), None)
    if negative is not None:
        raise ValueError(f"weighted_vote needs scores >= 0, got {negative}; use borda_vote for scores in nats")
    votes: dict[Hashable, float] = {}
    for answer, score in zip(answers, scores, strict=True):
        if answer is not None:
            votes[answer] = votes.get(answer, 0.0) + (score or 0.0)
    return _vote(answers, votes, scores)


def borda_vote(answers: Sequence[Hashable | None], confidence: Sequence[float | None], p: float | None = None) -> Vote:
    """Borda vote: a candidate of rank r (1 = most confident) gives its answer (N - r + 1)^p votes.

    Candidates without an answer keep their rank and cast no vote. p = 0 is majority; a large p is best-of-n.

    Args:
        answers: (N,) answers or class numbers; None = no answer.
        confidence: (N,) any unit, only the order counts; None ranks last; equals keep input order.
        p: the exponent; default 0.3 up to N = 16 and 1.2 above.

    Raises:
        ValueError: lengths that differ, or a NaN confidence.

    Example:
        >>> borda_vote(["A", "B", "B"], [0.9, 0.2, 0.4], p=1.0).votes
        {'A': 3.0, 'B': 3.0}

    References:
        Kang et al. 2025, Self-Certainty, section 4.2 (p = 0.3 for N <= 16, 1.2 for N >= 32).
    """
    _check(answers, confidence, "confidence")
    count = len(answers)
    exponent = (0.3 if count <= 16 else 1.2) if p is None else p
    order = sorted(range(count), key=lambda index: (confidence[index] is None, -_rank(confidence[index])))
    points = {index: float(count - place) ** exponent for place, index in enumerate(order)}
    votes: dict[Hashable, float] = {}
    for index, answer in enumerate(answers):
        if answer is not None:
            votes[answer] = votes.get(answer, 0.0) + points[index]
    return _vote(answers, votes, confidence)
