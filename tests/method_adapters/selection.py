"""Worked cases of routing, change points, pooled votes and search, onto the public functions. Names only, no maths."""

from __future__ import annotations

from stepgauge.selection import (
    LinearPosterior,
    beam_select,
    change_point,
    distinguish,
    drift,
    dvts_select,
    multi_temperature_vote,
    quantile_reward,
    survival,
)


def _bayes_router(inputs, expected):
    if "history" in inputs:
        return quantile_reward(inputs["rewards"], inputs["history"])
    posterior = LinearPosterior.prior(inputs["mu0"], lambda0=inputs["lambda0"], sigma2=inputs["sigma2"])
    for context, reward in zip(inputs["contexts"], inputs["rewards"], strict=True):
        posterior = posterior.update(context, reward)
    mean, std = posterior.score(inputs["query"])
    return {
        "mu": posterior.mean,
        "cov": posterior.covariance,
        "mean_score": mean,
        "std_score": std,
        "thompson_score_cholesky": posterior.sample_score(inputs["query"], inputs["z"]),
    }


def _change_point(inputs, expected):
    if "hazard" in inputs:
        stays = survival(inputs["hazard"])
        return dict.fromkeys(expected, stays) if isinstance(expected, dict) else stays
    if "outcome_dists" in inputs:
        return {how: drift(inputs["outcome_dists"], how) for how in ("l1", "l2")}
    names = ("noise_sd", "prior_mean", "prior_strength", "p_change")
    found = change_point(inputs["y"], **{name: inputs[name] for name in names})
    if found is None:
        return dict.fromkeys(expected) if isinstance(expected, dict) else None
    return {name: getattr(found, name) for name in ("p_none", "p_tau", "map_tau", "log_bf")}


def _multi_temperature_vote(inputs, expected):
    vote = multi_temperature_vote(inputs["answers_by_temperature"])
    return {
        "pooled_winner": vote.pooled.winner,
        "pooled": vote.pooled.votes,
        "per_temp": vote.per_temperature,
        "all_temps_agree": vote.agree,
    }


def _search_select(inputs, expected):
    scores = inputs["child_scores"]
    return {"beam": beam_select(scores, inputs["keep"]), "dvts": dvts_select(scores)}


def _sstar_select(inputs, expected):
    given = inputs["judge"]

    def judge(item, first, second):
        value = given.get(f"{item}:{first}-{second}")
        return value if value is not None else 1 - given[f"{item}:{second}-{first}"]

    found = distinguish(inputs["output_groups_per_input"], inputs["n_samples"], judge)
    return {"scores": found.scores, "winner": found.winner}


ADAPTERS = {
    "bayes_router": _bayes_router,
    "change_point": _change_point,
    "multi_temperature_vote": _multi_temperature_vote,
    "search_select": _search_select,
    "sstar_select": _sstar_select,
}
