"""The first step after which no right answer is reached any more, found with few completions.

Binary search over prefixes: OmegaPRM (Luo et al. 2024, arXiv:2406.06592) for mathematics, PSGPO (Dai et al. 2024,
arXiv:2410.17621) for lines of code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

__all__ = ["FirstError", "Probe", "first_error_search"]


@dataclass(frozen=True, slots=True)
class Probe:
    """One look at a prefix: of ``total`` completions of the steps 0..``step``, ``correct`` reached the answer."""

    step: int
    correct: int
    total: int

    @property
    def ok(self) -> bool:
        """Whether at least one completion reached the answer."""
        return self.correct > 0


@dataclass(frozen=True, slots=True)
class FirstError:
    """Where the search ended: ``step`` (-1 = no error), its probes in order, and the probes that contradict it.

    A prefix that can still be completed after the first error, or one that cannot before it, is in ``contradictions``:
    then the steps are not monotone, and the search may have missed an earlier error.
    """

    step: int
    probes: tuple[Probe, ...]
    contradictions: tuple[Probe, ...]


def first_error_search(
    oracle: Callable[[int], tuple[int, int]],
    n_steps: int,
    *,
    how: Literal["binary", "linear"] = "binary",
    recheck: int = 0,
) -> FirstError:
    """Find the smallest step i such that no completion of the steps 0..i reaches the answer.

    Args:
        oracle: gives (correct, total) for the prefix that ends with step i; asked at most once a step.
        n_steps: number of steps; 0 gives -1.
        how: "binary" asks about log2(n_steps) times and assumes that an error is never repaired; "linear" asks about
            every step until the first error.
        recheck: how many further steps to ask about on each side of the first error, nearest first, to find
            contradictions to that assumption.

    Raises:
        ValueError: a negative count, an unknown ``how``, or an oracle that gives no completions at all.

    Example:
        >>> ok = [1, 1, 1, 0, 0]
        >>> found = first_error_search(lambda i: (ok[i], 1), 5)
        >>> found.step, [probe.step for probe in found.probes]
        (3, [2, 3])
    """
    for name, value in (("n_steps", n_steps), ("recheck", recheck)):
        if value < 0:
            raise ValueError(f"first_error_search({name}) must be 0 or more, got {value}")
    if how not in ("binary", "linear"):
        raise ValueError(f"first_error_search(how) must be 'binary' or 'linear', got {how!r}")
    probes: dict[int, Probe] = {}

    def ok(step: int) -> bool:
        if step not in probes:
            correct, total = oracle(step)
            if not 0 <= correct <= total or total == 0:
                raise ValueError(
                    f"the oracle must give 0 <= correct <= total with total > 0, got ({correct}, {total}) "
                    f"for step {step}; a prefix without completions says nothing"
                )
            probes[step] = Probe(step, correct, total)
        return probes[step].ok

    low, high = 0, n_steps - 1
    while low <= high:
        middle = low if how == "linear" else (low + high) // 2
        if ok(middle):
            low = middle + 1
        else:
            high = middle - 1
            if how == "linear":
                break
    found = low if low < n_steps else -1
    error_at = n_steps if found == -1 else found
    around = [step for gap in range(1, recheck + 1) for step in (error_at - gap, error_at + gap)]
    for step in around:
        if 0 <= step < n_steps:
            ok(step)
    contradictions = tuple(probe for probe in probes.values() if probe.ok != (probe.step < error_at))
    return FirstError(found, tuple(probes.values()), contradictions)
