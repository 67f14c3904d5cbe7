from __future__ import annotations

import asyncio
import json
import pickle
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepgauge import Rollout, Scorer, StepScores, load, rollout_key
from stepgauge.scoring import KINDS, REASONS, score_each


class Reference:
    def to_json(self):
        return {"tests": ["f(1) == 2"]}


def test_rollout_stores_steps_as_a_tuple_and_is_hashable_by_content():
    rollout = Rollout("p", ["a", "b"], meta={"n": 1})
    assert rollout.steps == ("a", "b")
    assert rollout == Rollout("p", ("a", "b"), meta={"n": 2})


@pytest.mark.parametrize(
    ("fields", "error", "says"),
    [
        ({"problem": 3, "steps": ()}, TypeError, "Rollout.problem must be str, got int"),
        ({"problem": "p", "steps": "a b"}, TypeError, "sequence of strings, got one str"),
        ({"problem": "p", "steps": ("a", None)}, TypeError, "steps[1] must be str, got NoneType"),
        ({"problem": "p", "steps": (), "gold": 3}, TypeError, "pass str(gold) or None"),
        ({"problem": "p", "steps": ("a",), "spans": ((0, 1),)}, ValueError, "without Rollout.text"),
        ({"problem": "p", "steps": ("a",), "text": "ba", "spans": ((0, 1),)}, ValueError, "gives 'b', but"),
        ({"problem": "p", "steps": ("a", "b"), "text": "ab", "spans": ((0, 1),)}, ValueError, "2 steps, 1 spans"),
    ],
)
def test_rollout_rejects(fields, error, says):
    with pytest.raises(error) as caught:
        Rollout(**fields)
    assert says in str(caught.value)


@given(st.lists(st.text(max_size=20), max_size=6))
def test_step_spans_index_the_response(steps):
    rollout = Rollout("p", tuple(steps))
    assert [rollout.response[a:b] for a, b in rollout.step_spans] == steps


def test_step_spans_are_not_guessed():
    with pytest.raises(ValueError, match="spans are missing"):
        _ = Rollout("p", ("a",), text="a a").step_spans


def test_rollout_key_covers_the_content_only():
    key = rollout_key(Rollout("p", ("a",), gold="1"))
    assert len(key) == 32
    assert key == rollout_key(Rollout("p", ("a",), gold="1", id="other", meta={"x": 1}))
    others = [
        Rollout("q", ("a",), gold="1"),
        Rollout("p", ("a", ""), gold="1"),
        Rollout("p", ("a",)),
        Rollout("p", ("a",), gold="1", text="a", spans=((0, 1),)),
        Rollout("p", ("a",), gold="1", token_ids=(1,)),
        Rollout("p", ("a",), gold="1", reference=Reference()),
        Rollout("p", ("\ud800",), gold="1"),
    ]
    keys = {key, *map(rollout_key, others)}
    assert len(keys) == 1 + len(others)


def test_rollout_key_is_the_same_in_another_process():
    code = "from stepgauge import *; print(rollout_key(Rollout('é', ('a\\n',), gold='1')))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == rollout_key(Rollout("é", ("a\n",), gold="1"))


def test_rollout_key_names_a_reference_without_to_json():
    with pytest.raises(TypeError, match="object has no to_json"):
        rollout_key(Rollout("p", (), reference=object()))


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"values": (0.5,), "kind": "vibes"}, "kind must be one of correctness"),
        ({"values": (0.5,), "kind": "value", "status": "fine"}, "status must be one of ok"),
        ({"values": (float("nan"),), "kind": "value"}, "values[0] must be finite"),
        ({"values": (float("inf"),), "kind": "value"}, "must be finite"),
        ({"values": (None,), "kind": "value", "status": "abstain"}, "carries a reason"),
        ({"values": (0.5,), "kind": "value", "reasons": ("timeout",)}, "a scored one does not"),
        ({"values": (None,), "kind": "value", "reasons": ("bored",), "status": "abstain"}, "must be one of timeout"),
        ({"values": (None,), "kind": "value", "reasons": ("timeout",)}, "contradicts values"),
        ({"values": (0.0,), "kind": "value", "status": "error"}, "contradicts values"),
        ({"values": (), "kind": "value"}, "contradicts values"),
        ({"values": (0.5, 0.6), "kind": "value", "reasons": (None,)}, "2 values, 1 reasons"),
        ({"values": (0.5,), "kind": "value", "details": ({}, {})}, "1 values, 2 details"),
        ({"values": (0.5,), "kind": "value", "error_step": 1}, "error_step must be -1..0"),
    ],
)
def test_step_scores_reject(fields, says):
    with pytest.raises(ValueError) as caught:
        StepScores(**fields)
    assert says in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_default_aggregate_of_each_kind(kind):
    scores = StepScores((0.5, None, 0.25, 0.75), kind, reasons=(None, "no_claim", None, None))
    expected = {"correctness": 0.25, "value": 0.75, "log_ratio": 0.25, "credit": 1.5, "confidence": 0.5}
    assert scores.aggregate() == pytest.approx(expected[kind])
    assert scores.coverage == 0.75


def test_first_error():
    values = (0.9, None, 0.5, 0.4)
    scores = StepScores(values, "correctness", reasons=(None, "no_claim", None, None))
    assert scores.first_error() == 3  # below the threshold, not at it
    assert scores.first_error(0.95) == 0
    assert scores.first_error(0.1) == -1
    assert StepScores(values, "correctness", reasons=scores.reasons, error_step=1).first_error() == 1
    assert StepScores((0.1, -0.1), "log_ratio").first_error() == 1


