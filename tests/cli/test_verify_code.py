from __future__ import annotations

import json
import os

from tests.cli.test_cli import rows_of, run, write
from tests.verifiers.bwrap import needs_bwrap

ROWS = [
    {"id": "right", "completion": "def add(a, b):\n    return a + b", "test_list": ["assert add(1, 2) == 3"]},
    {
        "id": "wrong",
        "steps": ["def add(a, b):", "    return a - b"],
        "tests": [{"call": "add", "args": [1, 2], "expected": 3}],
    },
    {
        "task_id": "HumanEval/x",
        "prompt": 'def one():\n    """One."""\n',
        "completion": "    return 1\n",
        "canonical_solution": "    return 1\n",
        "test": "def check(candidate):\n    assert candidate() == 1\n",
        "entry_point": "one",
    },
    {"id": "empty", "response": "<think> I am", "inputs": ["1"], "outputs": ["1"]},
    {"id": "no tests", "completion": "x = 1"},
    {"id": "no program", "inputs": ["1"], "outputs": ["1"]},
]


@needs_bwrap
def test_programs(tmp_path):
    cases, out = write(tmp_path / "cases.jsonl", ROWS), tmp_path / "out.jsonl"
    done = run("verify", "--code", cases, "--out", out)
    assert done.returncode == 0, done.stderr
    assert [(row["id"], row["verdict"]) for row in rows_of(out)] == [
        ("right", "passed"),
        ("wrong", "failed"),
        ("HumanEval/x", "passed"),
        ("empty", "abstain"),
    ]
    assert rows_of(out)[1]["reason"] == "wrong_output expected 3, got -1"
    assert "sandbox: bubblewrap" in done.stderr
    assert "found no tests in this row" in done.stderr
    assert "found no program in this row" in done.stderr
    assert "4 programs: 2 passed, 1 failed, 1 abstain" in done.stderr
    shown = run("verify", "--code", cases)
    assert "wrong\tfailed\t0/1\twrong_output" in shown.stdout
    assert json.loads(run("verify", "--code", cases, "--json").stdout.splitlines()[0])["sandbox"] == "bubblewrap"


def test_without_a_sandbox_nothing_runs(tmp_path):
    cases = write(tmp_path / "cases.jsonl", ROWS[:1])
    done = run("verify", "--code", cases, "--sandbox", "bubblewrap", env={**os.environ, "PATH": "/nonexistent"})
    assert (done.returncode, done.stdout) == (2, "")
    assert "apt-get install bubblewrap" in done.stderr
    unsafe = run("verify", "--code", cases, "--sandbox", "unsafe-subprocess")
    assert unsafe.returncode == 0
    assert "this protects nothing" in unsafe.stderr
