"""Which scorer to ask: Bayesian linear Thompson sampling over scorers, given a context vector of the problem.

The reward of a scorer on context h is modelled as h . w + noise, with a Gaussian posterior over w for each scorer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["LinearPosterior", "Router", "quantile_reward"]

Vector = NDArray[np.float64]


def _vector(name: str, value: ArrayLike, size: int | None = None) -> Vector:
    vector = np.asarray(value, dtype=np.float64)
    if vector.ndim != 1 or vector.size == 0 or (size is not None and vector.size != size):
        wanted = "(d,)" if size is None else f"({size},)"
        raise ValueError(f"{name} must have shape {wanted}, got {vector.shape}")
    if not np.isfinite(vector).all():
        raise ValueError(f"{name} must be finite, got {vector}")
    return vector


def _positive(name: str, value: float) -> float:
    if not (value > 0 and np.isfinite(value)):
        raise ValueError(f"{name} must be positive and finite, got {value!r}")
    return float(value)


@dataclass(frozen=True, slots=True, eq=False)
class LinearPosterior:
    """Gaussian posterior N(mean, precision^-1) over the weights of a linear reward.

    ``precision`` = lambda0 I + sum h h^T / sigma2 and ``shift`` = lambda0 mu0 + sum r h / sigma2, so that the mean is
    precision^-1 shift. Sums only: the order of the observations does not matter.

    Example:
        >>> posterior = LinearPosterior.prior([0.0, 0.0]).update([2.0, 0.0], 1.0).update([2.0, 0.0], 1.0)
        >>> posterior.mean.round(4).tolist()
        [0.4444, 0.0]

    References:
        BayesianRouter, arXiv:2510.02850; Agrawal and Goyal 2013 (Thompson sampling with linear payoffs).
    """

    precision: Vector  # (d, d)
    shift: Vector  # (d,)
    sigma2: float  # variance of the noise of a reward

    @classmethod
    def prior(cls, mu0: ArrayLike, *, lambda0: float = 1.0, sigma2: float = 1.0) -> Self:
        """Before any data: w ~ N(mu0, I / lambda0).

        Args:
            mu0: (d,) prior mean, for example an offline embedding of the scorer.
            lambda0: prior precision. sigma2: variance of the noise of a reward.

        Raises:
            ValueError: mu0 that is no finite vector, or a precision or variance that is not positive.
        """
        mean = _vector("mu0", mu0)
        strength = _positive("lambda0", lambda0)
        return cls(strength * np.eye(mean.size), strength * mean, _positive("sigma2", sigma2))

    def update(self, context: ArrayLike, reward: float) -> LinearPosterior:
        """The posterior after one more reward, seen on a context (d,).

        Raises:
            ValueError: a context of another size, or a context or reward that is not finite.
        """
        h = _vector("context", context, self.shift.size)
        if not np.isfinite(reward):
            raise ValueError(f"reward must be finite, got {reward!r}; leave out a scorer that gave none")
        return LinearPosterior(
            self.precision + np.outer(h, h) / self.sigma2, self.shift + reward * h / self.sigma2, self.sigma2
        )

    @property
    def cholesky(self) -> Vector:
        """(d, d) lower L with L L^T = precision, which grows a little where rounding made it indefinite."""
        jitter = np.finfo(np.float64).eps * np.trace(self.precision)
        for factor in (0.0, 1.0, 1e3, 1e6):
            try:
                return np.linalg.cholesky(self.precision + factor * jitter * np.eye(self.shift.size))
            except np.linalg.LinAlgError:
                continue
        raise ValueError("the precision is not positive definite; scale the contexts to about unit length")

    @property
    def mean(self) -> Vector:
        """(d,) the posterior mean of the weights."""
        lower = self.cholesky
        return np.linalg.solve(lower.T, np.linalg.solve(lower, self.shift))

    @property
    def covariance(self) -> Vector:
        """(d, d) the posterior covariance of the weights."""
        inverse = np.linalg.inv(self.cholesky)
        return inverse.T @ inverse

    def score(self, context: ArrayLike) -> tuple[float, float]:
        """Mean and standard deviation of the expected reward h . w on a context (d,)."""
        h = _vector("context", context, self.shift.size)
        lower = self.cholesky
        spread = np.linalg.solve(lower, h)  # h^T precision^-1 h = |L^-1 h|^2, and the mean is L^-T L^-1 shift
        return float(spread @ np.linalg.solve(lower, self.shift)), float(np.sqrt(spread @ spread))

    def sample_score(self, context: ArrayLike, z: ArrayLike) -> float:
        """The expected reward under one draw of the weights: h . (mean + L^-T z), z standard normal (d,)."""
        h = _vector("context", context, self.shift.size)
        noise = _vector("z", z, self.shift.size)
        lower = self.cholesky
        return float(np.linalg.solve(lower, h) @ (np.linalg.solve(lower, self.shift) + noise))


def quantile_reward(
    rewards: Sequence[float], history: Sequence[float], *, low: float = 0.2, high: float = 0.8
) -> list[float]:
    """Rewards on the scale of those seen before: (r - q_low) / (q_high - q_low), clipped to [0, 1].

    Where the history is constant (q_low = q_high), 1 for a reward above it and 0 otherwise.

    Args:
        rewards: any unit, for example the negative loss of the policy on what the scorer preferred.
        history: rewards seen so far, at least one. low, high: the quantiles, linearly interpolated.

    Raises:
        ValueError: no history, a value that is not finite, or not 0 <= low < high <= 1.

    Example:
        >>> [round(r, 6) for r in quantile_reward([-1.0, -0.5, -0.2], [-0.9, -0.7, -0.5, -0.3, -0.1])]
        [0.0, 0.5, 1.0]

    References:
        BayesianRouter, arXiv:2510.02850 (quantiles 0.2 and 0.8).
    """
    if not 0 <= low < high <= 1:
        raise ValueError(f"quantile_reward needs 0 <= low < high <= 1, got low={low}, high={high}")
    seen = _vector("history", history)
    values = _vector("rewards", rewards) if len(rewards) else np.zeros(0)
    bottom, top = np.quantile(seen, [low, high])
    if bottom == top:
        return [float(value > top) for value in values]
    return [float(value) for value in np.clip((values - bottom) / (top - bottom), 0.0, 1.0)]


class Router:
    """Chooses which of several scorers to ask for a context, and learns from the rewards (Thompson sampling).

    Rewards should lie in about [0, 1]; ``quantile_reward`` brings others there. The choices depend on the seed and on
    what was observed only, and go on the same after ``Router.from_json(router.to_json())``.

    Args:
        priors: name of a scorer to its posterior so far; all of one dimension d.
        seed: of the draws.

    Raises:
        ValueError: no scorer, or dimensions that differ.

    Example:
        >>> router = Router({name: LinearPosterior.prior([0.0]) for name in ("prm", "math")})
        >>> for _ in range(50):
        ...     router.update("math", [1.0], 1.0)
        ...     router.update("prm", [1.0], 0.0)
        >>> router.choose([1.0])
        'math'

    References:
        BayesianRouter, arXiv:2510.02850.
    """

    def __init__(self, priors: Mapping[str, LinearPosterior], *, seed: int = 0) -> None:
        if not priors:
            raise ValueError("Router needs at least one scorer, got none")
        sizes = {name: posterior.shift.size for name, posterior in priors.items()}
        if len(set(sizes.values())) > 1:
            raise ValueError(f"Router priors must have one dimension, got {sizes}")
        self.posteriors = dict(priors)
        self._rng = np.random.default_rng(seed)

    def choose(self, context: ArrayLike) -> str:
        """The scorer whose expected reward is largest under one draw of each posterior."""
        draws = {
            name: posterior.sample_score(context, self._rng.standard_normal(posterior.shift.size))
            for name, posterior in self.posteriors.items()
        }
        return max(draws, key=lambda name: draws[name])

    def update(self, name: str, context: ArrayLike, reward: float) -> None:
        """Learn that the scorer got this reward on this context (d,).

        Raises:
            ValueError: an unknown name, a context of another size, or a value that is not finite.
        """
        if name not in self.posteriors:
            raise ValueError(f"Router knows {', '.join(self.posteriors)}; got {name!r}")
        self.posteriors[name] = self.posteriors[name].update(context, reward)

    def to_json(self) -> dict[str, Any]:
        """The whole state as plain JSON data: posteriors, and the state of the random numbers."""
        return {
            "scorers": {
                name: {"precision": p.precision.tolist(), "shift": p.shift.tolist(), "sigma2": p.sigma2}
                for name, p in self.posteriors.items()
            },
            "random": json.loads(json.dumps(self._rng.bit_generator.state)),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Router:
        """A router that goes on where ``to_json`` was called.

        Raises:
            ValueError: data that ``to_json`` did not write; the message says what is missing or malformed.
        """
        try:
            posteriors = {name: _posterior(name, state) for name, state in data["scorers"].items()}
            router = cls(posteriors)
            router._rng.bit_generator.state = data["random"]
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"router state is malformed ({type(error).__name__}: {error})") from error
        return router


def _posterior(name: str, state: Mapping[str, Any]) -> LinearPosterior:
    shift = _vector(f"{name}.shift", state["shift"])
    precision = np.asarray(state["precision"], dtype=np.float64)
    if precision.shape != (shift.size, shift.size) or not np.isfinite(precision).all():
        raise ValueError(f"{name}.precision must be a finite ({shift.size}, {shift.size}) matrix")
    return LinearPosterior(precision, shift, _positive(f"{name}.sigma2", state["sigma2"]))