def test_first_error_is_not_made_up():
    with pytest.raises(ValueError, match="no usual threshold"):
        StepScores((0.5,), "confidence").first_error()
    with pytest.raises(ValueError, match=r"no step was scored \(abstain: no_gold\)"):
        StepScores.abstain(2, "correctness", "no_gold").first_error()


@pytest.mark.parametrize("reason", REASONS)
def test_abstain_and_error_have_no_numbers(reason):
    for scores in (StepScores.abstain(3, "value", reason), StepScores.error(3, "value", reason, "why")):
        assert scores.values == (None, None, None)
        assert scores.aggregate() is None
        assert scores.coverage == 0.0
        assert scores.summary["reason"] == reason


def test_repr_and_html_are_short_and_escaped():
    scores = StepScores((0.5,) * 300, "value")
    assert len(repr(scores)) < 200
    scores = StepScores((0.1, None), "value", reasons=(None, "timeout"), details=({"text": "<script>"}, {}))
    html = scores._repr_html_()
    assert "<script>" not in html
    assert "timeout" in html
    assert "<b>x" not in Rollout("<b>x", ("<i>",), gold="<u>")._repr_html_()
    for kind in KINDS:
        assert StepScores((3.0,), kind)._repr_html_()
    assert StepScores.abstain(1, "credit", "no_reference")._repr_html_()


class Length(Scorer):
    name = "length"
    kind = "value"

    def __init__(self, scale=100):
        self.scale = scale

    _model = None

    def score_batch(self, rollouts, *, deadline_s=None, progress=None):
        self._model = object()
        return score_each(self._judge, rollouts, kind="value", deadline_s=deadline_s, progress=progress)

    def _judge(self, rollout):
        if "boom" in rollout.steps:
            raise RuntimeError("boom")
        return StepScores(tuple(len(step) / self.scale for step in rollout.steps), "value")


def test_one_bad_rollout_never_hurts_the_others():
    good, bad = Rollout("p", ("abc",)), Rollout("p", ("x", "boom"))
    results = Length().score_batch([good, bad, good])
    assert [scores.status for scores in results] == ["ok", "error", "ok"]
    assert results[1].reasons == ("internal", "internal")
    assert results[1].summary["message"] == "RuntimeError: boom"


def test_state_with_an_underscore_is_not_pickled_and_parameters_are():
    scorer = Length(scale=7)
    scorer.score(["a"])
    copy = pickle.loads(pickle.dumps(scorer))
    assert copy.scale == 7
    assert copy._model is None


def test_fingerprint_follows_the_parameters():
    assert Length(7).fingerprint == Length(7).fingerprint
    assert Length(7).fingerprint != Length(8).fingerprint


def test_async_iter_and_context():
    rollouts = [Rollout("p", ("a" * i,)) for i in range(1, 6)]
    with Length() as scorer:
        assert asyncio.run(scorer.ascore_batch(rollouts)) == scorer.score_batch(rollouts)
        assert list(scorer.score_iter(iter(rollouts), batch_size=2)) == scorer.score_batch(rollouts)


def test_extend_batch_pairs_sessions_with_steps():
    scorer = Length()
    sessions = [scorer.open(Rollout("p", ())), scorer.open(Rollout("p", ("abc",), text="abc", spans=((0, 3),)))]
    scores = scorer.extend_batch(sessions, ["a", "ab"])
    assert [s.values for s in scores] == [(0.01,), (0.03, 0.02)]
    with pytest.raises(ValueError, match="2 sessions .2 distinct. and 1 steps"):
        scorer.extend_batch(sessions, ["a"])
    with pytest.raises(ValueError, match="2 sessions .1 distinct. and 2 steps"):
        scorer.extend_batch([sessions[0]] * 2, ["a", "b"])


def test_a_row_is_not_a_rollout():
    with pytest.raises(TypeError, match=r"rollouts\[1\] is a dict; .*from_row"):
        load("arithmetic").score_batch([Rollout("p", ("a",)), {"problem": "p", "steps": ["a"]}])


def test_load_knows_its_names_and_says_what_there_is():
    assert load("embedded").name == "arithmetic"
    with pytest.raises(ValueError, match=r"Did you mean 'arithmetic'\? Known scorers: arithmetic, .*embedded, .*math"):
        load("arithmetics")
    with pytest.raises(ValueError, match="takes no argument"):
        load("math:x")
    with pytest.raises(ValueError, match="needs a local causal LM"):
        load("logprob")
    with pytest.raises(TypeError, match="takes a string"):
        load(None)
    with pytest.raises(TypeError, match="takes no arguments"):
        load("arithmetic", device="cuda")


def test_load_finds_third_party_scorers(monkeypatch):
    from importlib.metadata import EntryPoint

    entry = EntryPoint("length", f"{__name__}:Length", "stepgauge.scorers")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [entry] if group == entry.group else [])
    monkeypatch.setitem(sys.modules, __name__, sys.modules[Length.__module__])
    assert load("length", scale=3).scale == 3
    with pytest.raises(ValueError, match="Known scorers: .*length"):
        load("nothing")
    from stepgauge.loading import available

    assert [row["name"] for row in available()][-1] == "length"


def test_scores_survive_json():
    scores = load("arithmetic").score(["1 + 1 = 3"])
    assert json.loads(json.dumps({"values": scores.values, "details": scores.details}))["values"] == [0.0]


def test_a_checkpoint_sets_its_own_aggregate_and_threshold():
    own = StepScores((0.5, -0.2), "correctness", summary={"aggregate": "mean", "threshold": 0.0})
    assert own.aggregate() == pytest.approx(0.15)
    assert (own.aggregate("min"), own.first_error(), own.first_error(-1.0)) == (-0.2, 1, -1)
