"""Worked cases of labels, losses and their measure, onto the public functions. Names only, no maths."""

from __future__ import annotations

import torch

from stepgauge.evaluate.processbench import processbench_f1
from stepgauge.prm import targets
from stepgauge.prm.labelling import consensus_filter, omegaprm_priority, rstar_q
from stepgauge.prm.training import critic_rm_loss, implicit_ce_loss, implicit_dpo_loss, ppm_pairwise_loss
from stepgauge.verifiers.first_error import first_error_search


def _er_prm_label(inputs, expected):
    if "label" in inputs:
        return {"p": targets.success_rate_of(inputs["label"], inputs["eta"])}
    if "n" in inputs:
        true = targets.entropy_regularized_binary(inputs["p"], inputs["eta"])
        return {"true": true, "expected_plugin": targets.expected_plugin(inputs["p"], inputs["n"], inputs["eta"])}
    if "etas" in inputs:
        return [targets.entropy_regularized_binary(inputs["p"], eta) for eta in inputs["etas"]]
    return targets.entropy_regularized(inputs["rewards"], inputs["eta"], inputs.get("weights"))


def _mc_label(inputs, expected):
    if "p" in inputs:
        return {"prob_hard_label_0": targets.missed_step_probability(inputs["p"], inputs["n"])}
    c, n = inputs["correct"], inputs["total"]
    if "thresholds" in inputs:
        return [[targets.hard_label(one, n, threshold) for one in c] for threshold in inputs["thresholds"]]
    return {
        "soft": targets.soft_label(c, n),
        "hard": targets.hard_label(c, n),
        "wilson95": targets.wilson_interval(c, n),
        "clopper_pearson95": targets.clopper_pearson_interval(c, n),
        "jeffreys95": targets.jeffreys_interval(c, n),
        "beta_mean_uniform_prior": targets.beta_mean(c, n),
    }


def _first_error_search(inputs, expected):
    ok = inputs["prefix_ok"]
    found = first_error_search(lambda i: (ok[i], 1), len(ok))
    linear = first_error_search(lambda i: (ok[i], 1), len(ok), how="linear")
    return {"binary": found.step, "linear": linear.step, "probes": [probe.step for probe in found.probes]}


def _omegaprm_priority(inputs, expected):
    found = omegaprm_priority(**inputs)
    return {"Q": found.q, "U": found.u, "score": found.score}


def _consensus_filter(inputs, expected):
    found = consensus_filter(inputs["mc_hard"], inputs["judge"])
    if found is None:
        return None
    return {
        "mc_first": found.mc_first,
        "judge_first": found.judge_first,
        "keep": found.keep,
        "train_labels": found.train_labels,
    }


def _implicit_prm_ce_loss(inputs, expected):
    ratio = torch.tensor([inputs["sum_logratio"]], dtype=torch.float64, requires_grad=True)
    loss = implicit_ce_loss(ratio, torch.tensor([inputs["label"]]), beta=inputs["beta"])
    loss.sum().backward()
    return {"loss": loss.item(), "grad_wrt_sum_logratio": ratio.grad.item()}


def _implicit_prm_dpo_loss(inputs, expected):
    chosen = torch.tensor([inputs["chosen_sum_logratio"]], dtype=torch.float64, requires_grad=True)
    rejected = torch.tensor([inputs["rejected_sum_logratio"]], dtype=torch.float64)
    loss = implicit_dpo_loss(chosen, rejected, beta=inputs["beta"])
    loss.sum().backward()
    return {"loss": loss.item(), "grad_chosen": chosen.grad.item(), "accuracy": int(chosen.item() > rejected.item())}


def _ppm_pairwise(inputs, expected):
    positive, negative = (torch.tensor(inputs[name], dtype=torch.float64) for name in ("pos", "neg"))
    loss = ppm_pairwise_loss(positive, negative)
    return {"loss": None if loss is None else loss.item(), "n_pairs": len(positive) * len(negative)}


def _rstar_q(inputs, expected):
    found = rstar_q(inputs["backups"], inputs["parent_visits"], c=inputs["c"])
    if found is None:
        return {"q": 0.0, "visits": 0, "uct": None, "repo_puct": 0.0}
    return {"q": found.q, "visits": len(inputs["backups"]), "uct": found.score, "repo_puct": found.score}


def _critic_rm_loss(inputs, expected):
    names = ("reward_chosen", "reward_rejected", "critique_nlls")
    tensors = [torch.tensor(inputs[name], dtype=torch.float64) for name in names]
    loss = critic_rm_loss(*tensors, weight=inputs["lam"])
    return {"l_r": loss.reward, "l_c": loss.critique, "total": loss.total}


def _processbench_f1(inputs, expected):
    found = processbench_f1(inputs["step_scores"], inputs["labels"], threshold=inputs["threshold"])
    return {
        "predictions": found.predictions,
        "acc_error": found.acc_error,
        "acc_correct": found.acc_correct,
        "f1": found.f1,
    }


ADAPTERS = {
    "consensus_filter": _consensus_filter,
    "critic_rm_loss": _critic_rm_loss,
    "er_prm_label": _er_prm_label,
    "first_error_search": _first_error_search,
    "implicit_prm_ce_loss": _implicit_prm_ce_loss,
    "implicit_prm_dpo_loss": _implicit_prm_dpo_loss,
    "mc_label": _mc_label,
    "omegaprm_priority": _omegaprm_priority,
    "ppm_pairwise": _ppm_pairwise,
    "processbench_f1": _processbench_f1,
    "rstar_q": _rstar_q,
}
