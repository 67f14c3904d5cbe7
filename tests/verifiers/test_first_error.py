"""The search for the first error."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepgauge.verifiers.first_error import first_error_search
from tests.casefiles import method_cases


@pytest.mark.parametrize("case", method_cases("first_error_search"))
def test_method_cases(case):
    ok, expected = case["inputs"]["prefix_ok"], case["expected"]
    found = first_error_search(lambda i: (ok[i], 1), len(ok))
    assert found.step == expected["binary"]
    assert [probe.step for probe in found.probes] == expected["probes"]
    assert first_error_search(lambda i: (ok[i], 1), len(ok), how="linear").step == expected["linear"]


def test_no_steps_no_error():
    found = first_error_search(lambda i: pytest.fail("nothing to ask"), 0, recheck=3)
    assert (found.step, found.probes, found.contradictions) == (-1, (), ())


@given(st.integers(0, 70), st.integers(0, 70), st.integers(1, 5))
def test_where_errors_stay_errors_it_finds_the_first_with_few_probes(n_steps, first, total):
    asked = []

    def oracle(step):
        asked.append(step)
        return (total if step < first else 0), total

    found = first_error_search(oracle, n_steps, recheck=2)
    assert found.step == (first if first < n_steps else -1)
    assert found.contradictions == ()
    assert len(asked) == len(set(asked))
    assert len(first_error_search(oracle, n_steps).probes) <= math.ceil(math.log2(n_steps + 1))
    assert first_error_search(oracle, n_steps, how="linear").step == found.step


@given(st.lists(st.booleans(), max_size=30))
def test_a_full_recheck_shows_every_contradiction(ok):
    found = first_error_search(lambda i: (int(ok[i]), 1), len(ok), recheck=len(ok))
    cut = len(ok) if found.step == -1 else found.step
    wrong = {i for i, fine in enumerate(ok) if fine != (i < cut)}
    assert {probe.step for probe in found.contradictions} == wrong
    linear = ok.index(False) if False in ok else -1
    assert found.contradictions or found.step == linear


def test_neighbours_show_a_step_that_was_repaired():
    ok = [1, 0, 1, 1, 1, 0]
    assert first_error_search(lambda i: (ok[i], 1), 6).contradictions == ()
    found = first_error_search(lambda i: (ok[i], 4), 6, recheck=4)
    assert [(probe.step, probe.correct, probe.total) for probe in found.contradictions] == [(1, 0, 4)]


@pytest.mark.parametrize("answer", [(0, 0), (2, 1), (-1, 3)])
def test_an_oracle_that_says_nothing_is_refused(answer):
    with pytest.raises(ValueError, match="0 <= correct <= total"):
        first_error_search(lambda i: answer, 3)


def test_bad_arguments():
    with pytest.raises(ValueError, match="n_steps"):
        first_error_search(lambda i: (1, 1), -1)
    with pytest.raises(ValueError, match="how"):
        first_error_search(lambda i: (1, 1), 3, how="ternary")
