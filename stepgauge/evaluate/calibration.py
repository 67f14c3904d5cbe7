"""Do step scores mean what they say? Expected calibration error and the reliability diagram."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

import numpy as np

__all__ = ["Bin", "Reliability", "reliability", "reliability_svg"]


@dataclass(frozen=True, slots=True)
class Bin:
    """Scores in [low, high): how many, their mean, and the share of right steps among them."""

    low: float
    high: float
    count: int
    confidence: float
    accuracy: float


@dataclass(frozen=True, slots=True)
class Reliability:
    """The bins that hold scores, the expected calibration error, the Brier score, and the number of steps."""

    bins: tuple[Bin, ...]
    ece: float
    brier: float
    steps: int

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def reliability(probabilities: Sequence[float], labels: Sequence[float], *, bins: int = 10) -> Reliability:
    """ECE = Σ_b n_b / N |accuracy_b − confidence_b| over bins of equal width; Brier = mean (p − y)².

    Args:
        probabilities: (N,) in [0, 1].
        labels: (N,) 1 = right, 0 = wrong.
        bins: how many.

    Raises:
        ValueError: lengths that differ, none, bins < 1, or values outside [0, 1].

    Example:
        >>> round(reliability([0.9, 0.9, 0.1, 0.1], [1, 0, 0, 0]).ece, 3)
        0.25

    References:
        Naeini et al. 2015; Guo et al. 2017, On Calibration of Modern Neural Networks, equation 3.
    """
    if len(probabilities) != len(labels) or not len(labels):
        raise ValueError(
            f"reliability needs one label a probability, and at least one; got {len(probabilities)} and {len(labels)}"
        )
    if bins < 1:
        raise ValueError(f"reliability bins must be at least 1, got {bins}")
    p, y = np.asarray(probabilities, np.float64), np.asarray(labels, np.float64)  # (N,)
    for name, values in (("probabilities", p), ("labels", y)):
        if not ((values >= 0) & (values <= 1)).all():
            raise ValueError(f"reliability({name}) must lie in [0, 1]")
    place = np.minimum((p * bins).astype(int), bins - 1)
    found = []
    for b in range(bins):
        inside = place == b
        if inside.any():
            count = int(inside.sum())
            found.append(Bin(b / bins, (b + 1) / bins, count, float(p[inside].mean()), float(y[inside].mean())))
    ece = sum(b.count * abs(b.accuracy - b.confidence) for b in found) / len(y)
    return Reliability(tuple(found), ece, float(np.mean((p - y) ** 2)), len(y))


def reliability_svg(result: Reliability, title: str = "") -> str:
    """The reliability diagram as an SVG image: a bar a bin, the diagonal of a calibrated scorer, the counts below.

    Example:
        >>> reliability_svg(reliability([0.9, 0.1], [1, 0])).startswith("<svg")
        True
    """
    size, left, top = 300, 60, 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size + 90}" height="{size + 110}" role="img" '
        f'font-family="sans-serif" font-size="12"><title>{escape(title or "reliability")}</title>',
        f'<rect width="100%" height="100%" fill="#fff"/><text x="{left}" y="22" font-size="14">{escape(title)}</text>',
    ]
    for b in result.bins:
        x, width = left + b.low * size, (b.high - b.low) * size
        height = b.accuracy * size
        parts.append(
            f'<rect x="{x + 1:.1f}" y="{top + size - height:.1f}" width="{width - 2:.1f}" height="{height:.1f}" '
            f'fill="#4477aa"><title>scores {b.low:.2g} to {b.high:.2g}: mean {b.confidence:.3f}, '
            f"{b.accuracy:.3f} right, {b.count} steps</title></rect>"
        )
        parts.append(
            f'<circle cx="{left + b.confidence * size:.1f}" cy="{top + size - height:.1f}" r="3" fill="#cc3311"/>'
        )
    parts.append(
        f'<path d="M{left} {top + size}L{left + size} {top}" stroke="#555" stroke-dasharray="4 4" fill="none"/>'
        f'<path d="M{left} {top}V{top + size}H{left + size}" stroke="#000" fill="none"/>'
    )
    for tick in (0.0, 0.5, 1.0):
        parts.append(
            f'<text x="{left + tick * size}" y="{top + size + 16}" text-anchor="middle">{tick:g}</text>'
            f'<text x="{left - 8}" y="{top + size - tick * size + 4}" text-anchor="end">{tick:g}</text>'
        )
    parts.append(
        f'<text x="{left + size / 2}" y="{top + size + 34}" text-anchor="middle">step score</text>'
        f'<text transform="translate(20 {top + size / 2}) rotate(-90)" text-anchor="middle">share of right steps</text>'
        f'<text x="{left}" y="{top + size + 56}">ECE {result.ece:.3f}, Brier {result.brier:.3f}, '
        f"{result.steps} steps; dots: mean score of the bin</text></svg>"
    )
    return "".join(parts)
