"""rStar-Math's value of a step in tree search, with UCT."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["StepValue", "rstar_q"]


@dataclass(frozen=True, slots=True)
class StepValue:
    """Exploitation ``q``, exploration ``u`` and their sum."""

    q: float
    u: float
    score: float


def rstar_q(backups: Sequence[float], parent_visits: int, *, c: float = 2.0) -> StepValue | None:
    """A step's Q in tree search: the mean of the outcomes (±1) backed up through it, with UCT c sqrt(ln N_parent / N).

    Args:
        backups: outcomes of the searches that went through the step.
        parent_visits: searches that went through its parent, at least 1.
        c: weight of exploration.

    Returns:
        None for a step that no search has visited: it comes before all others.

    Raises:
        ValueError: parent_visits below 1.

    Example:
        >>> rstar_q([1, 1, -1, 1], parent_visits=10).q
        0.5

    References:
        Guan et al. 2025, rStar-Math, equation 1 and section 3.2.
    """
    if parent_visits < 1:
        raise ValueError(f"rstar_q(parent_visits) must be at least 1, got {parent_visits}")
    if not backups:
        return None
    q = math.fsum(backups) / len(backups)
    u = c * math.sqrt(math.log(parent_visits) / len(backups))
    return StepValue(q, u, q + u)
