from __future__ import annotations

import json

import pytest

from stepgauge import Rollout, StepScores
from stepgauge.data import scores_to_row
from stepgauge.evaluate.saved import match_scores, read_scores, scores_from_row

SCORES = StepScores((0.9, None), "value", reasons=(None, "timeout"), summary={"a": 1})


def test_round_trip():
    row = json.loads(json.dumps(scores_to_row(Rollout("p", ("a", "b"), id="x"), "s", SCORES)))
    back = scores_from_row(row)
    assert (back.values, back.kind, back.status, back.reasons, back.summary) == (
        SCORES.values,
        "value",
        "ok",
        (None, "timeout"),
        {"a": 1},
    )
    failed = StepScores.error(2, "value", "model", "broken")
    assert scores_from_row(scores_to_row(Rollout("p", ("a", "b")), "s", failed)).status == "error"
    assert scores_from_row({"values": [None]}).reasons == ("undecided",)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"id": "a"}, "values must be a list"),
        ({"id": "a", "values": [True]}, r"values\[0\] must be a number"),
        ({"id": "a", "values": ["0.5"]}, r"values\[0\] must be a number"),
        ({"id": "a", "values": [float("nan")]}, "nan"),
        ({"id": "a", "values": [0.5], "kind": "odds"}, "kind must be one of"),
        ({"id": "a", "values": [0.5], "reasons": []}, None),
        ({"id": "a", "values": [None], "reasons": ["timeout", "timeout"]}, "one entry a value"),
        ({"values": [0.5]}, "needs the id"),
        ({"id": "good", "values": [0.5]}, "was there before"),
        (["a"], "object with named fields"),
    ],
)
def test_bad_rows_are_skipped_with_their_place(row, message, tmp_path):
    path = tmp_path / "scores.jsonl"
    path.write_text("\n".join(json.dumps(r) for r in ({"id": "good", "values": [1.0]}, row)), encoding="utf-8")
    bad = []
    found = read_scores(path, on_bad=bad.append)
    assert found["good"].values == (1.0,)
    assert [b.line for b in bad] == ([2] if message else [])
    if message:
        with pytest.raises(ValueError, match=message):
            raise ValueError(bad[0].message)


def test_scores_of_two_scorers_are_refused(tmp_path):
    path = tmp_path / "scores.jsonl"
    rows = [{"id": "a", "values": [1.0], "scorer": "x"}, {"id": "a", "values": [1.0], "scorer": "y"}]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with pytest.raises(ValueError, match=r":2: scores of 'y'"):
        read_scores(path, on_bad=print)


def test_matching():
    rollouts = [Rollout("p", ("a", "b"), id="x"), Rollout("p", ("a",), id="x"), Rollout("p", ("a",), id="z")]
    matched, problems = match_scores(rollouts, {"x": SCORES})
    assert matched == [SCORES, None, None]
    assert len(problems) == 1
