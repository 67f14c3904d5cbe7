"""OmegaPRM's rule for which wrong rollout of the search tree to look into next."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Priority", "omegaprm_priority"]


@dataclass(frozen=True, slots=True)
class Priority:
    """``quality`` Q of a rollout, the ``exploration`` bonus U of its prefix, and their sum, the ``score``."""

    quality: float
    exploration: float

    @property
    def score(self) -> float:
        """Q + U: the largest is searched next."""
        return self.quality + self.exploration


def omegaprm_priority(
    mc: float,
    words: int,
    visits: int,
    total_visits: int,
    *,
    alpha: float = 0.5,
    beta: float = 0.9,
    length: float = 500.0,
    c_puct: float = 0.125,
) -> Priority:
    r"""Q = α^{1−MC} β^{words/L} and U = c_puct √ΣN / (1 + N): supposed-to-be-right, short, seldom visited comes first.

    Args:
        mc: success rate of the prefix that the rollout continues, in [0, 1].
        words: length of the rollout.
        visits: N, how often the prefix was selected. total_visits: ΣN over all prefixes; 0 counts as 1.
        alpha, beta: in (0, 1]. length: L, in words. c_puct: ≥ 0.

    Raises:
        ValueError: a rate outside [0, 1], a negative count, a parameter out of its range.

    Example:
        >>> round(omegaprm_priority(0.5, 250, 0, 1).score, 4)
        0.7958

    References: Luo et al. 2024, OmegaPRM, https://arxiv.org/abs/2406.06592 (eq. 2, 3).
    """
    if not 0 <= mc <= 1:
        raise ValueError(f"omegaprm_priority(mc) must lie in [0, 1], got {mc}")
    for name, count in (("words", words), ("visits", visits), ("total_visits", total_visits)):
        if count < 0:
            raise ValueError(f"omegaprm_priority({name}) must be 0 or more, got {count}")
    for name, rate in (("alpha", alpha), ("beta", beta)):
        if not 0 < rate <= 1:
            raise ValueError(f"omegaprm_priority({name}) must lie in (0, 1], got {rate}")
    if not length > 0 or not c_puct >= 0:
        raise ValueError(f"omegaprm_priority needs length > 0 and c_puct >= 0, got {length} and {c_puct}")
    quality = alpha ** (1 - mc) * beta ** (words / length)
    return Priority(quality, c_puct * math.sqrt(total_visits or 1) / (1 + visits))
