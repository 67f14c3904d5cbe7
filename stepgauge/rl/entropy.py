"""Entropy: as a reward, as a scale of advantages, as a choice of tokens. Pure functions on numpy arrays; nats.

N rollouts, K clusters, T tokens, V vocabulary, M masked tokens of a batch.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = [
    "ConfidenceReward",
    "SemanticEntropy",
    "TokenChoice",
    "cluster_loglik",
    "cov_token_selection",
    "em_reward",
    "entropy_gradient",
    "entropy_temperature",
    "entropy_value",
    "minimize_entropy",
    "seed_scale",
    "self_certainty_reward",
    "semantic_entropy",
]

Array = npt.NDArray[np.float64]


def _log_softmax(logits: npt.ArrayLike, owner: str) -> Array:
    z = np.asarray(logits, dtype=np.float64)
    if z.ndim == 0 or z.shape[-1] == 0 or np.isnan(z).any() or np.isposinf(z).any():
        raise ValueError(f"{owner}(logits) must be (..., V) numbers with V >= 1, none NaN or +inf")
    top = z.max(axis=-1, keepdims=True)
    if np.isneginf(top).any():
        raise ValueError(f"{owner}(logits): a row is all -inf")
    shifted = z - top
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def _entropy(logp: Array) -> Array:
    p = np.exp(logp)
    return np.asarray(-(p * np.where(p > 0, logp, 0.0)).sum(axis=-1))


@dataclass(frozen=True, slots=True)
class SemanticEntropy:
    """Entropy of N answers over their classes, nats: the Monte-Carlo and the Shannon form, and ln N."""

    kuhn: float
    shannon: float
    maximum: float


def semantic_entropy(counts: Sequence[int]) -> SemanticEntropy:
    """Entropy over clusters: kuhn = -(1/K) sum ln P_k over K clusters, shannon = -sum P_k ln P_k, P_k = n_k / N.

    Args:
        counts: (K,) sizes of the clusters, each >= 1; for answers: ``Counter(classes).values()``.

    Raises:
        ValueError: no cluster, or an empty one.

    Example:
        >>> semantic_entropy([2]).shannon
        0.0

    References:
        Kuhn et al. 2023; Farquhar et al. 2024.
    """
    sizes = np.asarray(list(counts), dtype=np.float64)
    if sizes.size == 0 or not (sizes >= 1).all():
        raise ValueError(f"semantic_entropy(counts) needs clusters of at least one answer, got {list(counts)}")
    logp = np.log(sizes / sizes.sum())
    shannon = float(-(np.exp(logp) * logp).sum())
    return SemanticEntropy(float(-logp.mean()) + 0.0, shannon + 0.0, math.log(sizes.sum()))


def cluster_loglik(ids: Sequence[Hashable], logliks: npt.ArrayLike) -> tuple[Array, float]:
    """(K,) log-probability of each class, in order of appearance, and its entropy -sum P ln P, nats.

    P_k is the likelihood of its sequences, normalised over all of the sequences.

    Raises:
        ValueError: no sequences, lengths that differ, log-likelihoods that are not finite.

    Example:
        >>> cluster_loglik(["a", "b"], [-1.0, -1.0])[1] == math.log(2)
        True
    """
    values = np.asarray(logliks, dtype=np.float64)
    if values.size == 0 or values.shape != (len(ids),) or not np.isfinite(values).all():
        raise ValueError(f"cluster_loglik needs one finite log-likelihood an id, got {len(ids)} ids, {values.shape}")
    logp = values - np.logaddexp.reduce(values)
    classes = list(dict.fromkeys(ids))
    grouped = [logp[[i for i, one in enumerate(ids) if one == name]] for name in classes]
    cluster = np.array([np.logaddexp.reduce(group) for group in grouped])
    return cluster, float(_entropy(cluster))


def seed_scale(advantages: npt.ArrayLike, entropy: float, maximum: float, alpha: float = 1.0) -> Array:
    """SEED-GRPO: advantages * max(0, 1 - alpha SE / SE_max). SE_max = 0 (one answer) scales by 1.

    The linear scale and ``alpha`` are assumptions: the paper's are not confirmed.

    Raises ValueError for an entropy outside [0, maximum] or alpha < 0.

    Example:
        >>> seed_scale([1.0, -1.0], entropy=1.0, maximum=2.0).tolist()
        [0.5, -0.5]

    References:
        Chen et al. 2025, SEED-GRPO (2505.12346).
    """
    if not -1e-9 <= entropy <= maximum + 1e-9 or alpha < 0:
        raise ValueError(f"seed_scale needs 0 <= entropy <= maximum, alpha >= 0; got {entropy}, {maximum}, {alpha}")
    scale = 1.0 if maximum == 0 else max(0.0, 1.0 - alpha * entropy / maximum)
    return np.asarray(advantages, dtype=np.float64) * scale


@dataclass(frozen=True, slots=True)
class ConfidenceReward:
    """Log-probability of the sampled tokens, and minus the entropies: summed, as published, and per token. Nats."""

    trajectory: float
    token: float
    n_tokens: int

    def per_token(self) -> tuple[float, float]:
        """Both, divided by the number of tokens; raises ValueError for none."""
        if self.n_tokens == 0:
            raise ValueError("ConfidenceReward.per_token is undefined without tokens")
        return self.trajectory / self.n_tokens, self.token / self.n_tokens


def em_reward(logits: npt.ArrayLike, token_ids: Sequence[int]) -> ConfidenceReward:
    """Entropy-minimisation rewards: sum_t ln p(y_t) and -sum_t H_t. No tokens give 0.

    Args:
        logits: (T, V) raw logits of each sampled token. token_ids: (T,) the tokens.

    Raises:
        ValueError: shapes that do not match, an id outside the vocabulary.

    Example:
        >>> em_reward([[0.0, 0.0]], [1]).token == -math.log(2)
        True

    References:
        Agarwal et al. 2025, The Unreasonable Effectiveness of Entropy Minimization (2505.15134).
    """
    if len(token_ids) == 0:
        return ConfidenceReward(0.0, 0.0, 0)
    logp = _log_softmax(logits, "em_reward")
    ids = np.asarray(token_ids)
    if logp.ndim != 2 or len(logp) != ids.size or ids.min() < 0 or ids.max() >= logp.shape[1]:
        raise ValueError(f"em_reward needs (T, V) logits and T ids below V, got {logp.shape} and {ids.size} ids")
    trajectory = math.fsum(logp[np.arange(ids.size), ids])
    return ConfidenceReward(trajectory, -math.fsum(_entropy(logp)), ids.size)


def self_certainty_reward(logits: npt.ArrayLike, mask: npt.ArrayLike | None = None) -> float:
    """Mean over tokens of KL(uniform || p_t) = logsumexp(z) - mean(z) - ln V, nats; >= 0.

    Args:
        logits: (T, V) raw logits. mask: (T,) True on the tokens that count.

    Raises:
        ValueError: no token, or a logit of -inf (filtered logits make it infinite).

    Example:
        >>> self_certainty_reward([[1.0, 1.0]])
        0.0

    References:
        Kang et al. 2025, Self-Certainty (2502.18581); Zhao et al. 2025, Intuitor (2505.19590).
    """
    logp = _log_softmax(logits, "self_certainty_reward")
    keep = np.ones(len(logp), dtype=bool) if mask is None else np.asarray(mask, dtype=bool)
    if not keep.any() or np.isneginf(logp[keep]).any():
        raise ValueError("self_certainty_reward needs at least one token and finite raw logits")
    return float((-logp[keep].mean(axis=-1) - math.log(logp.shape[-1])).mean()) + 0.0


def entropy_gradient(logits: npt.ArrayLike) -> tuple[float, Array]:
    """H(softmax(z)) in nats and its (V,) gradient dH/dz_i = -p_i (ln p_i + H).

    Raises ValueError for logits that are not (V,) numbers.

    Example:
        >>> entropy_gradient([0.0, 0.0])[1].tolist()
        [0.0, 0.0]
    """
    logp = _log_softmax(logits, "entropy_gradient")
    if logp.ndim != 1:
        raise ValueError(f"entropy_gradient(logits) takes one row (V,), got {logp.shape}")
    entropy, p = float(_entropy(logp)), np.exp(logp)
    return entropy, np.asarray(-p * (np.where(p > 0, logp, 0.0) + entropy) + 0.0)


def minimize_entropy(logits: npt.ArrayLike, lr: float = 0.1, steps: int = 3, min_entropy: float = 0.3) -> Array:
    """EM-INF by plain gradient steps: (V,) logits after ``steps`` of z -= lr dH/dz, stopping below ``min_entropy``.

    The arg-max stays, uniform logits stay. (The published code uses Adam.)

    Raises ValueError for lr or steps below 0.

    Example:
        >>> minimize_entropy([0.0, 9.0]).tolist()
        [0.0, 9.0]

    References:
        Agarwal et al. 2025 (2505.15134), section on EM-INF.
    """
    if lr < 0 or steps < 0:
        raise ValueError(f"minimize_entropy needs lr >= 0 and steps >= 0, got {lr} and {steps}")
    z = np.asarray(logits, dtype=np.float64).copy()
    for _ in range(steps):
        entropy, gradient = entropy_gradient(z)
        if entropy < min_entropy:
            break
        z -= lr * gradient
    return z


def entropy_temperature(logits: npt.ArrayLike, target_ratio: float) -> float:
    """T in (0, 1] with H(softmax(z / T)) = target_ratio * H(softmax(z)), by bisection.

    Uniform logits have no such T below a ratio of 1: they keep T = 1.

    Raises ValueError for a ratio outside (0, 1], or one that ties at the top put out of reach.

    Example:
        >>> entropy_temperature([2.0, 1.0, 0.0], 1.0)
        1.0
    """
    if not 0 < target_ratio <= 1:
        raise ValueError(f"entropy_temperature(target_ratio) must be in (0, 1], got {target_ratio}")
    z = np.asarray(logits, dtype=np.float64)
    entropy, _ = entropy_gradient(z)
    if target_ratio == 1 or np.ptp(z) == 0 or entropy == 0:
        return 1.0
    z, target = z - z.max(), target_ratio * entropy
    if target < math.log(np.count_nonzero(z == 0)):
        raise ValueError("entropy_temperature(target_ratio): the tied largest logits keep more entropy than that")
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if entropy_gradient(z / middle)[0] > target:
            high = middle
        else:
            low = middle
    return high


def entropy_value(rewards: npt.ArrayLike, eta: float) -> float:
    """Entropy-regularised value ln((1/n) sum e^(eta r)) / eta of n sampled returns; the mean for eta = 0.

    Between the mean (eta to 0) and the maximum (eta to infinity); below the mean for eta < 0.

    Raises ValueError without rewards, or for numbers that are not finite.

    Example:
        >>> round(entropy_value([1.0, 0.0, 0.0, 0.0], 2.0), 3)
        0.477

    References:
        Zhang et al. 2024, Entropy-Regularized Process Reward Model (2412.11006).
    """
    values = np.asarray(rewards, dtype=np.float64)
    if values.size == 0 or not np.isfinite(values).all() or not math.isfinite(eta):
        raise ValueError(f"entropy_value needs finite rewards, at least one, and a finite eta; got {rewards!r:.60}")
    if abs(eta) < 1e-6:
        return float(values.mean() + eta * values.var() / 2)
    base = values.max() if eta > 0 else values.min()
    return float(base + math.log(np.exp(eta * (values - base)).mean()) / eta)


@dataclass(frozen=True, slots=True)
class TokenChoice:
    """(M,) covariances, the candidates of Clip-Cov and the tokens of KL-Cov, as ascending indices."""

    cov: Array
    candidates: npt.NDArray[np.int64]
    kl_tokens: npt.NDArray[np.int64]

    def sample_clip(self, ratio: float, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """Clip-Cov's tokens: max(1, int(ratio * M)) of the candidates, drawn by ``rng``; fewer where they run out."""
        count = min(len(self.candidates), max(1, int(ratio * len(self.cov))))
        return np.sort(rng.choice(self.candidates, count, replace=False)) if count else self.candidates


