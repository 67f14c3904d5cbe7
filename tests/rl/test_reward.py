"""Rewards as a trainer calls them: abstentions, deadlines, hanging scorers, TRL's arguments."""

from __future__ import annotations

import asyncio
import pickle
import time

import pytest

from stepgauge import Scorer, StepScores
from stepgauge.rl import RolloutReward
from stepgauge.rl.trl import AsyncStepReward, StepReward
from stepgauge.scoring import score_each


class Hanging(Scorer):
    """Takes five seconds where the problem says so, and fails or abstains where it says that."""

    name = "hanging"
    kind = "correctness"

    def score_batch(self, rollouts, *, deadline_s=None, progress=None):
        return score_each(self._judge, rollouts, kind="correctness", progress=progress)

    def _judge(self, rollout):
        if rollout.problem == "hang":
            time.sleep(5)
        if rollout.problem == "fail":
            raise RuntimeError("broken")
        if rollout.problem == "abstain":
            return StepScores.abstain(len(rollout.steps), "correctness", "no_gold")
        return StepScores((1.0,) * len(rollout.steps), "correctness")


def scored(reward, problems):
    return reward.score([reward.rollout(problem, "One. Two.") for problem in problems])


def test_hanging_items_cost_themselves_only():
    reward = RolloutReward(Hanging(), deadline_s=1.0, workers=2)
    problems = ["hang", "a", "b", "hang", "c", "hang", *"defghij"]
    started = time.monotonic()
    found = scored(reward, problems)
    assert time.monotonic() - started < 3
    assert [one.value for one in found] == [None if problem == "hang" else 1.0 for problem in problems]
    assert {one.reason for one in found} == {None, "timeout"}


def test_failure_and_abstention_are_none_with_a_reason():
    found = scored(RolloutReward(Hanging()), ["fail", "abstain", "a"])
    assert [one.value for one in found] == [None, None, 1.0]
    assert [one.reason for one in found] == ["internal", "no_gold", None]
    assert found[0].flat() == {"score": 0.0, "outcome": 0.0, "process": 0.0, "abstained": 1.0}


def test_a_scorer_that_breaks_its_contract():
    class Broken(Hanging):
        def score_batch(self, rollouts, *, deadline_s=None, progress=None):
            raise RuntimeError("a bug")

    found = scored(RolloutReward(Broken()), ["a", "b"])
    assert [one.value for one in found] == [None, None]
    assert found[0].reason == "internal: RuntimeError: a bug"


def test_process_is_added_where_it_judges():
    reward = RolloutReward("math", "arithmetic", alpha=0.5)
    texts = ["2 * 7 = 14. The answer is 14.", "2 * 7 = 15. The answer is 14.", "The answer is 14.", "2 * 7 = 14."]
    found = reward.score([reward.rollout("2*7?", text, "14") for text in texts])
    assert [one.value for one in found] == [1.5, 1.0, 1.0, 1.5]
    assert [one.process for one in found] == [1.0, 0.0, None, 1.0]
    alone = RolloutReward(None, "arithmetic")
    assert [one.value for one in alone.score([alone.rollout("", text) for text in texts])] == [1.0, 0.0, None, 1.0]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"outcome": None}, "neither"),
        ({"deadline_s": 0}, "deadline_s"),
        ({"batch_size": 0}, "batch_size"),
        ({"workers": -1}, "workers"),
    ],
)
def test_bad_parameters(wrong, says):
    with pytest.raises(ValueError, match=says):
        RolloutReward(**wrong)


CHAT = [[{"role": "system", "content": "s"}, {"role": "user", "content": "2*7?"}]] * 3
REPLIES = [[{"role": "assistant", "content": text}] for text in ("The answer is 14.", "It is \\boxed{15}.", "Hm (")]


def test_trl_calls():
    """The arguments of trl 1.16.0: columns as lists, more than asked for, and the two log functions."""
    reward = StepReward(RolloutReward("math", "arithmetic"), gold_column="answer")
    extra, metrics = {}, {}
    found = reward(
        prompts=CHAT,
        completions=REPLIES,
        completion_ids=[[1], [2], [3]],
        answer=["14", "14", "("],
        trainer_state=object(),
        log_extra=extra.__setitem__,
        log_metric=metrics.__setitem__,
    )
    assert found == [1.0, 0.0, None]
    assert metrics == {"step_reward/abstained": pytest.approx(1 / 3)}
    assert [bool(reason) for reason in extra["step_reward/reason"]] == [False, False, True]
    assert len(extra["step_reward/steps"]) == 3
    plain = reward(prompts=["2*7?"], completions=["The answer is 14."])
    assert plain == [None]  # no column of that name: no gold, no reward


def test_trl_async_and_pickle():
    reward = pickle.loads(pickle.dumps(AsyncStepReward(RolloutReward("math"), name="outcome")))
    assert reward.__name__ == "outcome"
    assert asyncio.iscoroutinefunction(reward.__call__)
    found = asyncio.run(
        reward(prompts=["p"] * 2, completions=["The answer is 2.", "The answer is 3."], solution=["2"] * 2)
    )
    assert found == [1.0, 0.0]


def test_columns_that_do_not_pair_up():
    with pytest.raises(ValueError, match="one prompt and one solution"):
        StepReward(RolloutReward("math"))(prompts=["p"], completions=["a", "b"], solution=["1", "2"])
