"""Log-odds of a process reward model to probabilities that mean what they say, fitted on a development set."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

__all__ = ["Calibration", "fit_calibration"]

Method = Literal["temperature", "isotonic"]


@dataclass(frozen=True, slots=True)
class Calibration:
    """Log-odds (nats) to a probability: σ(z / T), or a rising curve through fitted points.

    Args:
        method: "temperature" or "isotonic".
        temperature: T > 0.
        knots, levels: of the curve: log-odds, rising, and probabilities.

    Example:
        >>> Calibration("temperature", temperature=2.0).probability(4.0) == Calibration("temperature").probability(2.0)
        True
    """

    method: Method
    temperature: float = 1.0
    knots: tuple[float, ...] = ()
    levels: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.method not in ("temperature", "isotonic"):
            raise ValueError(f"Calibration.method must be temperature or isotonic, got {self.method!r}")
        if not (math.isfinite(self.temperature) and self.temperature > 0):
            raise ValueError(f"Calibration.temperature must be a number above 0, got {self.temperature}")
        if self.method == "isotonic" and not (self.knots and len(self.knots) == len(self.levels)):
            raise ValueError("Calibration.knots and levels must be as many, at least one; fit_calibration makes them")

    def probability(self, log_odds: float) -> float:
        """The calibrated probability of one step."""
        if self.method == "temperature":
            scaled = log_odds / self.temperature
            return 1 / (1 + math.exp(-scaled)) if scaled > -700 else 0.0
        import numpy as np

        return float(np.interp(log_odds, self.knots, self.levels))

    def save(self, path: str | Path) -> None:
        """Write as JSON, for instance beside the model's weights."""
        Path(path).write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Calibration:
        """Read what ``save`` wrote. Raises ValueError for another file."""
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
            knots, levels = (tuple(float(x) for x in data[key]) for key in ("knots", "levels"))
            return cls(data["method"], float(data["temperature"]), knots, levels)
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise ValueError(f"{path} is no calibration that Calibration.save wrote: {error}") from error


def fit_calibration(log_odds: Sequence[float], labels: Sequence[int], method: Method = "temperature") -> Calibration:
    r"""The calibration of least log loss (temperature) or least squares under monotony (isotonic).

    T = argmin_T −Σ_i [y_i ln σ(z_i / T) + (1 − y_i) ln(1 − σ(z_i / T))]

    Args:
        log_odds: (N,) as in ``details[k]["log_odds"]``, nats.
        labels: (N,) 1 = right, 0 = wrong; both must occur.
        method: "temperature" keeps the order and one parameter; "isotonic" needs some hundred labels.

    Raises:
        ValueError: lengths that differ, other labels, one class only, or scores that do not rank right above wrong at
            any temperature.

    Example:
        >>> fit_calibration([8.0, 6.0, -6.0, 7.0], [1, 1, 0, 0]).temperature > 1
        True

    References: Guo et al. 2017, https://arxiv.org/abs/1706.04599; Zadrozny & Elkan 2002.
    """
    if len(log_odds) != len(labels):
        raise ValueError(f"fit_calibration: one label a score; got {len(log_odds)} scores and {len(labels)} labels")
    if set(labels) != {0, 1}:
        raise ValueError(f"fit_calibration(labels) must hold 0 and 1, both; got {sorted(set(labels))}")
    import numpy as np

    scores = np.asarray(log_odds, dtype=np.float64)
    wanted = np.asarray(labels, dtype=np.float64)
    if not np.isfinite(scores).all():
        raise ValueError("fit_calibration(log_odds) must be finite")
    if method == "isotonic":
        from sklearn.isotonic import IsotonicRegression

        curve = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(scores, wanted)
        return Calibration("isotonic", 1.0, tuple(curve.X_thresholds_.tolist()), tuple(curve.y_thresholds_.tolist()))
    if method != "temperature":
        raise ValueError(f"fit_calibration(method) must be temperature or isotonic, got {method!r}")
    return Calibration("temperature", _temperature(scores, wanted))


def _temperature(scores: object, wanted: object) -> float:
    import numpy as np
    from scipy.optimize import minimize_scalar

    def loss(log_slope: float) -> float:
        z = np.asarray(scores) * math.exp(log_slope)
        return float(np.mean(np.logaddexp(0, z) - np.asarray(wanted) * z))

    bound = 12.0
    found = minimize_scalar(loss, bounds=(-bound, bound), method="bounded", options={"xatol": 1e-10})
    if found.x < -bound + 1:
        raise ValueError(
            "fit_calibration: no temperature helps, the scores do not rank right steps above wrong ones; "
            "use method='isotonic' or another model"
        )
    return math.exp(-found.x)