def cov_token_selection(
    logp: npt.ArrayLike,
    advantages: npt.ArrayLike,
    clip_low: float = 1.0,
    clip_high: float = 5.0,
    kl_fraction: float = 0.002,
) -> TokenChoice:
    """Clip-Cov and KL-Cov: cov_i = (ln p_i - mean)(A_i - mean) over the M tokens of a batch.

    Candidates of Clip-Cov lie strictly between the bounds; KL-Cov takes the top ``kl_fraction``, at least one token.
    Equal covariances go to the lower index.

    Raises:
        ValueError: no tokens, lengths that differ, numbers that are not finite, a fraction outside [0, 1].

    Example:
        >>> cov_token_selection([0.0, -4.0], [1.0, -1.0]).candidates.tolist()
        [0, 1]

    References:
        Cui et al. 2025, The Entropy Mechanism of RL (2505.22617).
    """
    x, a = np.asarray(logp, dtype=np.float64), np.asarray(advantages, dtype=np.float64)
    if x.ndim != 1 or x.shape != a.shape or x.size == 0 or not np.isfinite([x, a]).all():
        raise ValueError(f"cov_token_selection needs two lists of M >= 1 finite numbers, got {x.shape} and {a.shape}")
    if not 0 <= kl_fraction <= 1:
        raise ValueError(f"cov_token_selection(kl_fraction) must be in [0, 1], got {kl_fraction}")
    cov = (x - x.mean()) * (a - a.mean())
    count = max(1, int(kl_fraction * cov.size))
    order = np.argsort(-cov, kind="stable")
    candidates = np.flatnonzero((cov > clip_low) & (cov < clip_high))
    return TokenChoice(cov, candidates, np.sort(order[:count]))
