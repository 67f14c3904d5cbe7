from __future__ import annotations

import pytest

from stepgauge import StepScores, load
from stepgauge.selection import consensus


def _value(*values):
    return StepScores(values, "value")


def test_the_majority_names_the_step():
    found = consensus({"a": _value(0.9, 0.1), "b": _value(0.8, 0.2), "c": _value(0.9, 0.9)})
    assert (found.first_error, found.votes) == (1, {-1: ("c",), 1: ("a", "b")})
    assert found.agreement == pytest.approx(2 / 3)
    assert found.explanation == "step 1 is the first wrong one: a, b; no step is wrong: c"


def test_a_tie_is_no_consensus():
    found = consensus({"a": _value(0.9, 0.1), "b": _value(0.1, 0.2)})
    assert (found.first_error, found.agreement) == (None, 0.0)


def test_each_kind_is_read_by_its_own_threshold():
    results = {"prm": _value(0.4, 0.9), "implicit": StepScores((0.4, 0.9), "log_ratio")}
    assert consensus(results).votes == {-1: ("implicit",), 0: ("prm",)}
    assert consensus(results, {"implicit": 0.5}).first_error == 0


def test_who_cannot_judge_is_silent_and_says_why():
    results = {
        "logprob": StepScores((-1.0,), "confidence"),
        "math": StepScores.abstain(1, "correctness", "no_gold"),
        "prm": StepScores.error(1, "value", "transport", "no route"),
    }
    found = consensus(results)
    assert found.first_error is None
    assert found.silent == {"logprob": "no threshold", "math": "no_gold", "prm": "transport"}
    assert found.explanation.startswith("no scorer judged; silent: logprob (no threshold)")
    assert consensus(results, {"logprob": -0.5}).first_error == 0


def test_real_scorers():
    steps, gold = ["2 * 3 = 6", "6 + 1 = 8", "The answer is 8."], "7"
    results = {name: load(name).score(steps, gold=gold) for name in ("arithmetic", "math")}
    assert consensus(results).votes == {1: ("arithmetic",), 2: ("math",)}


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="at least one scorer"):
        consensus({})
    with pytest.raises(ValueError, match="lengths {'a': 1, 'b': 2}"):
        consensus({"a": _value(0.1), "b": _value(0.1, 0.2)})
