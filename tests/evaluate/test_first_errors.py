"""ProcessBench with protocols: what each figure means, and what must not change it."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest

from stepgauge import Rollout, StepScores, load
from stepgauge.data.formats import Labelled, first_error_labels
from stepgauge.evaluate.first_errors import evaluate_processbench
from stepgauge.evaluate.processbench import processbench_f1
from stepgauge.evaluate.published import PROCESSBENCH


def solution(values, label, *, outcome=None, kind="correctness", status="ok"):
    steps = tuple(f"s{i}" for i in range(len(values)))
    item = Labelled(Rollout("p", steps), first_error_labels(len(steps), label), outcome)
    if all(value is None for value in values):
        status = "abstain" if status == "ok" else status
        return item, StepScores(values, kind, status, ("no_claim",) * len(steps))
    reasons = tuple(None if value is not None else "no_claim" for value in values)
    return item, StepScores(tuple(values), kind, "ok", reasons)


GSM8K = [solution((0.9, 0.45), 1), solution((0.9, 0.6), -1, outcome=True), solution((0.6, 0.7), -1)]
MATH = [
    solution((0.9, 0.4, 0.8), 1, outcome=True),
    solution((0.9, 0.8, 0.7), 2, outcome=True),
    solution((0.9, 0.9), -1, outcome=True),
    solution((None, None), -1),
]


def test_every_protocol_by_hand():
    report = evaluate_processbench({"gsm8k": GSM8K, "math": MATH})
    half = report.score("0.5", "math")
    assert (half.acc_error, half.acc_correct, half.f1) == (0.5, 1.0, pytest.approx(2 / 3))
    assert half.predictions == (1, -1, -1, -1)
    assert (half.found, half.located) == (0.5, 0.5)
    assert half.f1_scored_only_right == pytest.approx(0.5)  # the abstention is no hit
    tuned = report.score("tuned-on-gsm8k", "math")
    assert tuned.threshold == pytest.approx(0.525)  # the middle of 0.45 and 0.6
    assert not tuned.in_sample
    assert report.score("tuned-on-gsm8k", "gsm8k").in_sample
    oracle = report.score("oracle", "math")
    assert oracle.f1 == 1.0
    assert oracle.in_sample
    assert 0.7 < oracle.threshold <= 0.9 or oracle.predictions == (1, 2, -1, -1)
    assert report.mean_f1("0.5") == pytest.approx((1.0 + 2 / 3) / 2)


def test_facts():
    facts = {f.split: f for f in evaluate_processbench({"gsm8k": GSM8K, "math": MATH}).splits}
    math = facts["math"]
    assert (math.solutions, math.wrong, math.right_answer_wrong_process) == (4, 2, 2)
    assert (math.abstained, math.failed, math.steps, math.scored_steps) == (1, 0, 10, 8)
    assert math.last_step_lowest == pytest.approx(1 / 3)  # of equal scores the earlier is the lowest
    assert facts["gsm8k"].last_step_lowest == pytest.approx(2 / 3)


def test_calibration_uses_steps_with_a_known_label_only():
    report = evaluate_processbench({"math": MATH[:2]}, ["0.5"])
    assert report.calibration.steps == 5  # the step behind the first error has no label


def test_kinds_without_a_natural_threshold_say_so():
    scored = [solution((-0.1, -2.0), 1, kind="confidence"), solution((-0.1, -0.2), -1, kind="confidence")]
    report = evaluate_processbench({"gsm8k": scored})
    assert report.missing == {"0.5": "scores of kind 'confidence' have no natural threshold"}
    assert report.score("0.5", "gsm8k") is None
    assert report.mean_f1("0.5") is None
    assert report.score("oracle", "gsm8k").f1 == 1.0
    assert report.calibration is None


def test_log_ratios_are_cut_at_zero():
    scored = [solution((0.3, -0.1), 1, kind="log_ratio"), solution((0.2, 0.1), -1, kind="log_ratio")]
    report = evaluate_processbench({"math": scored})
    assert report.score("0.5", "math").threshold == 0.0
    assert report.score("0.5", "math").f1 == 1.0
    assert report.missing == {"tuned-on-gsm8k": "there is no split 'gsm8k' to tune on"}


def test_one_sided_splits_have_no_f1():
    report = evaluate_processbench({"gsm8k": GSM8K[1:], "math": MATH})
    assert report.score("0.5", "gsm8k").f1 is None
    assert report.mean_f1("0.5") is None
    assert "gsm8k" in report.missing["tuned-on-gsm8k"]
    assert report.score("oracle", "math") is not None


def test_the_interval_is_that_of_resampled_solutions():
    rng = random.Random(1)
    scored = [solution((rng.random(), rng.random()), rng.choice([-1, 0, 1])) for _ in range(200)]
    cell = evaluate_processbench({"gsm8k": scored}, ["0.5"]).score("0.5", "gsm8k")
    groups = [[p for p in scored if (p[0].first_error() < 0) == right] for right in (False, True)]
    resampled = []
    for _ in range(800):
        drawn = [rng.choice(group) for group in groups for _ in group]
        values, labels = [s.values for _, s in drawn], [item.first_error() for item, _ in drawn]
        resampled.append(processbench_f1(values, labels, threshold=0.5).f1)
    assert (cell.low, cell.high) == pytest.approx(tuple(np.percentile(resampled, [2.5, 97.5])), abs=0.02)
    assert cell.low <= cell.f1 <= cell.high


def test_bad_input():
    with pytest.raises(ValueError, match="at least one solution"):
        evaluate_processbench({})
    with pytest.raises(ValueError, match="at least one solution"):
        evaluate_processbench({"gsm8k": []})
    with pytest.raises(ValueError, match="protocols are"):
        evaluate_processbench({"gsm8k": GSM8K}, ["best"])
    with pytest.raises(ValueError, match="one kind"):
        evaluate_processbench({"gsm8k": GSM8K, "math": [solution((1.0,), -1, kind="value")]})


def test_published_means_are_means():
    for row in PROCESSBENCH:
        assert abs(sum(row.f1) / 4 - row.mean) <= 0.06, row


def test_3400_solutions_take_seconds():
    rng = random.Random(0)
    scored = [solution([rng.random() for _ in range(8)], rng.randrange(-1, 8)) for _ in range(3400)]
    started = time.process_time()
    evaluate_processbench({"gsm8k": scored[:400], "math": scored[400:]})
    assert time.process_time() - started < 5


def test_random_scores_continue_with_the_solution():
    scorer = load("random")
    short, long = scorer.score(["a", "b"], problem="p").values, scorer.score(["a", "b", "c"], problem="p").values
    assert long[:2] == short
    assert len(set(long)) == 3
    assert scorer.score(["b", "a"], problem="p").values != short
    values = [v for i in range(500) for v in scorer.score(["a", "b"], problem=str(i)).values]
    assert abs(sum(values) / len(values) - 0.5) < 0.05
    assert all(0 <= v < 1 for v in values)
