"""Causal language models under a scorer: loading and batching."""

from stepgauge.lm.batching import token_batches
from stepgauge.lm.loading import load_causal_lm, model_folder, placement, weights_fingerprint

__all__ = [
    "load_causal_lm",
    "model_folder",
    "placement",
    "token_batches",
    "weights_fingerprint",
]
