"""Causal language models under a scorer: loading, and running the body over many rows at once."""

from stepgauge.lm.batching import token_batches
from stepgauge.lm.loading import load_causal_lm, model_folder, placement, weights_fingerprint
from stepgauge.lm.tree import enable_tree, hidden_states, row_batches

__all__ = [
    "enable_tree",
    "hidden_states",
    "load_causal_lm",
    "model_folder",
    "placement",
    "row_batches",
    "token_batches",
    "weights_fingerprint",
]
