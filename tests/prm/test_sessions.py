"""Sessions: the scores of scoring from scratch, at the cost of the new tokens."""

import copy

import pytest
import torch

from stepgauge import Rollout
from stepgauge.prm import MCPRM
from tests.prm.tiny import FAMILIES, save, tiny_prm

PROBLEM = "A farmer has 42 pigs. Each needs 10 pounds of feed. How many pounds?"
STEPS = ["Each pig needs 10.", "So 42 * 10 = 420.", "Hence 420 pounds.", "The answer is 420."]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_beam_search_scores_as_from_scratch(family):
    prm = MCPRM(tiny_prm(family)[0], device="cpu")
    root = prm.open(Rollout(PROBLEM, ()))
    beams = [root.fork() for _ in range(3)]
    for depth in range(4):
        children = [beam.fork() for beam in beams for _ in range(2)]
        steps = [f"{STEPS[depth]} ({k})" for k in range(len(children))]
        scores = prm.extend_batch(children, steps)
        for child, step, found in zip(children, steps, scores, strict=True):
            assert child.rollout.steps[-1] == step
            expected = prm.score_batch([child.rollout])[0]
            assert found.values == pytest.approx(expected.values, abs=1e-5)
            assert found.details == pytest.approx(expected.details) if not found.details else True
            assert [d["token_span"] for d in found.details] == [d["token_span"] for d in expected.details]
        beams = children[1::2]
    assert root.rollout.steps == ()


@pytest.mark.parametrize("family", ["qwen", "rlhflow", "er_prm"])
def test_only_new_tokens_are_computed(family, monkeypatch):
    prm = MCPRM(tiny_prm(family)[0], device="cpu")
    session = prm.open(Rollout(PROBLEM, STEPS[:2]))
    session.extend(STEPS[2])
    loaded = prm._load()
    seen = []
    forward = loaded.body.forward

    def count(*args, **kwargs):
        seen.append(kwargs["input_ids"].numel())
        return forward(*args, **kwargs)

    count.__signature__ = __import__("inspect").signature(forward)
    monkeypatch.setattr(loaded.body, "forward", count)
    session.extend(STEPS[3])
    own = loaded.layout.step(PROBLEM, STEPS[3], 3, first=False)
    assert seen == [len(own)]


def test_a_fork_and_a_prefix_with_steps():
    prm = MCPRM(tiny_prm("qwen")[0], device="cpu")
    session = prm.open(Rollout(PROBLEM, STEPS[:2]))
    fork = session.fork()
    here, there = session.extend("A."), fork.extend("B.")
    assert here.values[:2] == there.values[:2]
    assert here.values == pytest.approx(prm.score([*STEPS[:2], "A."], problem=PROBLEM).values, abs=1e-5)
    session.close()
    assert session.extend("C.").values == pytest.approx(
        prm.score([*STEPS[:2], "A.", "C."], problem=PROBLEM).values, abs=1e-5
    )


def test_beyond_the_context_a_session_says_what_scoring_says(tmp_path):
    folder, _, _ = save(tmp_path / "short", "trl", context=48)
    for policy in ("error", "window", "drop_leading"):
        prm = MCPRM(folder, device="cpu", length=policy)
        session = prm.open(Rollout("2 + 2?", ()))
        for count in range(1, 7):
            found = session.extend(f"Step {count} is long enough to fill it.")
            expected = prm.score_batch([session.rollout])[0]
            assert (found.status, found.reasons) == (expected.status, expected.reasons)
            assert found.values == pytest.approx(expected.values, abs=1e-5)


def test_two_sessions_of_one_call_must_differ():
    prm = MCPRM(tiny_prm("qwen")[0], device="cpu")
    session = prm.open(Rollout(PROBLEM, ()))
    with pytest.raises(ValueError, match="fork"):
        prm.extend_batch([session, session], ["a", "b"])


def test_a_small_budget_and_a_bad_step_change_nothing():
    prm = MCPRM(tiny_prm("qwen")[0], device="cpu", max_tokens=3)
    sessions = [prm.open(Rollout(PROBLEM, ())) for _ in range(3)]
    steps = ["2 + 2 = 4.", "so " * 5000, ""]
    for found, step in zip(prm.extend_batch(sessions, steps), steps, strict=True):
        expected = prm.score([step], problem=PROBLEM)
        assert found.reasons == expected.reasons
        assert found.values == pytest.approx(expected.values, abs=1e-5)


def test_prefixes_are_shared_not_copied():
    prm = MCPRM(tiny_prm("qwen")[0], device="cpu")
    root = prm.open(Rollout(PROBLEM, ()))
    prm.extend_batch([root], [STEPS[0]])
    forks = [root.fork() for _ in range(4)]
    prm.extend_batch(forks, STEPS)
    parents = {id(fork.prefix.parent) for fork in forks}
    assert parents == {id(root.prefix)}
    assert all(isinstance(k, torch.Tensor) for k, _ in root.prefix.keys_values)
    assert copy.copy(root.prefix.parent) is not None
