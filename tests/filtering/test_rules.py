"""The language of rules: what it says, what it refuses, and that unknown is never true."""

from __future__ import annotations

import contextlib
import pickle
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepgauge.filtering import Rule, RuleError
from stepgauge.scoring import Rollout, StepScores

RIGHT = StepScores((None, 1.0), "correctness", reasons=("no_claim", None), summary={"verdict": "equal", "rung": "text"})
WRONG = StepScores((0.9, 0.2), "correctness")
SILENT = StepScores.abstain(2, "correctness", "no_gold")
BROKEN = StepScores.error(2, "correctness", "timeout", "slow")
ROW = Rollout("How many?", ("a", "b"), gold="2", id="r", meta={"level": 3, "tags": ["x", "y"], "first_error": 1})


def decide(text, scores=RIGHT, **others):
    return Rule(text, ("math", *others)).decide(ROW, {"math": scores, **others})


@pytest.mark.parametrize(
    ("text", "scores", "truth"),
    [
        ("aggregate >= 0.5 and verdict == 'equal'", RIGHT, True),
        ("aggregate >= 0.5 and verdict == 'equal'", WRONG, False),
        ("math.aggregate >= 0.5", RIGHT, True),
        ("verdict in ('equal', 'undecided')", RIGHT, True),
        ("verdict not in ['equal']", RIGHT, False),
        ("summary.rung == 'text'", RIGHT, True),
        ("summary.nothing == 'text'", RIGHT, None),
        ("0.1 < min < 0.3", WRONG, True),
        ("0.3 < min < 0.5", WRONG, False),
        ("mean - min > 0.3 and last == 0.2", WRONG, True),
        ("first_error == row.first_error", WRONG, True),
        ("first_error == -1", RIGHT, True),
        ("n_steps == len(values) and len(row.problem) < 20", RIGHT, True),
        ("row.level * 2 == 6 and 'x' in row.tags", RIGHT, True),
        ("row.level / 2 > 1 and abs(-2) == 2", RIGHT, True),
        ("row.missing > 1", RIGHT, None),
        ("row.missing is None and row.level is not None", RIGHT, True),
        ("row.gold == '2' and row.id == 'r'", RIGHT, True),
        ("coverage == 0.5", RIGHT, True),
        ("aggregate >= 0.5", SILENT, None),
        ("not aggregate >= 0.5", SILENT, None),
        ("aggregate == None", SILENT, None),
        ("aggregate is None", SILENT, True),
        ("aggregate is None and status == 'abstain' and reason == 'no_gold'", SILENT, True),
        ("aggregate >= 0.5 or n_steps == 2", SILENT, True),
        ("aggregate >= 0.5 and n_steps == 3", SILENT, False),
        ("first_error == first_error", SILENT, None),
        ("status != 'error'", BROKEN, False),
        ("status == 'ok' or not (aggregate < 0.5 and n_steps == 2)", WRONG, True),
        ("True", RIGHT, True),
    ],
)
def test_truth(text, scores, truth):
    assert decide(text, scores)[0] is truth


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "cannot be read"),
        ("aggregate >=", "cannot be read"),
        ("aggregate > 0.5; True", "cannot be read"),
        ("x = 1", "cannot be read"),
        ("aggregate", None),
        ("aggregate + 1", "no condition"),
        ("'text'", "no condition"),
        ("agregate > 1", "did you mean 'aggregate'"),
        ("aggregate.real > 1", "no column"),
        ("row.__class__.__name__ == 'x'", "no column"),
        ("row['level'] > 1", "not in the language"),
        ("().__class__ == 1", "a dot stands between"),
        ("'{0.__class__}'.format(1) == ''", "not in the language"),
        ("__import__('os').system('true') == 0", "not in the language"),
        ("open('/etc/passwd') == 1", "not in the language"),
        ("eval('1') == 1", "not in the language"),
        ("len(values, values) == 1", "not in the language"),
        ("abs(*values) == 1", "not in the language"),
        ("(lambda: 1)() == 1", "not in the language"),
        ("[v for v in values] == 1", "not in the language"),
        ("(aggregate := 1) == 1", "not in the language"),
        ("f'{aggregate}' == '1'", "not in the language"),
        ("9 ** 9 ** 9 > 1", "not in the language"),
        ("1 << 99999 > 1", "not in the language"),
        ("aggregate if True else 1", "not in the language"),
        ("b'x' == 1", "not in the language"),
        ("1j == 1", "not in the language"),
        ("... == 1", "not in the language"),
        ("status is 'ok'", "'is' is for None only"),
        ("~" * 1_900 + "1 > 2", "nested too deeply"),
        ("not " * 400 + "aggregate > 1", "nested too deeply"),
        ("(" * 900 + "1" + ")" * 900, "cannot be read"),
        ("aggregate > 1 or " * 200 + "aggregate > 1", "at most 2000"),
        ("aggregate > 1\0", "cannot be read"),
    ],
)
@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_refused(text, says):
    if says is None:
        with pytest.raises(RuleError, match="neither true nor false"):
            decide(text)
    else:
        with pytest.raises(RuleError, match=says):
            Rule(text, ("math",))


