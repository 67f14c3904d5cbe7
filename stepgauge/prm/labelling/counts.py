"""What is known of a solution's prefixes, and the labels that follow from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from stepgauge.prm.targets import er_label_of_rate, hard_label

__all__ = ["Counts", "Draw", "Outcome", "SolutionLabels", "Target", "step_labels"]

Outcome = Literal["correct", "wrong", "truncated", "undecided", "failed"]
Target = Literal["hard", "soft", "er"]
Draw = Callable[[int, int], "Counts"]  # (step, n): what at least n completions of the steps 0..step came to


@dataclass(frozen=True, slots=True)
class Counts:
    """Completions of one prefix by outcome.

    ``correct`` and ``wrong`` were judged. ``truncated`` ones hit the token limit before an answer, ``undecided`` ones
    the verifier could not judge, ``failed`` ones the server refused: none of these three says anything about the step.
    """

    correct: int = 0
    wrong: int = 0
    truncated: int = 0
    undecided: int = 0
    failed: int = 0

    @property
    def judged(self) -> int:
        """n of the labels: right and wrong completions."""
        return self.correct + self.wrong

    @property
    def drawn(self) -> int:
        """All completions, judged or not."""
        return self.judged + self.truncated + self.undecided + self.failed

    def to_json(self) -> dict[str, int]:
        """The counts that are not 0."""
        return {name: count for name, count in asdict(self).items() if count}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Counts:
        """The counts of ``to_json``; raises ValueError for other names or negative numbers."""
        unknown = set(row) - {field.name for field in fields(cls)}
        if unknown or not all(type(count) is int and count >= 0 for count in row.values()):
            raise ValueError(f"counts must be non-negative integers named {', '.join(get_args(Outcome))}; got {row!r}")
        return cls(**row)


@dataclass(frozen=True, slots=True)
class SolutionLabels:
    """What a strategy found out about one solution.

    Args:
        first_error: index of the first step after which the answer is not reached any more; -1 none; None undecided.
        counts: (S,) completions of each prefix; all 0 where the strategy did not look.
        confidence: probability of ``first_error`` under the strategy's model; None where it has none.
        contradictions: prefixes whose counts speak against ``first_error``: right completions after it, or none before.
    """

    first_error: int | None
    counts: tuple[Counts, ...]
    confidence: float | None = None
    contradictions: tuple[int, ...] = ()

    @property
    def rollouts(self) -> int:
        """Completions used."""
        return sum(count.drawn for count in self.counts)

    def to_json(self) -> dict[str, Any]:
        """The columns of a labelled row."""
        return {
            "first_error": self.first_error,
            "confidence": None if self.confidence is None else round(self.confidence, 6),
            "counts": [count.to_json() for count in self.counts],
            "contradictions": list(self.contradictions),
            "rollouts": self.rollouts,
        }


def step_labels(
    counts: Sequence[Counts],
    *,
    target: Target = "hard",
    eta: float = 2.0,
    threshold: float = 0.0,
    first_error: int | None = None,
) -> list[float | None]:
    """The training label of each step from stored counts; None where there is none.

    "hard" = 1 where c/n > threshold, "soft" = c/n, "er" = ln(1 − p + p e^η)/η with p = c/n. With ``first_error`` a hard
    label follows the search also where nothing was drawn: 1 before the error, 0 at it, and None after it.

    Raises:
        ValueError: an unknown target, a first error outside the solution.

    Example:
        >>> counts = [Counts(6, 2), Counts(truncated=8), Counts(0, 8)]
        >>> step_labels(counts, target="soft"), step_labels(counts, first_error=2)
        ([0.75, None, 0.0], [1.0, 1.0, 0.0])
    """
    if target not in get_args(Target):
        raise ValueError(f"step_labels(target) must be one of {', '.join(get_args(Target))}; got {target!r}")
    if first_error is not None and not -1 <= first_error < len(counts):
        raise ValueError(f"step_labels(first_error) must be -1..{len(counts) - 1}, got {first_error}")
    if target == "hard" and first_error is not None:
        end = len(counts) if first_error == -1 else first_error
        return [1.0 if step < end else 0.0 if step == end else None for step in range(len(counts))]

    def label(count: Counts) -> float | None:
        if count.judged == 0:
            return None
        if target == "hard":
            return float(hard_label(count.correct, count.judged, threshold=threshold))
        rate = count.correct / count.judged
        return rate if target == "soft" else float(er_label_of_rate(rate, eta))

    return [label(count) for count in counts]
