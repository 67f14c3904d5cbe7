from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepgauge import Rollout
from stepgauge.evaluate.attacks import ATTACKS
from stepgauge.testing import sample_rollouts

BY_NAME = {attack.name: attack.apply for attack in ATTACKS}
STEPS = ("First, 2 * 3 = 6.", "So 6 + 1 = 7.", "The answer is 7.")
ROLLOUT = Rollout("2 * 3 + 1?", STEPS, gold="7", token_ids=(1, 2), text="\n".join(STEPS))


def _attack(name, rollout=ROLLOUT, seed=0):
    changed = BY_NAME[name](rollout, random.Random(seed))
    return None if changed is None else changed.steps


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
@settings(max_examples=25)
@given(steps=st.lists(st.text(max_size=30), max_size=4), gold=st.one_of(st.none(), st.text(max_size=8)))
def test_attacks_take_any_rollout_keep_the_problem_and_repeat(attack, steps, gold):
    rollout = Rollout("problem", tuple(steps), gold=gold, id="x")
    changed = attack.apply(rollout, random.Random(5))
    assert changed == attack.apply(rollout, random.Random(5))
    if changed is not None:
        assert (changed.problem, changed.gold, changed.id) == ("problem", gold, "x")
        assert (changed.text, changed.spans, changed.token_ids) == (None, (), None)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_every_attack_applies_to_a_usual_solution_and_changes_it(attack):
    rollout = next(r for r in sample_rollouts() if r.id == "right")
    changed = attack.apply(rollout, random.Random(0))
    assert changed is not None or attack.name == "split steps"
    assert changed is None or changed.steps != rollout.steps


def test_names_are_distinct():
    assert len(BY_NAME) == len(ATTACKS)


def test_empty_attacks_keep_nothing_of_the_solution():
    for attack in ATTACKS:
        if attack.family == "empty":
            (step,) = attack.apply(ROLLOUT, random.Random(0)).steps
            assert not any(part in step for part in STEPS)


def test_padding_keeps_the_answer():
    for name in ("repeat steps", "filler", "true sums", "order before", "step by step before", "answer only"):
        assert _attack(name)[-1] == STEPS[-1], name
    assert _attack("hedge, right last")[-1].endswith("\\boxed{7}.")
    assert "\\boxed{7} or" in _attack("hedge, right first")[-1]


def test_rewording_keeps_every_number():
    two = Rollout("p", ("So 1 + 1 = 2. Therefore we have 2.", "The answer is 2."))
    assert _attack("split steps", two) == ("So 1 + 1 = 2.", "Therefore we have 2.", "The answer is 2.")
    assert _attack("merge steps", two) == ("So 1 + 1 = 2. Therefore we have 2.\n\nThe answer is 2.",)
    assert _attack("other words", two) == ("Thus 1 + 1 = 2. Hence there is 2.", "The final answer is 2.")


@given(st.integers())
def test_damage_damages(seed):
    corrupt = _attack("corrupt number", seed=seed)
    assert sum(a != b for a, b in zip(corrupt, STEPS, strict=True)) == 1
    assert corrupt[-1] == STEPS[-1]
    *kept, wrong = _attack("wrong answer", seed=seed)
    assert tuple(kept) == STEPS
    assert "\\boxed{7}" not in wrong
    assert _attack("truncate", seed=seed) == STEPS[:1]
    assert _attack("shuffle", seed=seed) == (STEPS[1], STEPS[0], STEPS[2])


def test_attacks_that_need_something_leave_the_rest_alone():
    bare = Rollout("p", ("no number here",))
    for name in ("corrupt number", "wrong answer", "truncate", "shuffle", "merge steps", "answer only", "split steps"):
        assert _attack(name, bare) is None, name
    assert _attack("shuffle", Rollout("p", ("a", "a", "b"))) is None
    assert _attack("corrupt number", Rollout("p", ("x2y and v1.2.3", "3"))) is None
