"""Token statistics of a language model's head, and the scorer on top of them."""

from stepgauge.kernels.token_stats import LmStats, lm_stats

__all__ = [
    "LmStats",
    "lm_stats",
]
