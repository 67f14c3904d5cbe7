"""Which answer to take, given several candidates and their scores."""

from stepgauge.selection.metrics import Interval, bootstrap_interval, pass_at_k, plugin_pass_at_k
from stepgauge.selection.rerank import Pick, Rerank, Rule, rerank
from stepgauge.selection.votes import Vote, best_of_n, borda_vote, majority_vote, weighted_vote

__all__ = [
    "Interval",
    "Pick",
    "Rerank",
    "Rule",
    "Vote",
    "best_of_n",
    "bootstrap_interval",
    "borda_vote",
    "majority_vote",
    "pass_at_k",
    "plugin_pass_at_k",
    "rerank",
    "weighted_vote",
]
