from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from stepgauge.cli import app
from stepgauge.data import bundled, to_row

RUN = CliRunner()


def run(*args, **kwargs):
    """The real command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "stepgauge", *map(str, args)], capture_output=True, text=True, timeout=120, **kwargs
    )


def write(path, rows):
    path.write_text("".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def rows_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def rollouts(tmp_path):
    """Two problems, four candidates each."""
    rows = []
    for problem, gold, answers in (("p", "3", "3343"), ("q", "8", "7789")):
        for index, answer in enumerate(answers):
            steps = [f"1 + 1 = {2 + (answer == '7')}", f"The answer is {answer}."]
            rows.append({"problem": problem, "gold": gold, "id": f"{problem}{index}", "steps": steps})
    return write(tmp_path / "rollouts.jsonl", rows)


@pytest.mark.parametrize("command", [[], ["score"], ["rerank"], ["verify"], ["filter"], ["scorers"]])
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_teaches(command, flag):
    result = RUN.invoke(app, [*command, flag])
    assert result.exit_code == 0
    assert "Usage:" in result.output
    assert not command or f"Example:\n      stepgauge {command[0]}" in result.output


def test_rerank_table_and_picks(rollouts, tmp_path):
    out = tmp_path / "picks.jsonl"
    result = run("rerank", rollouts, "--out", out)
    assert result.returncode == 0, result.stderr
    for rule in ("pass@1", "majority", "best-of-n", "weighted vote", "Borda", "pass@4 (oracle)"):
        assert rule in result.stdout
    picks = rows_of(out)
    assert [(pick["problem_id"], pick["answer"], pick["correct"]) for pick in picks] == [
        ("p", "3", True),
        ("q", "8", True),  # the majority is 7, whose sums are wrong
    ]
    assert picks[1]["disagreed"] == {"majority": "7", "Borda (embedded)": "7"}
    assert [c["scores"]["embedded"] for c in picks[1]["candidates"]] == [0.0, 0.0, 1.0, 1.0]
    assert picks[1]["candidates"][0]["first_false_step"] == {"embedded": 0}


def test_rerank_json_with_two_scorers(rollouts):
    result = run("rerank", rollouts, "--scorer", "embedded,math", "--json", "--n", 3)
    table = {(rule["rule"], rule["scorer"]): rule["solved"] for rule in json.loads(result.stdout)["rules"]}
    assert table["best-of-n", "math"] == 1.0
    assert table["pass@1 (mean of candidates)", ""] == pytest.approx((2 / 3 + 1 / 3) / 2)
    assert table["pass@3 (oracle)", ""] == 1.0


def test_rerank_without_gold_and_without_answers(tmp_path):
    rows = [{"problem": "p", "id": str(i), "steps": [f"{i} + 1 = 2", "thus it holds"]} for i in range(3)]
    out = tmp_path / "picks.jsonl"
    result = run("rerank", write(tmp_path / "r.jsonl", rows), "--out", out)
    assert "no gold answers" in result.stdout
    pick = rows_of(out)[0]
    assert pick["correct"] is None
    assert pick["picked"] == "1"


def test_answer_column_is_gold_only_on_request(tmp_path):
    rows = [{"problem": "p", "steps": ["The answer is 3."], "answer": "3"}]
    path = write(tmp_path / "r.jsonl", rows)
    assert "no gold answers" in run("rerank", path).stdout
    assert "1.000" in run("rerank", path, "--gold-field", "answer").stdout


def test_score_from_a_pipe(rollouts):
    result = run("score", "-", input=rollouts.read_text())
    assert result.returncode == 0
    assert result.stdout.splitlines()[0].split("\t") == ["p0", "embedded", "1", "[1 ·]"]
    assert "first error at step 0" in result.stdout
    assert "scored 8 rollouts" in result.stderr


def test_score_json_and_parquet_agree(rollouts, tmp_path):
    import pyarrow.parquet as pq

    lines = [json.loads(line) for line in run("score", rollouts, "--json").stdout.splitlines()]
    out = tmp_path / "scores.parquet"
    assert run("score", rollouts, "--out", out).returncode == 0
    table = pq.read_table(out).to_pylist()
    for name in ("id", "values", "reasons", "aggregate", "first_error", "status"):
        assert [row[name] for row in table] == [line[name] for line in lines]
    assert lines[4]["details"][0]["claims"][0]["holds"] is False


BROKEN = [
    "{not json\n",
    '{"problem": "p"}\n',
    '{"problem": "p", "steps": "one string"}\n',
    '{"problem": "p", "steps": [1, 2]}\n',
    '{"problem": "p", "steps": ["a"], "gold": NaN}\n',
    '{"problem": 3, "steps": ["a"]}\n',
    "[]\n",
]


def test_broken_rows_are_reported_with_their_line_and_the_rest_goes_on(rollouts, tmp_path):
    good = rollouts.read_text().splitlines(keepends=True)
    path = write(
        tmp_path / "mixed.jsonl", [line for pair in zip(good[:7], BROKEN, strict=True) for line in pair] + good[7:]
    )
    with path.open("ab") as stream:
        stream.write(b'{"problem": "p\xff", "steps": ["a"]}\n')
    out = tmp_path / "picks.jsonl"
    result = run("rerank", path, "--out", out)
    assert result.returncode == 0
    for line in (2, 4, 6, 8, 10, 12, 14, 16):
        assert f"mixed.jsonl:{line}: " in result.stderr
    assert "8 of 16 rows were skipped" in result.stderr
    assert len(rows_of(out)) == 2


def test_nothing_usable_is_exit_1(tmp_path):
    result = run("score", write(tmp_path / "bad.jsonl", BROKEN))
    assert result.returncode == 1
    assert "no usable rows" in result.stderr


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["score", "missing.jsonl"], "there is no file 'missing.jsonl'"),
        (["score", "bundled", "--scorer", "arithmetik"], "Did you mean 'arithmetic'? Known scorers:"),
        (["score", "bundled", "--scorer", ","], "--scorer needs a name"),
        (["score", "bundled", "--split", "paragraphs"], "must be one of"),
        (["score", "bundled", "--out", "scores.csv"], ".jsonl"),
        (
            ["filter", "bundled", "--scorer", "math,arithmetic", "--keep", "aggregate >= 1", "--out", "x.jsonl"],
            "one scorer",
        ),
        (["rerank", "bundled", "--n", "0"], "--n"),
        (["verify", "bundled"], "column 'prediction' is missing"),
    ],
)
def test_wrong_usage_is_named(args, says, tmp_path):
    result = run(*args, cwd=tmp_path)
    assert result.returncode == (1 if args[0] == "verify" else 2)
    assert says in result.stderr
    assert "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_is_named(tmp_path):
    result = run("rerank", write(tmp_path / "empty.jsonl", []))
    assert result.returncode == 2
    assert "empty" in result.stderr


def test_a_step_of_10_mb(tmp_path):
    path = write(tmp_path / "big.jsonl", [{"problem": "p", "steps": ["x" * 10_000_000, "1 + 1 = 2"], "id": "big"}])
    result = run("score", path)
    assert result.stdout.splitlines()[0].split("\t") == ["big", "embedded", "1", "[· 1]"]


def test_verify(tmp_path):
    cases = [
        {"id": "a", "gold": "1/2", "prediction": "0.5", "form": "answer"},
        {"id": "b", "gold": "12", "prediction": "So it is 13. The answer is 12.", "form": "response"},
        {"id": "c", "gold": "12", "prediction": "13"},
        {"id": "d", "gold": None, "prediction": "13"},
        {"id": "g", "gold": 12, "prediction": "12.0"},
        {"id": "e", "gold": "12", "prediction": "13", "form": "essay"},
        {"id": "f", "gold": "12", "prediction": ""},
    ]
    out = tmp_path / "v.jsonl"
    result = run("verify", write(tmp_path / "cases.jsonl", cases), "--out", out)
    assert result.returncode == 0, result.stderr
    verdicts = {row["id"]: row["verdict"] for row in rows_of(out)}
    assert verdicts == {"a": "equal", "b": "equal", "c": "different", "f": "invalid", "g": "equal"}
    assert all(set(row) == {"id", "verdict", "reason", "ms"} for row in rows_of(out))
    assert "cases.jsonl:4: column 'gold' must be text, got NoneType" in result.stderr
    assert "cases.jsonl:6: column 'form' must be 'answer' or 'response'" in result.stderr


def test_filter_keeps_counts_and_round_trips(rollouts, tmp_path):
    out = tmp_path / "kept.jsonl"
    result = run("filter", rollouts, "--keep", "aggregate >= 0.5", "--out", out)
    assert "kept 6 of 8 rollouts, dropped 2, quarantined 0; " in result.stderr
    assert {row["score"] for row in rows_of(out)} == {1.0}
    again = run("filter", out, "--keep", "aggregate >= 0.5", "--out", tmp_path / "again.jsonl")
    assert "kept 6 of 6" in again.stderr


def test_model_text_cannot_steer_the_terminal(tmp_path):
    rows = [{"problem": "p", "id": "\x1b[2Jx\r\x9b\u202e", "steps": ["1 + 1 = 2"]}]
    path = write(tmp_path / "r.jsonl", rows)
    for result in (run("score", path), run("score", path, "--json"), run("rerank", path, "--json")):
        assert result.returncode == 0
        assert not set("\x1b\r\x9b\u202e") & set(result.stdout)


def test_a_reader_that_leaves_is_no_error():
    command = f"{sys.executable} -m stepgauge score bundled --json | head -n 1"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert json.loads(result.stdout)["id"] == "rg000/0"
    assert "Traceback" not in result.stderr


def test_a_killed_run_leaves_nothing_half_written(tmp_path):
    out = tmp_path / "scores.jsonl"
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job starts with ctrl-c ignored
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "stepgauge", "score", "-", "--out", str(out)],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    finally:
        signal.signal(signal.SIGINT, before)
    row = json.dumps(to_row(bundled()[0])) + "\n"
    process.stdin.write(row.encode() * 600)
    process.stdin.flush()
    deadline = time.monotonic() + 60
    while not any(tmp_path.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert any(tmp_path.iterdir())  # the temporary file
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"interrupted" in err
    assert list(tmp_path.iterdir()) == []


def test_scorers_lists_what_there_is():
    names = [row["name"] for row in json.loads(run("scorers", "--json").stdout)]
    assert {"embedded", "arithmetic", "math", "code", "dag", "logprob", "prm", "implicit", "http"} <= set(names)
    assert "needs: gold" in run("scorers").stdout


def test_a_log_gets_progress_lines(monkeypatch):
    from stepgauge.cli import common

    monkeypatch.setattr(common, "LOG_EVERY_S", 0.0)
    error = io.StringIO()
    monkeypatch.setattr(sys, "stderr", error)
    with common.progress_bar("scoring", total=4) as advance:
        advance(2)
    assert "scoring: 2 of 4, " in error.getvalue()


@pytest.mark.parametrize("command", [["score"], ["rerank"]])
def test_a_scorer_that_fails_says_why(command, tmp_path):
    result = run(*command, "bundled:dev_1.5b", "--scorer", f"logprob:{tmp_path}/none", cwd=tmp_path)
    assert "no rollout could be scored" in result.stderr
    assert f"there is no folder '{tmp_path}/none'" in result.stderr
    assert result.returncode == 1


def test_filter_finds_that_a_model_is_missing_before_it_reads_a_row(tmp_path):
    command = ["filter", "bundled:dev_1.5b", "--keep", "aggregate >= 0", "--out", "kept.jsonl"]
    result = run(*command, "--scorer", f"logprob:{tmp_path}/none", cwd=tmp_path)
    assert f"error: there is no folder '{tmp_path}/none'" in result.stderr
    assert result.returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_one_failing_scorer_of_two_is_named(tmp_path):
    result = run("rerank", "bundled:dev_1.5b", "--scorer", f"embedded,logprob:{tmp_path}/none")
    assert result.returncode == 0
    assert (
        f"none failed on some rollouts, first with: FileNotFoundError: there is no folder '{tmp_path}" in result.stderr
    )


def test_rerank_writes_parquet_where_every_candidate_was_scored(rollouts, tmp_path):
    import pyarrow.parquet as pq

    result = run("rerank", rollouts, "--out", tmp_path / "picks.parquet")
    assert result.returncode == 0, result.stderr
    assert [row["answer"] for row in pq.read_table(tmp_path / "picks.parquet").to_pylist()] == ["3", "8"]


def test_conflicting_gold_is_said(tmp_path):
    rows = [{"problem": "p", "gold": gold, "steps": ["The answer is 1."]} for gold in ("1", "2")]
    assert "1 problems with several gold answers" in run("rerank", write(tmp_path / "r.jsonl", rows)).stdout


def test_a_terminated_run_cleans_up(tmp_path):
    out = tmp_path / "scores.jsonl"
    command = [sys.executable, "-m", "stepgauge", "score", "-", "--out", str(out)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdin.write((json.dumps(to_row(bundled()[0])) + "\n").encode() * 600)
    process.stdin.flush()
    deadline = time.monotonic() + 60
    while not any(tmp_path.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 143
    assert list(tmp_path.iterdir()) == []
