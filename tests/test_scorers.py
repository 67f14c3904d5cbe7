"""The interface as a test suite: one table of scorers, the same checks for each."""

from __future__ import annotations

import pytest

from stepgauge import Rollout, Scorer, StepScores, load
from stepgauge.generation import CallableGenerator
from stepgauge.prm import MonteCarloScorer
from stepgauge.scoring import score_each
from stepgauge.testing import SCORER_CHECKS, check_scorer, sample_rollouts
from stepgauge.verifiers.critic import CriticScorer
from tests.lm.tiny import tiny_llama
from tests.prm.fake_server import running_server
from tests.prm.labelling.worlds import complete
from tests.prm.tiny import tiny_prm
from tests.verifiers.critics import numbers_critic

SCORERS = {
    "arithmetic": lambda: load("arithmetic"),
    "code": lambda: load("code"),
    "critic": lambda: CriticScorer(numbers_critic, critiques=2),
    "dag": lambda: load("dag"),
    "embedded": lambda: load("embedded"),
    "math": lambda: load("math"),
    "random": lambda: load("random"),
    "logprob": lambda: load(f"logprob:{tiny_llama()}", device="cpu"),
    "prm, label tokens": lambda: load(tiny_prm("er_prm")[0], device="cpu"),
    "prm, a head of its own": lambda: load(f"prm:{tiny_prm('qwen')[0]}", device="cpu"),
    "prm, turns": lambda: load(tiny_prm("rlhflow")[0], device="cpu"),
    "prm, a pass a step": lambda: load(tiny_prm("universal")[0], device="cpu"),
    "implicit": lambda: load(f"implicit:{tiny_prm('math_psa')[0]}", device="cpu"),
    "monte_carlo": lambda: MonteCarloScorer(CallableGenerator(complete), completions=3),
    "http": lambda: load(running_server()),
    "word_problems": lambda: load("word_problems"),
}


SLOW = {("prm, a head of its own", "pickle_and_spawn"), ("prm, turns", "pickle_and_spawn")}
SLOW |= {("prm, a pass a step", "pickle_and_spawn"), ("implicit", "pickle_and_spawn")}  # each imports torch anew
CASES = [
    pytest.param(name, check, marks=[pytest.mark.slow] if (name, check) in SLOW else [], id=f"{name}-{check}")
    for name in SCORERS
    for check in SCORER_CHECKS
]


@pytest.mark.parametrize(("name", "check"), CASES)
def test_scorer(name, check):
    SCORER_CHECKS[check](SCORERS[name](), sample_rollouts())


class Broken(Scorer):
    """A scorer with one fault, to prove that the suite finds it."""

    name = "broken"
    kind = "value"

    def __init__(self, fault):
        self.fault = fault

    def score_batch(self, rollouts, *, deadline_s=None, progress=None):
        if self.fault == "raises on one" and any("" in r.steps for r in rollouts):
            raise RuntimeError("one bad rollout")
        if self.fault == "no progress":
            progress = None
        results = score_each(self._judge, rollouts, kind="value", deadline_s=deadline_s, progress=progress)
        if self.fault == "batch effect":
            return [StepScores((0.1 * len(rollouts),) * len(r.values), "value") if r.values else r for r in results]
        if self.fault == "sorts":
            return sorted(results, key=lambda scores: -len(scores.values))
        if self.fault == "silent zero" and deadline_s == 0:
            return [StepScores((0.0,) * len(r.values), "value") if r.values else r for r in results]
        return results

    def _judge(self, rollout):
        steps = rollout.steps
        if self.fault == "re-splits":
            steps = [line for step in steps for line in step.split("\n")]
        if not steps:
            if self.fault == "empty scores one":
                return StepScores((1.0,), "value")
            return StepScores.abstain(0, "value", "no_claim")
        return StepScores(tuple(len(step) / 10_000 for step in steps), "value")


FAULTS = ["raises on one", "batch effect", "sorts", "silent zero", "re-splits", "empty scores one", "no progress"]


@pytest.mark.parametrize("fault", FAULTS)
def test_the_suite_finds(fault):
    with pytest.raises((AssertionError, RuntimeError)):
        check_scorer(Broken(fault))


def test_the_suite_passes_a_sound_third_party_scorer():
    for name, check in SCORER_CHECKS.items():
        if name != "pickle_and_spawn":  # a class of a test file cannot be imported by a spawned process
            check(Broken(None), [*sample_rollouts(), Rollout("p", ("a", "b"))])
