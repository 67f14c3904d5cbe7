"""What a step shows on its face: worked examples, and properties that hold for any text."""

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepgauge.prm.step_features import FEATURES, step_features
from stepgauge.verifiers.step_arithmetic import MAX_STEP_CHARS

PROBLEM = "Ann has 3 bags of 4 nuts, and twice as many dates. She eats 20% of the nuts in a week. How many are left?"


def features(*steps, problem=PROBLEM):
    """Features of the last step, by name."""
    return dict(zip(FEATURES, step_features(problem, steps)[-1], strict=True))


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (["3 * 4 = 12 nuts."], {"true": 1, "false": 0, "multiplies": 1, "newly_used": 2, "idle": 1}),
        (["3 * 4 = 13 nuts."], {"true": 0, "false": 1, "false_so_far": 1}),
        (["3 * 5 = 15 nuts."], {"operands_from_nowhere": 1, "numbers_from_nowhere": 1}),
        (["She has 17 nuts."], {"no_claim": 1, "numbers_from_nowhere": 1, "operands_from_nowhere": 0}),
        (["3 * 4 = 12.", "12 * 0.2 = 2.4."], {"uses_last_result": 1, "fraction": 1, "idle": 1}),
        (["3 * 4 = 12.", "4 * 3 = 12."], {"result_again": 1, "newly_used": 0}),
        (["3 - 4 = -1"], {"subtracts": 1, "negative": 1}),
        (["3 - 4 = -1", "The answer is -1."], {"answer_computed": 1, "answer_latest": 1}),
        (["3 - 4 = -1", "The answer is 1."], {"answer_computed": 0, "answer_new": 0}),
        (["3 * 4 = 12.", "The answer is 12."], {"answer_latest": 1, "answer_computed": 1, "answer_unused": 1}),
        (["3 * 4 = 12.", "The answer is 99."], {"answer_latest": 0, "answer_computed": 0, "answer_new": 1}),
        (["The answer is 4."], {"answer_given": 1, "answer_new": 0, "answer_computations": 0}),
        (["The answer is not known."], {"marked": 1, "no_answer": 1}),
        (["The answer is 12.", "So it is.", "So it is."], {"after_answer": 1, "repeats": 1}),
        (["1. There are 3 bags."], {"numbers": 1}),
        (["7 * 12 = 84."], {"operands_from_nowhere": 1}),
        (["print(3 * 4)"], {"code": 1}),
    ],
)  # fmt: skip
def test_worked_examples(steps, expected):
    found = features(*steps)
    assert {name: found[name] for name in expected} == expected


def test_a_week_makes_seven_known_and_no_week_does_not():
    assert features("12 * 7 = 84", problem="12 nuts a week")["operands_from_nowhere"] == 0
    assert features("12 * 7 = 84", problem="12 nuts a bag")["operands_from_nowhere"] == 1


def test_words_name_no_feature_twice_and_none_is_dropped():
    assert len(set(FEATURES)) == len(FEATURES) == len(step_features("", ["x"])[0])


texts = st.lists(st.text(max_size=60) | st.from_regex(r"[0-9.,+*/=%() -]{0,40}", fullmatch=True), max_size=6)


@given(st.text(max_size=80), texts)
def test_any_text_gives_finite_bounded_numbers(problem, steps):
    for row in step_features(problem, steps):
        assert len(row) == len(FEATURES)
        assert all(math.isfinite(value) and -5 <= value <= 20 for value in row)


@given(texts, texts)
def test_later_steps_change_nothing(steps, later):
    assert step_features(PROBLEM, [*steps, *later])[: len(steps)] == step_features(PROBLEM, steps)


def test_a_step_too_long_has_no_features_and_the_rest_goes_on():
    rows = step_features(PROBLEM, ["3 * 4 = 12", "7" * (MAX_STEP_CHARS + 1), "The answer is 12."])
    assert rows[1] is None
    assert rows[0] is not None
    assert rows[2] is not None


HOSTILE = ["9" * 20_000, "1+" * 10_000, "1 = " * 5_000, "answer is " * 2_000, "1,000," * 3_333, "=" * 20_000]


@pytest.mark.parametrize("step", [*HOSTILE, "(" * 20_000, "\\boxed{" * 2_500], ids=lambda step: step[:8])
def test_hostile_steps_cost_little(step):
    start = time.process_time()
    step_features(step, [step] * 3)
    assert time.process_time() - start < 3