@pytest.mark.parametrize(
    "text",
    [
        "aggregate >= '0.5'",
        "verdict == 1",
        "row.tags > 1",
        "row.level + 'x' == 1",
        "row.level / 0 > 1",
        "n_steps",
        "aggregate in row.level",
        "len(aggregate) == 1",
        "abs(verdict) == 1",
        "row.level == True",
        "not row.level",
    ],
)
def test_values_that_do_not_fit_are_said_not_guessed(text):
    with pytest.raises(RuleError):
        decide(text)


def test_reasons_name_the_part_and_the_scorer():
    assert decide("n_steps == 2 and aggregate >= 0.5 and verdict == 'equal'", WRONG) == (False, "aggregate >= 0.5")
    assert decide("n_steps == 2 and aggregate >= 0.5", SILENT) == (None, "aggregate >= 0.5 (math: no_gold)")
    assert decide("aggregate >= 0.5", BROKEN) == (None, "aggregate >= 0.5 (math: timeout)")


def test_a_false_part_decides_whatever_is_unknown():
    assert decide("aggregate >= 0.5 and n_steps == 3", BROKEN) == (False, "n_steps == 3")


def test_several_scorers_are_named():
    rule = "math.aggregate >= 0.5 and judge.first_error == math.first_error"
    assert decide(rule, RIGHT, judge=StepScores((0.8, 0.9), "correctness"))[0] is True
    assert decide(rule, RIGHT, judge=WRONG)[0] is False
    assert decide(rule, RIGHT, judge=SILENT)[0] is None
    with pytest.raises(RuleError, match=r"belongs to one scorer, but 2 run; write math.aggregate or judge.aggregate"):
        decide("aggregate >= 0.5", RIGHT, judge=WRONG)


def test_pickles():
    rule = pickle.loads(pickle.dumps(Rule("aggregate >= 0.5", ("math",))))
    assert rule == Rule("aggregate >= 0.5", ("math",))
    assert rule.decide(ROW, {"math": RIGHT}) == (True, "")


KLEENE = {True: "n_steps == 2", False: "n_steps == 3", None: "row.missing == 1"}
TRUTHS = st.sampled_from([True, False, None])


def and_(a, b):
    return False if False in (a, b) else None if None in (a, b) else True


@given(TRUTHS, TRUTHS, TRUTHS)
def test_three_valued_logic(a, b, c):
    def negated(x):
        return None if x is None else not x

    def or_(x, y):
        return negated(and_(negated(x), negated(y)))

    expected = and_(or_(a, negated(b)), negated(and_(c, a)))
    text = f"({KLEENE[a]} or not {KLEENE[b]}) and not ({KLEENE[c]} and {KLEENE[a]})"
    assert decide(text)[0] is expected


@given(st.text(max_size=200))
@pytest.mark.filterwarnings("ignore")
def test_any_text_is_read_or_refused_quickly(text):
    start = time.perf_counter()
    with contextlib.suppress(RuleError):
        Rule(text, ("math",)).decide(ROW, {"math": RIGHT})
    assert time.perf_counter() - start < 1
