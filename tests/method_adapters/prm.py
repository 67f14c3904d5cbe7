"""Worked cases of implicit process rewards, onto the public functions. Names only, no maths."""

from __future__ import annotations

import itertools
import math

from stepgauge import aggregate_steps
from stepgauge.prm import implicit_rewards, implicit_value


def _implicit_prm(inputs, expected):
    ends = inputs["step_ends_exclusive"]
    rewards = implicit_rewards(inputs["policy_logps"], inputs["ref_logps"], ends, beta=inputs["beta"])
    steps = rewards.step.tolist()
    return {
        "step_rewards": steps,
        "q_values": rewards.cumulative,
        "token_rewards": rewards.token,
        "min_step": aggregate_steps(steps, "min"),
        "total": rewards.token.sum(),
    }


def _log_probs(tree, tokens):
    """Of each token of a path through a tree of binary tokens: p1, then p2_given1 or p2_given0."""
    names = ["p1", *(f"p{k}_given{''.join(map(str, tokens[: k - 1]))}" for k in range(2, len(tokens) + 1))]
    return [math.log(tree[name] if token else 1 - tree[name]) for name, token in zip(names, tokens, strict=True)]


def _implicit_prm_prop31(inputs, expected):
    reference, policy, prefix = inputs["ref"], inputs["policy"], tuple(inputs["prefix"])
    beta = inputs["beta"]
    rewards, chances = [], []
    for rest in itertools.product((0, 1), repeat=2 - len(prefix)):
        path = (*prefix, *rest)
        ratios = implicit_rewards(_log_probs(policy, path), _log_probs(reference, path), [2], beta=beta)
        rewards.append(float(ratios.cumulative[-1]))
        chances.append(math.exp(sum(_log_probs(reference, path)[len(prefix) :])))
    found = implicit_value(rewards, chances, beta=beta)
    return {"q": found.value, "soft_bound": found.soft, "hard_bound": found.hard}


ADAPTERS = {"implicit_prm": _implicit_prm, "implicit_prm_prop31": _implicit_prm_prop31}
