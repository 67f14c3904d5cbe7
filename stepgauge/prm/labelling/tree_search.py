"""Which node of a tree of prefixes to roll out next: OmegaPRM's priority and rStar-Math's Q with UCT."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["TreeValue", "omegaprm_priority", "rstar_q"]


@dataclass(frozen=True, slots=True)
class TreeValue:
    """Exploitation ``q``, exploration ``u`` and their sum."""

    q: float
    u: float
    score: float


def omegaprm_priority(
    mc: float,
    rollout_words: int,
    node_visits: int,
    total_visits: int,
    *,
    alpha: float = 0.5,
    beta: float = 0.9,
    L: int = 500,
    c_puct: float = 0.125,
) -> TreeValue:
    """Priority of a rollout: Q = alpha^(1 - MC) beta^(words / L), U = c sqrt(sum N) / (1 + N).

    Likely but wrong rollouts, and short ones, come first.

    Args:
        mc: share of right rollouts from the node's prefix.
        rollout_words: length of the rollout.
        node_visits, total_visits: N of this node, and the sum over all (0 counts as 1).
        alpha, beta, L, c_puct: as published.

    Raises:
        ValueError: mc outside [0, 1], negative counts, L below 1.

    Example:
        >>> round(omegaprm_priority(0.5, 250, 0, 1).q, 4)
        0.6708

    References:
        Luo et al. 2024, Improve Mathematical Reasoning by Automated Process Supervision, equations 1 and 2.
    """
    if not 0 <= mc <= 1:
        raise ValueError(f"omegaprm_priority(mc) must be in [0, 1], got {mc}")
    if min(rollout_words, node_visits, total_visits) < 0 or L < 1:
        raise ValueError(
            f"omegaprm_priority needs counts of at least 0 and L of at least 1, got {rollout_words} words, visits "
            f"{node_visits} of {total_visits}, L={L}"
        )
    q = alpha ** (1 - mc) * beta ** (rollout_words / L)
    u = c_puct * math.sqrt(max(total_visits, 1)) / (1 + node_visits)
    return TreeValue(q, u, q + u)


def rstar_q(backups: Sequence[float], parent_visits: int, *, c: float = 2.0) -> TreeValue | None:
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
    return TreeValue(q, u, q + u)
