from __future__ import annotations

import json

import pytest

from stepgauge import Rollout, Scorer, StepScores, load
from stepgauge.data import bundled
from stepgauge.evaluate.attacks import ATTACKS
from stepgauge.evaluate.robustness import robustness
from stepgauge.scoring import score_each
from stepgauge.verifiers import verify_response

RIGHT = ("First, 2 * 3 = 6.", "So 6 + 1 = 7.", "The answer is 7.")
WRONG = ("First, 2 * 3 = 5.", "So 5 + 1 = 6.", "The answer is 6.")
PAIR = [Rollout("2 * 3 + 1?", RIGHT, gold="7"), Rollout("2 * 3 + 1?", WRONG, gold="7")]


class Toy(Scorer):
    """A scorer whose one rule is given: rollout -> value in [0, 1], or None."""

    name = "toy"
    kind = "value"
    fingerprint = "toy"

    def __init__(self, rule):
        self.rule = rule

    def score_batch(self, rollouts, *, deadline_s=None, progress=None):
        return score_each(self._judge, rollouts, kind="value", deadline_s=deadline_s, progress=progress)

    def _judge(self, rollout):
        value = self.rule(rollout)
        if value is None or not rollout.steps:
            return StepScores.abstain(len(rollout.steps), "value", "no_claim")
        return StepScores((value,) * len(rollout.steps), "value")


def _report(rule):
    return robustness(Toy(rule), PAIR, [True, False])


def test_a_scorer_that_knows_withstands_everything():
    report = _report(lambda rollout: float(rollout.steps == RIGHT))
    assert (report.right, report.wrong) == (1, 1)
    assert report.worst("empty", "accepted_after") == 0
    assert report.worst("padding", "inflation_rate") == 0
    assert {result.caught_rate for result in report.results if result.family == "damage"} == {1.0}
    assert report.worst("padding", "correctness_drop") == 0


def test_a_scorer_of_length_is_found_out_by_padding():
    report = _report(lambda rollout: min(len(rollout.steps) / 10, 1.0))
    row = next(result for result in report.results if result.attack == "repeat steps")
    assert (row.inflation_rate, row.accepted_before, row.accepted_after) == (1.0, 0.0, 1.0)
    assert row.mean_change == pytest.approx(0.4)
    assert row.correctness_drop == pytest.approx(0.5)  # a tie before, behind afterwards


def test_a_scorer_of_a_master_key_is_found_out_by_empty_text():
    report = _report(lambda rollout: float(":" in rollout.steps[0] or rollout.steps == RIGHT))
    accepted = {result.attack for result in report.results if result.accepted_after == 1 and result.family == "empty"}
    assert accepted == {"colon", "thought", "order"}
    assert report.worst("empty", "correctness_drop") == 0.5


def test_a_constant_scorer_catches_nothing():
    report = _report(lambda rollout: 0.7)
    assert report.worst("damage", "caught_rate") == 0
    assert report.worst("empty", "accepted_after") == 1
    assert report.worst("padding", "inflation_rate") == 0


def test_being_scored_at_all_counts_as_a_rise():
    report = _report(lambda rollout: 0.2 if "1 + 1" in "".join(rollout.steps) else None)
    row = next(result for result in report.results if result.attack == "true sums")
    assert (row.inflation_rate, row.mean_change) == (1.0, None)


def test_failures_of_the_scorer_are_counted_and_left_out():
    def rule(rollout):
        if len(rollout.steps) > 3:
            raise RuntimeError("out of memory")
        return 0.5

    report = _report(rule)
    row = next(result for result in report.results if result.attack == "filler")
    assert (row.applied, row.errors, row.inflation_rate) == (0, 1, None)


def test_who_is_attacked():
    by_name = {result.attack: result.applied for result in _report(lambda rollout: 0.5).results}
    assert by_name["colon"] == by_name["filler"] == by_name["shuffle"] == 1
    assert by_name["merge steps"] == 2
    unknown = robustness(Toy(lambda rollout: 0.5), PAIR)
    assert {result.applied for result in unknown.results if result.family != "rewording"} == {2}
    assert all(result.correctness_drop is None for result in unknown.results)


def test_reports_repeat_and_are_plain_data():
    report = _report(lambda rollout: len(rollout.steps) / 99)
    assert report == _report(lambda rollout: len(rollout.steps) / 99)
    assert len(json.loads(json.dumps(report.to_json(), allow_nan=False))["results"]) == len(ATTACKS)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="at least one rollout"):
        robustness(Toy(lambda rollout: 0.5), [])
    with pytest.raises(ValueError, match="2 rollouts, 1 labels"):
        robustness(Toy(lambda rollout: 0.5), PAIR, [True])
    with pytest.raises(ValueError, match="got 'speed'"):
        _report(lambda rollout: 0.5).worst("empty", "speed")


@pytest.fixture(scope="module")
def real():
    rollouts = [*bundled("dev_0.5b")[::16], *bundled("dev_1.5b")[::6]]
    return rollouts, [verify_response(r.gold, r.response).equal for r in rollouts]


def _rows(name, real):
    return {result.attack: result for result in robustness(load(name), *real).results}


@pytest.mark.parametrize("name", ["arithmetic", "embedded"])
def test_what_the_arithmetic_scorer_withstands(name, real):
    rows = _rows(name, real)
    assert all(row.errors == 0 for row in rows.values())
    for row in rows.values():
        if row.family == "empty" and row.attack != "true sum":
            assert row.accepted_after == 0, row
        if row.family == "padding" and row.attack not in ("true sums", "answer only"):
            assert row.inflation_rate <= 0.05, row
        if row.family == "rewording":
            assert abs(row.mean_change) <= 0.01, row
    assert rows["corrupt number"].caught_rate >= 0.6
    # what it cannot know, as docs/robustness.md says: it checks sums, not whether they belong to the problem
    assert rows["true sum"].accepted_after == 1
    assert rows["shuffle"].caught_rate == rows["wrong answer"].caught_rate == 0


def test_what_the_math_scorer_withstands(real):
    rows = _rows("math", real)
    assert all(row.errors == 0 for row in rows.values())
    for row in rows.values():
        if row.family in ("empty", "padding"):
            assert row.accepted_after <= (0.05 if row.attack == "problem" else 0), row
        if row.family == "rewording":
            assert row.mean_change == 0, row
    assert rows["wrong answer"].caught_rate == 1
    assert rows["truncate"].caught_rate >= 0.9
