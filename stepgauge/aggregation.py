"""Aggregation: many step scores to one number.

Pure functions, no dependencies. Steps that were not scored (None) are skipped; a rollout with nothing scored has no
aggregate (None), which ranks below every number. An empty product is never 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

__all__ = ["AGGREGATES", "aggregate_steps"]


def _logs(values: Sequence[float], how: str) -> list[float]:
    negative = next((value for value in values if value < 0), None)
    if negative is not None:
        raise ValueError(
            f"aggregate '{how}' needs step scores >= 0, got {negative!r}; "
            "scores in nats (log_ratio, confidence) take 'min', 'mean', 'sum' or 'last'"
        )
    return [math.log(value) if value > 0 else -math.inf for value in values]


def _prod(values: Sequence[float]) -> float:
    return math.exp(math.fsum(_logs(values, "prod")))


def _geomean(values: Sequence[float]) -> float:
    return math.exp(math.fsum(_logs(values, "geomean")) / len(values))


def _sum_logit(values: Sequence[float]) -> float | None:
    outside = next((value for value in values if not 0 <= value <= 1), None)
    if outside is not None:
        raise ValueError(f"aggregate 'sum_logit' needs probabilities in [0, 1], got {outside!r}")
    zeros, ones = 0.0 in values, 1.0 in values
    if zeros and ones:
        return None  # inf - inf: undefined
    if zeros or ones:
        return math.inf if ones else -math.inf
    return math.fsum(math.log(value) - math.log1p(-value) for value in values)


def _softmin(values: Sequence[float], temperature: float) -> float:
    if not temperature > 0:
        raise ValueError(f"aggregate 'softmin' needs temperature > 0, got {temperature!r}; use 'min' for the limit 0")
    low = min(values)
    weights = [math.exp((low - value) / temperature) for value in values]
    return math.fsum(w * v for w, v in zip(weights, values, strict=True)) / math.fsum(weights)


_RULES: dict[str, Callable[[Sequence[float]], float | None]] = {
    "min": min,
    "max": max,
    "prod": _prod,
    "geomean": _geomean,
    "mean": lambda values: math.fsum(values) / len(values),
    "sum": math.fsum,
    "last": lambda values: values[-1],
    "sum_logit": _sum_logit,
}
AGGREGATES: tuple[str, ...] = (*_RULES, "softmin")


def aggregate_steps(values: Sequence[float | None], how: str, *, temperature: float = 0.1) -> float | None:
    """Reduce the step scores of one rollout to one number.

    ======== ======================================== =========================
    how      formula, over the scored steps v_1..v_S  domain
    ======== ======================================== =========================
    min, max smallest, largest                        any
    mean     (1/S) sum v                              any
    sum      sum v                                    any
    last     the last scored step                     any
    prod     exp(sum ln v)                            v >= 0
    geomean  exp((1/S) sum ln v)                      v >= 0
    sum_logit sum ln(v / (1 - v))                     probabilities
    softmin  sum v softmax(-v / T), T = temperature   any
    ======== ======================================== =========================

    Args:
        values: (S,) one score a step; None = the step was not scored, and is skipped.
        how: one of the names above.
        temperature: T of ``softmin``, in the unit of the scores.

    Returns:
        The aggregate in the unit of the scores (nats for ``sum_logit``). None where no step was scored, and for
        ``sum_logit`` where a 0 and a 1 meet (inf - inf); a lone 0 or 1 gives -inf or inf there.

    Raises:
        ValueError: unknown ``how``, a NaN score, or a score outside the domain.

    Example:
        >>> aggregate_steps([0.9, None, 0.4], "min")
        0.4
        >>> aggregate_steps([], "prod") is None
        True

    References:
        Lightman et al. 2023 (prod, min); Wang et al. 2024, Math-Shepherd (min); Cheng et al. 2025, PURE (softmin,
        T = 0.1).
    """
    if how not in AGGREGATES:
        raise ValueError(f"aggregate 'how' must be one of {', '.join(AGGREGATES)}; got {how!r}")
    scored = [float(value) for value in values if value is not None]
    if any(math.isnan(value) for value in scored):
        raise ValueError(f"step scores must not be NaN, got {list(values)!r}; use None for a step that was not scored")
    if not scored:
        return None
    return _softmin(scored, temperature) if how == "softmin" else _RULES[how](scored)
