"""Worked cases of step labels, onto the public functions. Names only, no maths."""

from __future__ import annotations

from stepgauge.prm.labelling import consensus_filter, omegaprm_priority
from stepgauge.prm.targets import (
    binomial_interval,
    er_label,
    er_label_of_rate,
    expected_er_label,
    hard_label,
    hard_miss_rate,
    mc_label,
    rate_of_er_label,
)
from stepgauge.verifiers.first_error import first_error_search


def _er_prm_label(inputs, expected):
    eta = inputs.get("eta")
    if "label" in inputs:
        return {"p": rate_of_er_label(inputs["label"], eta)}
    if "etas" in inputs:
        return [er_label_of_rate(inputs["p"], eta) for eta in inputs["etas"]]
    if "n" in inputs:
        true = er_label_of_rate(inputs["p"], eta)
        return {"true": true, "expected_plugin": expected_er_label(inputs["p"], inputs["n"], eta)}
    if "p" in inputs:
        return er_label_of_rate(inputs["p"], eta)
    return er_label(inputs["rewards"], eta, inputs.get("weights"))


def _mc_label(inputs, expected):
    if "p" in inputs:
        return {"prob_hard_label_0": hard_miss_rate(inputs["p"], inputs["n"])}
    correct, total = inputs["correct"], inputs["total"]
    if "thresholds" in inputs:
        return [[hard_label(c, total, threshold=t) for c in correct] for t in inputs["thresholds"]]
    label = mc_label(correct, total)
    methods = ("wilson", "clopper_pearson", "jeffreys")
    intervals = {f"{method}95": binomial_interval(correct, total, method=method) for method in methods}
    return {
        "soft": label.soft,
        "hard": label.hard,
        "lo": label.low,
        "hi": label.high,
        "beta_mean_uniform_prior": label.posterior_mean,
        **intervals,
    }


def _first_error_search(inputs, expected):
    ok = inputs["prefix_ok"]
    found = first_error_search(lambda i: (ok[i], 1), len(ok))
    linear = first_error_search(lambda i: (ok[i], 1), len(ok), how="linear")
    return {"binary": found.step, "linear": linear.step, "probes": [probe.step for probe in found.probes]}


def _omegaprm_priority(inputs, expected):
    found = omegaprm_priority(
        inputs["mc"],
        inputs["rollout_words"],
        inputs["node_visits"],
        inputs["total_visits"],
        alpha=inputs.get("alpha", 0.5),
        beta=inputs.get("beta", 0.9),
        length=inputs.get("L", 500),
        c_puct=inputs.get("c_puct", 0.125),
    )
    return {"Q": found.quality, "U": found.exploration, "score": found.score}


def _consensus_filter(inputs, expected):
    found = consensus_filter(inputs["mc_hard"], inputs["judge"])
    return {
        "mc_first": found.mc_first,
        "judge_first": found.judge_first,
        "keep": found.keep,
        "train_labels": found.labels,
    }


ADAPTERS = {
    "er_prm_label": _er_prm_label,
    "mc_label": _mc_label,
    "first_error_search": _first_error_search,
    "omegaprm_priority": _omegaprm_priority,
    "consensus_filter": _consensus_filter,
}
