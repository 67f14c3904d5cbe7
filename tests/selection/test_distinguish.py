from __future__ import annotations

import pytest

from stepgauge.selection import both_orders, distinguish, output_groups
from stepgauge.verifiers.sandbox import Limits, choose_sandbox
from tests.verifiers.bwrap import needs_bwrap


def test_members_of_the_preferred_group_get_a_point_on_each_input():
    groups = [{"3": [0, 2], "4": [1]}, {"5": [0], "6": [1, 2]}, {"7": [0, 1, 2]}]
    asked = []

    def judge(item, first, second):
        asked.append((item, first, second))
        return 1.0 if item == 0 else 0.0

    found = distinguish(groups, 3, judge)
    assert found.scores == (1, 1, 2)
    assert found.winner == 2
    assert asked == [(0, 0, 1), (1, 0, 1)]  # an input on which all agree costs nothing


def test_no_decision_means_no_winner():
    assert distinguish([{"a": [0], "b": [1]}], 2, lambda *_: 0.5).winner is None
    assert distinguish([], 2, lambda *_: 1.0).winner is None
    assert distinguish([{}], 2, lambda *_: 1.0).winner is None


def test_a_judge_that_likes_the_first_place_decides_nothing():
    assert both_orders(lambda item, first, second: 0.9)(0, 1, 2) == 0.5
    assert both_orders(lambda item, first, second: float(first == 1))(0, 1, 2) == 1.0
    assert both_orders(lambda item, first, second: float(first == 1))(0, 2, 1) == 0.0
    assert both_orders(lambda item, first, second: 0.5)(0, 1, 2) == 0.5


@pytest.mark.parametrize(
    ("groups", "judge", "message"),
    [
        ([{"a": [0], "b": [2]}], lambda *_: 1.0, "candidates 0..1"),
        ([{"a": [0], "b": [0]}], lambda *_: 1.0, "each once"),
        ([{"a": [0], "b": []}], lambda *_: 1.0, "empty group"),
        ([{"a": [0], "b": [1]}], lambda *_: 2.0, "got 2.0"),
    ],
)
def test_bad_input_is_named(groups, judge, message):
    with pytest.raises(ValueError, match=message):
        distinguish(groups, 2, judge)


PROGRAMS = [
    "def f(x): return abs(x)",
    "def f(x): return x",
    "def f(x): return x if x > 0 else -x",
    "def f(x): return None",
    "def f(x): return None if x else None",
    "def f(x): raise ValueError(x)",
    "import sys; sys.exit(0)",
    "def f(x):\n    while True: pass",
    "class Sly:\n    def __eq__(self, other): return True\ndef f(x): return Sly()",
    None,
]


@needs_bwrap
def test_programs_are_grouped_by_what_they_return():
    groups = output_groups(PROGRAMS, [("f", [2]), ("f", [-2])], choose_sandbox("bubblewrap"), limits=Limits(cpu_s=1))
    assert [list(by_output.values()) for by_output in groups] == [[[0, 1, 2], [3, 4]], [[0, 2], [1], [3, 4]]]


@needs_bwrap
def test_the_right_program_wins_against_a_majority_that_is_wrong():
    programs = ["def f(x): return x"] * 3 + ["def f(x): return abs(x)"]
    calls = [("f", [1]), ("f", [-1]), ("f", [0])]
    groups = output_groups(programs, calls, choose_sandbox("bubblewrap"))

    def judge(item, first, second):  # reads the problem: the absolute value is asked for
        value = {0: "x", 3: "abs"}
        return float(value[first] == "abs")

    assert distinguish(groups, 4, both_orders(judge)).winner == 3


@needs_bwrap
def test_arguments_must_be_plain_data():
    with pytest.raises(TypeError, match="plain data"):
        output_groups(["def f(x): return x"], [("f", [object()])], choose_sandbox("bubblewrap"))
