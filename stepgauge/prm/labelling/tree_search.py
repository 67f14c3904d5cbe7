"""rStar-Math's value of a step in tree search, with UCT."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["StepValue", "rstar_q"]


@dataclass(frozen=True, slots=True)
class StepValue:
    """A step's mean outcome ``q``, its ``visits``, and two ways to choose: ``uct`` and the published code's ``puct``.

    They differ for a step that no search has visited: UCT has no number for it (None: it comes before all others), the
    code gives it 0.
    """

    q: float
    visits: int
    uct: float | None
    puct: float


def rstar_q(backups: Sequence[float], parent_visits: int, *, c: float = 2.0) -> StepValue:
    """A step's Q in tree search: the mean of the outcomes (±1) backed up through it; UCT = Q + c sqrt(ln N_parent / N).

    Args:
        backups: outcomes of the searches that went through the step.
        parent_visits: searches that went through its parent, at least 1.
        c: weight of exploration.

    Raises:
        ValueError: parent_visits below 1.

    Example:
        >>> rstar_q([1, 1, -1, 1], parent_visits=10).q, rstar_q([], parent_visits=10).uct
        (0.5, None)

    References:
        Guan et al. 2025, rStar-Math, equation 1 and section 3.2.
    """
    if parent_visits < 1:
        raise ValueError(f"rstar_q(parent_visits) must be at least 1, got {parent_visits}")
    if not backups:
        return StepValue(0.0, 0, None, 0.0)
    q = math.fsum(backups) / len(backups)
    uct = q + c * math.sqrt(math.log(parent_visits) / len(backups))
    return StepValue(q, len(backups), uct, uct)
