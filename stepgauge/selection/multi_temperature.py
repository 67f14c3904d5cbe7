"""Votes over answers drawn at several temperatures, with an early exit where all temperatures agree."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stepgauge.selection.votes import Vote, majority_vote

__all__ = ["TemperatureVote", "multi_temperature_rounds", "multi_temperature_vote"]


@dataclass(frozen=True, slots=True)
class TemperatureVote:
    """The pooled vote, and what each temperature says.

    ``pooled`` is the majority over all answers together. ``per_temperature`` holds, for each temperature with an
    answer, its own majority and the share of its answers that are it. ``agree``: every temperature has an answer, and
    all have the same majority. ``min_share``: the smallest share of the pooled winner among *all* samples of a
    temperature, those without an answer included.
    """

    pooled: Vote
    per_temperature: dict[Any, tuple[Hashable, float]]
    agree: bool
    min_share: float


def multi_temperature_vote(answers_by_temperature: Mapping[Any, Sequence[Hashable | None]]) -> TemperatureVote:
    """Pool the answers of all temperatures and vote; say whether the temperatures agree.

    Args:
        answers_by_temperature: temperature to its answers (or class numbers; None = no answer). A temperature without
            any answer never agrees.

    Raises:
        ValueError: no temperature.

    Example:
        >>> vote = multi_temperature_vote({0.3: ["5", "5", "5"], 1.0: ["5", "5", "2"]})
        >>> vote.pooled.winner, vote.agree, round(vote.min_share, 3)
        ('5', True, 0.667)

    References:
        arXiv:2510.02611 (multi-temperature voting; its thresholds are not public).
    """
    if not answers_by_temperature:
        raise ValueError("multi_temperature_vote needs at least one temperature, got none")
    pooled = majority_vote([answer for answers in answers_by_temperature.values() for answer in answers])
    per_temperature: dict[Any, tuple[Hashable, float]] = {}
    for temperature, answers in answers_by_temperature.items():
        vote = majority_vote(answers)
        if vote.winner is not None:
            per_temperature[temperature] = (vote.winner, vote.votes[vote.winner] / sum(vote.votes.values()))
    winners = {winner for winner, _ in per_temperature.values()}
    shares = [
        sum(answer is not None and answer == pooled.winner for answer in answers) / len(answers) if answers else 0.0
        for answers in answers_by_temperature.values()
    ]
    agree = len(per_temperature) == len(answers_by_temperature) and len(winners) == 1
    return TemperatureVote(pooled, per_temperature, agree, min(shares))


def multi_temperature_rounds(
    draw: Callable[[float, int, int], Sequence[Hashable | None]],
    temperatures: Sequence[float],
    *,
    per_round: int = 4,
    max_rounds: int = 4,
    min_share: float = 0.75,
) -> tuple[TemperatureVote, int]:
    """Draw answers at every temperature, round by round, until all temperatures agree clearly enough.

    Args:
        draw: ``draw(temperature, n, seed)`` gives n answers (None = no answer); the seed is the number of the round.
        temperatures: the grid, each once. per_round: answers a temperature and round. max_rounds: rounds at most.
        min_share: stop once the temperatures agree and the winner has this share of the samples of each.

    Returns:
        The vote over all that was drawn, and the number of rounds it took.

    Raises:
        ValueError: no or repeated temperatures, a count below 1, min_share outside [0, 1], or a draw of another size.

    Example:
        >>> vote, rounds = multi_temperature_rounds(lambda temperature, n, seed: ["7"] * n, [0.3, 1.0])
        >>> vote.pooled.winner, vote.pooled.votes["7"], rounds
        ('7', 8.0, 1)
    """
    if not temperatures or len(set(temperatures)) != len(temperatures):
        raise ValueError(f"temperatures must be a list of distinct numbers, got {list(temperatures)}")
    if per_round < 1 or max_rounds < 1 or not 0 <= min_share <= 1:
        raise ValueError(
            f"multi_temperature_rounds needs per_round >= 1, max_rounds >= 1 and min_share in [0, 1], "
            f"got {per_round}, {max_rounds}, {min_share}"
        )
    drawn: dict[float, list[Hashable | None]] = {temperature: [] for temperature in temperatures}
    rounds = 0
    while True:
        for temperature in temperatures:
            answers = list(draw(temperature, per_round, rounds))
            if len(answers) != per_round:
                raise ValueError(f"draw must give {per_round} answers, got {len(answers)}; None for a missing one")
            drawn[temperature] += answers
        rounds += 1
        vote = multi_temperature_vote(drawn)
        if rounds == max_rounds or (vote.agree and vote.min_share >= min_share):
            return vote, rounds
