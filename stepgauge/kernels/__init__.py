"""Fused token statistics of language-model heads: reference · torch (tuned for the CPU) · triton, behind one signature.

Pure tensors in and out; importing this package imports torch, triton only when a kernel runs.
"""

from stepgauge.kernels.stats import LmStats, lm_stats

__all__ = ["LmStats", "lm_stats"]
