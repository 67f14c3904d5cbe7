"""Do several scorers agree on the first wrong step? Each judges by its own threshold, so kinds may differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stepgauge.scoring import StepScores

__all__ = ["Consensus", "consensus"]


@dataclass(frozen=True, slots=True)
class Consensus:
    """What several scorers say about one solution.

    ``first_error``: the step most of them name, -1 for none; None where no scorer judged, or two steps have equally
    many votes. ``votes``: step to the scorers that name it. ``silent``: scorer to why it did not judge. ``agreement``:
    share of the scorers that judged which name ``first_error``; 0 without one.
    """

    first_error: int | None
    votes: Mapping[int, tuple[str, ...]]
    silent: Mapping[str, str]
    agreement: float
    explanation: str


def consensus(results: Mapping[str, StepScores], thresholds: Mapping[str, float] | None = None) -> Consensus:
    """The first wrong step by majority of several scorers, and who says what.

    Args:
        results: scorer to its scores of one and the same solution.
        thresholds: scorer to the value below which a step counts as wrong; default that of its kind. A scorer without
            a threshold that names no ``error_step`` either is silent.

    Raises:
        ValueError: no scorer, or scores of solutions of different length.

    Example:
        >>> found = consensus({
        ...     "prm": StepScores((0.9, 0.2, 0.1), "value"),
        ...     "sums": StepScores((1.0, 0.0, None), "correctness", reasons=(None, None, "no_claim")),
        ...     "math": StepScores.abstain(3, "correctness", "no_gold"),
        ... })
        >>> found.first_error, found.explanation
        (1, 'step 1 is the first wrong one: prm, sums; silent: math (no_gold)')
    """
    if not results:
        raise ValueError("consensus needs the scores of at least one scorer, got none")
    lengths = {name: len(scores.values) for name, scores in results.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"consensus needs scores of one solution, got lengths {lengths}")
    votes: dict[int, list[str]] = {}
    silent: dict[str, str] = {}
    for name, scores in results.items():
        if scores.error_step is None and scores.status != "ok":
            silent[name] = str(scores.summary.get("reason", scores.status))
            continue
        try:
            step = scores.first_error(None if thresholds is None else thresholds.get(name))
        except ValueError:
            silent[name] = "no threshold"
        else:
            votes.setdefault(step, []).append(name)
    most = max((len(names) for names in votes.values()), default=0)
    leading = [step for step, names in votes.items() if len(names) == most]
    first_error = leading[0] if len(leading) == 1 else None
    judged = sum(len(names) for names in votes.values())
    agreement = most / judged if first_error is not None else 0.0
    counted = {step: tuple(names) for step, names in sorted(votes.items())}
    return Consensus(first_error, counted, silent, agreement, _explanation(first_error, counted, silent))


def _explanation(first_error: int | None, votes: Mapping[int, tuple[str, ...]], silent: Mapping[str, str]) -> str:
    order = sorted(votes, key=lambda step: (step != first_error, step))
    said = [f"{_finding(step)}: {', '.join(votes[step])}" for step in order] or ["no scorer judged"]
    if silent:
        said.append(f"silent: {', '.join(f'{name} ({reason})' for name, reason in silent.items())}")
    return "; ".join(said)


def _finding(step: int) -> str:
    return "no step is wrong" if step == -1 else f"step {step} is the first wrong one"
