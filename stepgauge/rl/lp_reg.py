"""Lp-Reg: keep low-probability tokens that a filtered policy would keep. Pure functions on numpy arrays; nats."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["MinPProxy", "lp_reg_mask", "lp_reg_penalty", "min_p_proxy"]

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MinPProxy:
    """The filtered policy: threshold on p, (V,) proxy, ln(proxy / p) and k3 penalty (NaN on dropped tokens), KL."""

    threshold: float
    probs: Array
    log_ratio: Array
    penalty: Array
    forward_kl: float


def min_p_proxy(probs: npt.ArrayLike, min_p: float = 0.02) -> MinPProxy:
    """The policy without tokens below min_p * max p, renormalised; k3(x) = e^x - 1 - x of x = ln(proxy / p).

    Raises ValueError unless ``probs`` is a distribution and 0 <= min_p <= 1.

    Example:
        >>> min_p_proxy([0.5, 0.495, 0.005]).probs.round(4).tolist()
        [0.5025, 0.4975, 0.0]

    References:
        Huang et al. 2025, Low-probability Tokens Sustain Exploration (2510.03222).
    """
    p = np.asarray(probs, dtype=np.float64)
    if p.ndim != 1 or p.size == 0 or not (p >= 0).all() or not math.isclose(p.sum(), 1.0, abs_tol=1e-6):
        raise ValueError(f"min_p_proxy(probs) must be a distribution (V,), got {probs!r:.60}")
    if not 0 <= min_p <= 1:
        raise ValueError(f"min_p_proxy(min_p) must be in [0, 1], got {min_p}")
    threshold = min_p * float(p.max())
    kept = (p >= threshold) & (p > 0)
    proxy = np.where(kept, p, 0.0) / p[kept].sum()
    log_ratio = np.full_like(p, np.nan)
    log_ratio[kept] = np.log(proxy[kept]) - np.log(p[kept])
    penalty = np.expm1(log_ratio) - log_ratio
    return MinPProxy(threshold, proxy, log_ratio, penalty, float((proxy[kept] * log_ratio[kept]).sum()))


def lp_reg_mask(
    logp: npt.ArrayLike, proxy_logp: npt.ArrayLike, advantages: npt.ArrayLike, rho: float = 0.01
) -> npt.NDArray[np.bool_]:
    """(M,) sampled tokens to regularise: A < 0, in the lowest ``rho`` of ln p, kept by the proxy, and p < proxy.

    The lowest rho of the M tokens is floor(rho * M) of them, ties by index; none where that is 0.

    Args:
        logp: (M,) ln p of the sampled tokens. proxy_logp: (M,) ln proxy; -inf = dropped. advantages: (M,).

    Raises ValueError for lengths that differ or rho outside [0, 1].

    Example:
        >>> lp_reg_mask([-5.0, -1.0], [-4.0, -0.9], [-1.0, -1.0], rho=0.5).tolist()
        [True, False]
    """
    x, proxy, a = (np.asarray(value, dtype=np.float64) for value in (logp, proxy_logp, advantages))
    if x.ndim != 1 or not x.shape == proxy.shape == a.shape or not 0 <= rho <= 1:
        raise ValueError(f"lp_reg_mask needs three lists of M and 0 <= rho <= 1; got {x.shape}, {a.shape}, {rho}")
    lowest = np.zeros(x.shape, dtype=bool)
    lowest[np.argsort(x, kind="stable")[: int(rho * x.size)]] = True
    return np.asarray(lowest & (a < 0) & np.isfinite(proxy) & (x < proxy))


def lp_reg_penalty(
    logp: npt.ArrayLike, proxy_logp: npt.ArrayLike, advantages: npt.ArrayLike, rho: float = 0.01, coef: float = 1.0
) -> Array:
    """(M,) coef * k3 on the tokens of ``lp_reg_mask``, 0 elsewhere; ln(proxy / p) and the penalty are held to 10.

    Example:
        >>> lp_reg_penalty([-5.0], [-5.0], [-1.0], rho=1.0).tolist()
        [0.0]
    """
    mask = lp_reg_mask(logp, proxy_logp, advantages, rho)
    ratio = np.clip(np.asarray(proxy_logp, dtype=np.float64) - np.asarray(logp, dtype=np.float64), -10.0, 10.0)
    return np.where(mask, coef * np.minimum(np.expm1(ratio) - ratio, 10.0), 0.0)
