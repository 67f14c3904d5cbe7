"""Worked cases of rewards and advantages, onto the public functions. Names only, no maths."""

from __future__ import annotations

import math

import numpy as np

from stepgauge.rl.advantages import (
    egae,
    grpo_rank,
    information_gain,
    mrt_progress,
    pav,
    prime_rloo,
    rank_penalty,
    roirl,
)
from stepgauge.rl.entropy import (
    cluster_loglik,
    cov_token_selection,
    em_reward,
    entropy_gradient,
    entropy_temperature,
    minimize_entropy,
    seed_scale,
    semantic_entropy,
)
from stepgauge.rl.lp_reg import min_p_proxy


def _pav(inputs, expected):
    found = pav(inputs["base_q_per_step"], inputs["v0"], inputs["K"], inputs["alpha"])
    return {
        "prover_q": found.prover_q,
        "prover_advantage": found.advantage,
        "effective_reward": found.effective,
    }


def _prime_rloo(inputs, expected):
    return {
        "paper_advantage": prime_rloo(**inputs, variant="paper"),
        "repo_formula_advantage": prime_rloo(**inputs, variant="repo"),
    }


def _mrt_progress(inputs, expected):
    found = mrt_progress(inputs["success_prob_after_prefix"], inputs["outcome"], inputs["alpha"], inputs.get("oracle"))
    return {
        "progress": found.progress,
        "total_bonus": found.bonus,
        "reward": found.reward,
        "cumulative_regret": found.regret,
    }


def _information_gain(inputs, expected):
    if "samples" in inputs:
        return {"mean_gain": np.mean([information_gain(sample) for sample in inputs["samples"]], axis=0)}
    gain = information_gain(inputs["answer_logprob_after_prefix"])
    first = next((index for index, value in enumerate(gain) if value <= 0), -1)
    return {"gain_nats": gain, "gain_bits": gain / math.log(2), "total": gain.sum(), "first_nonpositive": first}


def _semantic_entropy(inputs, expected):
    if "semantic_ids" in inputs:
        logp, entropy = cluster_loglik(inputs["semantic_ids"], inputs["sequence_logliks"])
        return {"cluster_logp": logp, "entropy": entropy}
    found = semantic_entropy(inputs["cluster_counts"])
    advantages, alpha = inputs["advantages"], inputs["alpha"]
    return {
        "kuhn_mc": found.kuhn,
        "shannon": found.shannon,
        "se_max": found.maximum,
        "scaled_linear_shannon": seed_scale(advantages, found.shannon, found.maximum, alpha),
        "scaled_linear_kuhn": seed_scale(advantages, found.kuhn, found.maximum, alpha),
    }


def _em_reward(inputs, expected):
    found = em_reward(**inputs)
    trajectory, token = found.per_token() if found.n_tokens else (None, None)
    return {
        "r_traj": found.trajectory,
        "r_tok": found.token,
        "r_traj_per_token": trajectory,
        "r_tok_per_token": token,
    }


def _em_inf(inputs, expected):
    if "target_ratio" in inputs:
        temperature = entropy_temperature(inputs["logits"], inputs["target_ratio"])
        entropy, _ = entropy_gradient(np.asarray(inputs["logits"]) / temperature)
        return {"temperature": temperature, "entropy": entropy}
    entropy, gradient = entropy_gradient(inputs["logits"])
    moved = minimize_entropy(**inputs)
    steps = inputs["steps"]
    return {
        "entropy": entropy,
        "grad": gradient,
        "logits_after_one_sgd_step": moved,
        f"logits_after_{steps}_sgd_steps": moved,
        "logits_after": moved,
        "entropy_after": entropy_gradient(moved)[0],
    }


def _egae(inputs, expected):
    delta, advantage = egae(**inputs)
    return {"delta": delta, "advantage": advantage}


def _cov_token_selection(inputs, expected):
    found = cov_token_selection(
        inputs["logp"], inputs["adv"], inputs["clip_lb"], inputs["clip_ub"], inputs["kl_fraction"]
    )
    return {
        "cov": found.cov,
        "clip_candidates": found.candidates,
        "kl_topk": found.kl_tokens,
        "mean_cov": found.cov.mean(),
    }


def _lp_reg(inputs, expected):
    found = min_p_proxy(inputs["probs"], inputs["min_p"])
    return {
        "threshold": found.threshold,
        "proxy": found.probs,
        "log_ratio_proxy_over_policy": [None if math.isnan(x) else x for x in found.log_ratio],
        "k3_penalty": [None if math.isnan(x) else x for x in found.penalty],
        "forward_kl": found.forward_kl,
    }


def _grpo_rank(inputs, expected):
    ranks = inputs["ranks_0_best"]
    return {"penalty": rank_penalty(ranks), "advantage": grpo_rank(ranks)}


def _roirl(inputs, expected):
    answers, beta = inputs["answers"], inputs["beta"]
    plain = roirl(answers)
    return {
        "majority": plain.majority,
        "reward": plain.reward,
        "weight_identity": plain.weights,
        "weight_exp": roirl(answers, beta).weights,
        "weight_exp_normalised": roirl(answers, beta, normalize=True).weights,
    }


ADAPTERS = {
    "pav": _pav,
    "prime_rloo": _prime_rloo,
    "mrt_progress": _mrt_progress,
    "information_gain": _information_gain,
    "semantic_entropy": _semantic_entropy,
    "em_reward": _em_reward,
    "em_inf": _em_inf,
    "egae": _egae,
    "cov_token_selection": _cov_token_selection,
    "lp_reg": _lp_reg,
    "grpo_rank": _grpo_rank,
    "roirl": _roirl,
}
