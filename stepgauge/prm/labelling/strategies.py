"""Where to spend completions: on every prefix, or by search for the first error."""

from __future__ import annotations

from stepgauge.prm.labelling.counts import Counts, Draw, SolutionLabels
from stepgauge.verifiers.first_error import first_error_search

__all__ = ["binary", "contradicting", "uniform"]


def contradicting(counts: list[Counts], first_error: int | None) -> tuple[int, ...]:
    """Prefixes that speak against a first error: right completions from it on, or judged ones, none right, before."""
    if first_error is None:
        return ()
    end = len(counts) if first_error == -1 else first_error
    return tuple(i for i, count in enumerate(counts) if count.judged and (count.correct > 0) != (i < end))


def uniform(draw: Draw, n_steps: int, *, rollouts: int = 16) -> SolutionLabels:
    """Math-Shepherd: the same number of completions of every prefix; the first without a right one is the error.

    A prefix without a judged completion before the first error leaves it undecided (None).

    Example:
        >>> rates = [4, 3, 0, 1]
        >>> found = uniform(lambda step, n: Counts(rates[step], n - rates[step]), 4, rollouts=8)
        >>> found.first_error, found.rollouts, found.contradictions
        (2, 32, (3,))

    References: Wang et al. 2023, https://arxiv.org/abs/2312.08935.
    """
    _check(n_steps, rollouts)
    counts = [draw(step, rollouts) for step in range(n_steps)]
    first = next((step for step, count in enumerate(counts) if count.correct == 0), -1)
    found = None if first >= 0 and counts[first].judged == 0 else first
    return SolutionLabels(found, tuple(counts), None, contradicting(counts, found))


class _NothingJudged(Exception):
    pass


def binary(draw: Draw, n_steps: int, *, rollouts: int = 8, recheck: int = 1) -> SolutionLabels:
    """OmegaPRM: binary search for the first prefix without a right completion, ``rollouts`` a probe.

    ``recheck`` further prefixes on each side of the error are looked at, so that an error that is repaired later can
    show in ``contradictions``. A probe without a judged completion ends the search undecided (None).

    Example:
        >>> rates = [8, 6, 0, 0]
        >>> found = binary(lambda step, n: Counts(rates[step], n - rates[step]), 4, recheck=0)
        >>> found.first_error, found.rollouts
        (2, 16)

    References: Luo et al. 2024, https://arxiv.org/abs/2406.06592 (section 3.3).
    """
    _check(n_steps, rollouts)
    counts = [Counts()] * n_steps

    def oracle(step: int) -> tuple[int, int]:
        counts[step] = draw(step, rollouts)
        if counts[step].judged == 0:
            raise _NothingJudged
        return counts[step].correct, counts[step].judged

    try:
        found: int | None = first_error_search(oracle, n_steps, recheck=recheck).step
    except _NothingJudged:
        found = None
    return SolutionLabels(found, tuple(counts), None, contradicting(counts, found))


def _check(n_steps: int, rollouts: int) -> None:
    if n_steps < 0 or rollouts < 1:
        raise ValueError(f"a strategy needs n_steps >= 0 and rollouts >= 1, got {n_steps} and {rollouts}")
