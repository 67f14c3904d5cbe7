"""What every format becomes: a rollout with one label a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from stepgauge.scoring import Rollout

__all__ = ["Labelled", "first_error_labels", "harden", "truncate_at_first_error"]


@dataclass(frozen=True, slots=True)
class Labelled:
    """A solution and what is known of its steps.

    Args:
        rollout: the solution.
        labels: (S,) numbers in [0, 1], 1 = right, or the chance of a right answer from there; None = not labelled.
        outcome: whether the final answer is right, where the source says so.

    Raises:
        ValueError: lengths that differ, or a label outside [0, 1].

    Example:
        >>> Labelled(Rollout("1+1?", ("1+1 = 3.", "So 3.")), (0.0, None)).first_error()
        0
    """

    rollout: Rollout
    labels: tuple[float | None, ...]
    outcome: bool | None = None

    def __post_init__(self) -> None:
        labels = tuple(None if label is None else float(label) for label in self.labels)
        object.__setattr__(self, "labels", labels)
        if len(labels) != len(self.rollout.steps):
            raise ValueError(
                f"Labelled.labels must have one entry a step: {len(self.rollout.steps)} steps, {len(labels)} labels"
            )
        for index, label in enumerate(labels):
            if label is not None and not 0 <= label <= 1:
                raise ValueError(f"Labelled.labels[{index}] must lie in [0, 1] or be None, got {label}")

    def first_error(self, threshold: float = 0.5) -> int:
        """Index of the first step labelled below ``threshold``, -1 for none; unlabelled steps accuse nobody."""
        below = (i for i, label in enumerate(self.labels) if label is not None and label < threshold)
        return next(below, -1)

    def __repr__(self) -> str:
        labels = ", ".join("-" if label is None else f"{label:g}" for label in self.labels)
        return f"Labelled({self.rollout!r}, [{labels}])"


def first_error_labels(n_steps: int, first_error: int) -> tuple[float | None, ...]:
    """Labels that follow from the first error alone: 1 before it, 0 at it, unknown (None) after it.

    Raises:
        ValueError: an index that is no step; -1 = no error.

    Example:
        >>> first_error_labels(4, 1), first_error_labels(2, -1)
        ((1.0, 0.0, None, None), (1.0, 1.0))
    """
    if not -1 <= first_error < n_steps:
        raise ValueError(f"first error must be -1 (none) or a step 0..{n_steps - 1}, got {first_error}")
    if first_error < 0:
        return (1.0,) * n_steps
    return (*(1.0,) * first_error, 0.0, *(None,) * (n_steps - first_error - 1))


def truncate_at_first_error(item: Labelled, threshold: float = 0.5) -> Labelled:
    """The solution up to and with its first step labelled below ``threshold``; whole where there is none.

    Whether a step after the first error is right has no agreed meaning, so process reward models are often trained
    without those steps.

    Example:
        >>> truncate_at_first_error(Labelled(Rollout("p", ("a", "b", "c")), (1, 0, 1))).rollout.steps
        ('a', 'b')
    """
    at = item.first_error(threshold)
    if at < 0 or at == len(item.labels) - 1:
        return item
    rollout = item.rollout
    changes: dict[str, Any] = {"steps": rollout.steps[: at + 1], "token_ids": None}
    if rollout.text is not None:
        spans = rollout.step_spans[: at + 1]
        changes |= {"text": rollout.text[: spans[-1][1]], "spans": spans}
    return Labelled(replace(rollout, **changes), item.labels[: at + 1], item.outcome)


def harden(item: Labelled, threshold: float = 0.0) -> Labelled:
    """Soft labels to hard ones: 1 where the label exceeds ``threshold``, else 0; None stays.

    The default is the published best for Monte-Carlo labels: right if any completion succeeded.

    Example:
        >>> harden(Labelled(Rollout("p", ("a", "b")), (0.25, 0.0))).labels
        (1.0, 0.0)

    References:
        Zhang et al. 2025, The Lessons of Developing Process Reward Models, section 3.
    """
    return replace(item, labels=tuple(None if label is None else float(label > threshold) for label in item.labels))


def is_hard(labels: Sequence[float | None]) -> bool:
    """Whether every label is 0 or 1."""
    return all(label in (0.0, 1.0) for label in labels)
