"""Which answer to take, given several candidates and their scores; search and routing with scorers; diagnosis."""

from stepgauge.selection.change_points import ChangePoint, change_point, drift, forking_steps, hazard, survival
from stepgauge.selection.clusters import semantic_clusters
from stepgauge.selection.compute_optimal import Choice, Trial, choose_strategies, difficulty_bin, difficulty_edges
from stepgauge.selection.consensus import Consensus, consensus
from stepgauge.selection.distinguish import Distinguished, Judge, both_orders, distinguish, output_groups
from stepgauge.selection.fusion import Fused, Part, fuse
from stepgauge.selection.metrics import Interval, bootstrap_interval, pass_at_k, plugin_pass_at_k
from stepgauge.selection.multi_temperature import TemperatureVote, multi_temperature_rounds, multi_temperature_vote
from stepgauge.selection.rerank import Pick, Rerank, Rule, rerank
from stepgauge.selection.router import LinearPosterior, Router, quantile_reward
from stepgauge.selection.search import (
    Beam,
    NextStep,
    Propose,
    SearchResult,
    beam_search,
    beam_select,
    dvts,
    dvts_select,
)
from stepgauge.selection.votes import Vote, best_of_n, borda_vote, majority_vote, weighted_vote

__all__ = [
    "Beam",
    "ChangePoint",
    "Choice",
    "Consensus",
    "Distinguished",
    "Fused",
    "Interval",
    "Judge",
    "LinearPosterior",
    "NextStep",
    "Part",
    "Pick",
    "Propose",
    "Rerank",
    "Router",
    "Rule",
    "SearchResult",
    "TemperatureVote",
    "Trial",
    "Vote",
    "beam_search",
    "beam_select",
    "best_of_n",
    "bootstrap_interval",
    "borda_vote",
    "both_orders",
    "change_point",
    "choose_strategies",
    "consensus",
    "difficulty_bin",
    "difficulty_edges",
    "distinguish",
    "drift",
    "dvts",
    "dvts_select",
    "forking_steps",
    "fuse",
    "hazard",
    "majority_vote",
    "multi_temperature_rounds",
    "multi_temperature_vote",
    "output_groups",
    "pass_at_k",
    "plugin_pass_at_k",
    "quantile_reward",
    "rerank",
    "semantic_clusters",
    "survival",
    "weighted_vote",
]
