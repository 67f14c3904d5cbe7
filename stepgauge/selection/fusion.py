"""Several scorers, one score a candidate, and why: mean of probabilities of one kind, or points by rank."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from stepgauge.scoring import KINDS, Kind

__all__ = ["Fused", "Part", "fuse"]

PROBABILITIES = frozenset({"correctness", "value"})


@dataclass(frozen=True, slots=True)
class Part:
    """What one scorer contributes to one candidate: its score and rank (1 = best; None = it gave none), its share."""

    score: float | None
    rank: float | None
    weight: float
    contribution: float


@dataclass(frozen=True, slots=True)
class Fused:
    """One candidate: the fused score (None where no scorer scored it), what each scorer contributed, and a sentence."""

    score: float | None
    parts: Mapping[str, Part]
    explanation: str


def fuse(
    scores: Mapping[str, Sequence[float | None]],
    kinds: Mapping[str, Kind | Literal["probability"]],
    *,
    how: Literal["auto", "mean", "rank"] = "auto",
    weights: Mapping[str, float] | None = None,
) -> list[Fused]:
    """Fuse the scores that several scorers give the candidates of one problem.

    "mean": the weighted mean of probabilities, over the scorers that scored the candidate. Allowed where all scorers
    are of one kind and give probabilities: a chance of a right answer and a chance that a step is right are different
    numbers. Scores brought to the chance of a right answer by a calibration are of the kind "probability".
    "rank": a weighted Borda count; a scorer gives a candidate of rank r (N - r) / (N - 1) of its weight, ties their
    mean rank. A candidate it did not score gets nothing from it and ranks last. "auto": mean where allowed, else rank.

    Args:
        scores: scorer to (N,) aggregates of the candidates, in one order; None = not scored.
        kinds: scorer to kind, see ``scoring.KINDS``; or "probability" after a calibration.
        how: see above.
        weights: scorer to its weight, >= 0; default 1 each.

    Returns:
        (N,) the fused candidates, in order. Scores lie in [0, 1]; larger is better.

    Raises:
        ValueError: no scorer, lengths that differ, a NaN, an unknown kind, a negative weight or only zeros, or "mean"
            for scores that must not be averaged.

    Example:
        >>> fused = fuse({"prm": [0.9, 0.2, 0.3], "logprob": [-1.5, -0.2, -2.0]},
        ...              {"prm": "value", "logprob": "confidence"})
        >>> [one.score for one in fused]
        [0.75, 0.5, 0.25]
        >>> fused[0].explanation
        '0.75 by rank: prm 1st of 3 (0.9), logprob 2nd of 3 (-1.5)'
    """
    _check(scores, kinds, weights)
    weight = {name: 1.0 if weights is None else weights[name] for name in scores}
    found = {kinds[name] for name in scores}
    poolable = len(found) == 1 and found <= PROBABILITIES | {"probability"}
    if how == "mean" and not poolable:
        raise ValueError(
            f"fuse(how='mean') averages probabilities of one kind, got kinds {', '.join(sorted(found))}; calibrate "
            "each scorer to the chance of a right answer and pass kind 'probability', or use how='rank'"
        )
    by_mean = how == "mean" or (how == "auto" and poolable)
    ranks = {name: _ranks(values) for name, values in scores.items()}
    n = len(next(iter(scores.values())))
    return [
        _fused({name: (values[at], ranks[name][at]) for name, values in scores.items()}, weight, n, by_mean)
        for at in range(n)
    ]


def _check(
    scores: Mapping[str, Sequence[float | None]],
    kinds: Mapping[str, str],
    weights: Mapping[str, float] | None,
) -> None:
    if not scores:
        raise ValueError("fuse needs the scores of at least one scorer, got none")
    if len({len(values) for values in scores.values()}) > 1:
        counts = {name: len(values) for name, values in scores.items()}
        raise ValueError(f"fuse needs one score a candidate from each scorer, got {counts}")
    for name, values in scores.items():
        kind = kinds.get(name)
        if kind is None or kind not in {*KINDS, "probability"}:
            raise ValueError(f"fuse kinds[{name!r}] must be one of {', '.join(KINDS)}, probability; got {kind!r}")
        for at, value in enumerate(values):
            if value is None:
                continue
            if math.isnan(value):
                raise ValueError(f"scores[{name!r}][{at}] is NaN; use None for a candidate that was not scored")
            if kind in PROBABILITIES | {"probability"} and not 0 <= value <= 1:
                raise ValueError(f"scores[{name!r}][{at}] = {value} is no probability, but its kind is {kind!r}")
    if weights is not None:
        given = [weights.get(name, math.nan) for name in scores]
        if not all(0 <= value < math.inf for value in given) or not any(given):
            raise ValueError(f"fuse weights must name every scorer, be >= 0 and not all 0; got {dict(weights)}")


def _ranks(values: Sequence[float | None]) -> list[float | None]:
    """1 = best; equals share their mean rank; None where there is no score."""
    scored = [value for value in values if value is not None]
    out: list[float | None] = []
    for value in values:
        if value is None:
            out.append(None)
        else:
            above = sum(other > value for other in scored)
            out.append(above + (sum(other == value for other in scored) + 1) / 2)
    return out


def _fused(
    given: Mapping[str, tuple[float | None, float | None]], weight: Mapping[str, float], n: int, by_mean: bool
) -> Fused:
    scorers = [name for name, (score, _) in given.items() if score is not None or not by_mean]
    total = sum(weight[name] for name in scorers)
    parts = {}
    for name, (score, rank) in given.items():
        if score is None or rank is None or total == 0:
            points = 0.0
        elif by_mean:
            points = weight[name] * score / total
        else:
            points = weight[name] * ((n - rank) / (n - 1) if n > 1 else 1.0) / total
        parts[name] = Part(score, rank, weight[name], points)
    scored = total > 0 and any(score is not None and weight[name] for name, (score, _) in given.items())
    fused = math.fsum(part.contribution for part in parts.values()) if scored else None
    return Fused(fused, parts, _explanation(fused, parts, n, by_mean))


def _explanation(fused: float | None, parts: Mapping[str, Part], n: int, by_mean: bool) -> str:
    if fused is None:
        return "not scored by any scorer"
    said = []
    for name, part in parts.items():
        if part.score is None or part.rank is None:
            said.append(f"{name} gave no score")
        else:
            said.append(f"{name} {_ordinal(part.rank)} of {n} ({part.score:.3g})")
    return f"{fused:.3g} by {'mean' if by_mean else 'rank'}: {', '.join(said)}"


def _ordinal(rank: float) -> str:
    if rank != int(rank):
        return f"rank {rank:g}"
    whole = int(rank)
    ending = "th" if whole % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(whole % 10, "th")
    return f"{whole}{ending}"
