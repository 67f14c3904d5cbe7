from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from stepgauge.cli import app
from stepgauge.data import read_rows


def run(*args):
    return CliRunner().invoke(app, ["robustness", *args])


@pytest.fixture
def rollouts(tmp_path):
    rows = [
        {"problem": "2 * 3 + 1?", "steps": ["2 * 3 = 6", "6 + 1 = 7", "The answer is 7."], "gold": "7"},
        {"problem": "2 * 3 + 1?", "steps": ["2 * 3 = 5", "5 + 1 = 6", "The answer is 6."], "gold": "7"},
    ]
    path = tmp_path / "rollouts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_table_and_rows(rollouts, tmp_path):
    out = str(tmp_path / "attacks.jsonl")
    result = run(rollouts, "--scorer", "math", "--out", out)
    assert result.exit_code == 0
    assert "math: 2 solutions, 1 right, 1 wrong" in result.output
    rows = {row["attack"]: row for _, row in read_rows(out)}
    assert rows["wrong answer"]["caught_rate"] == 1.0
    assert rows["colon"]["accepted_after"] == 0.0
    assert all(row["scorer"] == "math" for row in rows.values())


def test_json_and_the_gate(rollouts):
    result = run(rollouts, "--scorer", "math", "--json", "--max-rate", "0")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["wrong"] == 1
    fooled = run(rollouts, "--scorer", "arithmetic", "--max-rate", "0.5")
    assert fooled.exit_code == 1
    assert "over 0.5: empty 'true sum' 1.000" in fooled.output


def test_wrong_usage_is_named(rollouts, tmp_path):
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    assert run(str(empty)).exit_code == 1
    assert "there is no scorer" in str(run(rollouts, "--scorer", "nonsense").exception)
    assert run(rollouts, "--max-rate", "2").exit_code == 2
