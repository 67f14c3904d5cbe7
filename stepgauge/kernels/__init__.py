"""Fused token statistics of language-model heads: reference · torch (tuned for the CPU) · triton, behind one signature.

Pure tensors in and out; importing this package imports torch, and triton only when a kernel of it runs.
"""

from stepgauge.kernels.labels import label_logits
from stepgauge.kernels.pairs import Head, PairStats, pair_stats
from stepgauge.kernels.parallel import ShardPartials, lm_partials, merge_partials
from stepgauge.kernels.segments import segment_sum
from stepgauge.kernels.stats import LmStats, lm_stats

__all__ = [
    "Head",
    "LmStats",
    "PairStats",
    "ShardPartials",
    "label_logits",
    "lm_partials",
    "lm_stats",
    "merge_partials",
    "pair_stats",
    "segment_sum",
]
