"""What a rung of the ladder says: a verdict, which rung gave it and why."""

from __future__ import annotations

from typing import Literal, NamedTuple

Answer = Literal["equal", "different", "undecided", "invalid"]


class Outcome(NamedTuple):
    verdict: Answer
    rung: str
    reason: str


def equal(rung: str, reason: str = "") -> Outcome:
    return Outcome("equal", rung, reason or "same value")


def different(rung: str, reason: str = "") -> Outcome:
    return Outcome("different", rung, reason or "other value")


def undecided(rung: str, reason: str) -> Outcome:
    return Outcome("undecided", rung, reason)


def all_of(outcomes: list[Outcome]) -> Outcome:
    """Equal where all are; different where one is; else undecided."""
    worst = outcomes[0]
    for outcome in outcomes:
        if outcome.verdict == "different":
            return outcome
        if outcome.verdict != "equal":
            worst = outcome
    return worst
