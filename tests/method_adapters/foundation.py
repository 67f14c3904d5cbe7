"""Worked cases of aggregation, voting and token statistics, onto the public functions. Names only, no maths."""

from __future__ import annotations

import torch

from stepgauge import aggregate_steps
from stepgauge.kernels import lm_stats
from stepgauge.selection import best_of_n, borda_vote, majority_vote, pass_at_k, plugin_pass_at_k, weighted_vote


def _aggregate_steps(inputs, expected):
    names = {"pure_T0_1": "softmin"}
    return {how: aggregate_steps(inputs["step_scores"], names.get(how, how)) for how in expected}


def _best_of_n(inputs, expected):
    answers, scores = inputs["answers"], inputs["scores"]
    weighted = weighted_vote(answers, scores)
    return {
        "vanilla": best_of_n(answers, scores).winner,
        "majority": majority_vote(answers).winner,
        "weighted": weighted.winner,
        "weights": weighted.votes,
    }


def _borda_vote(inputs, expected):
    vote = borda_vote(inputs["answers"], inputs["confidence"], inputs["p"])
    return {"votes": vote.votes, "winner": vote.winner}


def _pass_at_k(inputs, expected):
    return {"unbiased": pass_at_k(**inputs), "plugin": plugin_pass_at_k(**inputs)}


def _self_certainty(inputs, expected):
    logits = torch.tensor(inputs["logits"], dtype=torch.float64)
    want = ("self_certainty", "entropy", "mean_logit", "lse")
    stats = lm_stats(logits, torch.eye(logits.shape[1], dtype=torch.float64), None, want=want, backend="reference")
    return {
        "per_token": stats.self_certainty,
        "mean": stats.self_certainty.mean(),
        "entropy": stats.entropy,
        "intuitor_variant": stats.lse - stats.mean_logit,
    }


ADAPTERS = {
    "aggregate_steps": _aggregate_steps,
    "best_of_n": _best_of_n,
    "borda_vote": _borda_vote,
    "pass_at_k": _pass_at_k,
    "self_certainty": _self_certainty,
}
