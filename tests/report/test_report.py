"""What a report holds: the right numbers, no request, and no way for model text to become markup."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest
from typer.testing import CliRunner

from stepgauge import Rollout, load
from stepgauge.cli import app
from stepgauge.data import bundled
from stepgauge.report import collect, report_page
from stepgauge.report.charts import accuracy_chart, error_chart, reliability_chart
from stepgauge.selection import rerank

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)> \u2028 {{ 7*7 }} {% raw %} &lt;b&gt;"
TWO = [
    Rollout("1+1?", ("1 + 1 = 2.", "The answer is 2."), gold="2", id="a"),
    Rollout("1+1?", ("1 + 1 = 3.", "The answer is 3."), gold="2", id="b"),
    Rollout("1+1?", ("Two.", "The answer is 2."), gold="2", id="c"),
    Rollout("2*3?", ("2 * 3 = 6. The answer is 6.",), gold="6", id="d"),
]


@pytest.fixture(scope="module")
def scorers():
    return {"arithmetic": load("arithmetic"), "math": load("math")}


def test_the_numbers_are_those_of_rerank(scorers):
    rollouts = bundled()[:80]
    data = collect(rollouts, scorers)
    result = rerank(rollouts, scorers)
    assert [(r["rule"], r["scorer"], r["solved"]) for r in data["rules"]] == [
        (rule.name, rule.scorer, rule.accuracy.mean) for rule in result.rules
    ]
    assert data["counts"] == dict(result.counts)
    last = {(c["rule"], c["scorer"]): c["points"][-1]["solved"] for c in data["curves"]}
    for rule in result.rules[1:-1]:
        assert last[rule.name, rule.scorer] == rule.accuracy.mean
    assert last["pass@n (oracle)", ""] == result.rules[-1].accuracy.mean
    assert [p["picked"] for p in data["problems"]] == [pick.picked for pick in result.picks]
    json.dumps(data, allow_nan=False)


def test_each_candidate_has_its_own_scores(scorers):
    data = collect(TWO, scorers)
    first, second = data["problems"]
    assert [c["scores"]["arithmetic"]["values"] for c in first["candidates"]] == [
        [1.0, None],
        [0.0, None],
        [None, None],
    ]
    assert [c["correct"] for c in first["candidates"]] == [True, False, True]
    assert [c["steps"][0] for c in first["candidates"]] == ["1 + 1 = 2.", "1 + 1 = 3.", "Two."]
    assert second["candidates"][0]["scores"]["math"]["aggregate"] == 1.0
    assert data["first_errors"] == [{"step": -1, "count": 2}, {"step": 0, "count": 1}]
    assert data["reliability"] == [
        {"count": 1, "score": 0.0, "right": 0.0},
        {"count": 2, "score": 1.0, "right": 1.0},
    ]


def test_equal_rollouts_keep_their_places(scorers):
    same = Rollout("p", ("1 + 1 = 2.",), gold="2")
    data = collect([same, same], scorers)
    assert len(data["problems"][0]["candidates"]) == 2


def test_nothing_to_report(scorers):
    with pytest.raises(ValueError, match="at least one rollout"):
        collect([], scorers)
    without_gold = collect([Rollout("p", ("x",))], scorers)
    assert (without_gold["rules"], without_gold["curves"], without_gold["reliability"]) == ([], [], [])
    assert "No gold answers" in report_page(without_gold)


class Tags(HTMLParser):
    """The elements and attributes of a page."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))


def parsed(page):
    tags = Tags()
    tags.feed(page)
    return tags.seen


def test_model_text_is_never_markup(scorers):
    hostile = [Rollout(HOSTILE, (HOSTILE, "1 + 1 = 3."), gold=HOSTILE, id=HOSTILE, meta={"problem_id": HOSTILE})]
    safe = [Rollout("p", ("q", "1 + 1 = 3."), gold="r", id="s", meta={"problem_id": "t"})]
    page = report_page(collect(hostile, {HOSTILE: load("arithmetic")}), title=HOSTILE)
    plain = report_page(collect(safe, {"name": load("arithmetic")}))
    assert [tag for tag, _ in parsed(page)] == [tag for tag, _ in parsed(plain)]
    assert "49" not in re.sub(r"<style>.*?</style>", "", page, flags=re.S).split("<main>")[0]
    payload = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1]
    assert json.loads(payload)["problems"][0]["candidates"][0]["steps"][0] == HOSTILE


def test_the_page_asks_nothing_of_the_network(scorers):
    page = report_page(collect(TWO, scorers))
    for tag, attributes in parsed(page):
        assert not {"src", "href", "action", "data", "srcset"} & set(attributes), tag
    policy = next(a["content"] for t, a in parsed(page) if a.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not re.findall(r"url\(|@import|fetch\(|XMLHttpRequest|innerHTML|eval\(", page)


def test_charts_say_what_they_show(scorers):
    data = collect(TWO, scorers)
    for svg in (
        accuracy_chart(data["curves"]),
        reliability_chart(data["reliability"]),
        error_chart(data["first_errors"]),
    ):
        tags = parsed(svg)
        assert tags[0][0] == "svg"
        assert tags[0][1]["role"] == "img"
        assert "NaN" not in svg
    assert [accuracy_chart([]), reliability_chart([]), error_chart([])] == ["", "", ""]
    heights = [
        float(a["height"])
        for t, a in parsed(error_chart([{"step": -1, "count": 4}, {"step": 2, "count": 2}]))
        if t == "rect"
    ]
    assert heights[0] == pytest.approx(2 * heights[1], abs=0.2)
    many = error_chart([{"step": step, "count": 1} for step in range(50)])
    assert "later: 32" in many


def test_a_name_in_a_chart_is_escaped():
    curve = {"rule": "<b>", "scorer": '"&', "points": [{"n": 1, "solved": 0.5, "low": 0.4, "high": 0.6}]}
    assert "<b>" not in accuracy_chart([curve])


def test_command_line(tmp_path):
    out = tmp_path / "folder" / "report.html"
    result = CliRunner().invoke(app, ["report", "bundled", "--limit", "16", "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert out.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert "2 problems, 16 rollouts" in result.output
    assert list(out.parent.iterdir()) == [out]
