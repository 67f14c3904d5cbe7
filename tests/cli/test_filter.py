"""``stepgauge filter`` with a folder: options, output, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from stepgauge.filtering import read_parts
from tests.filtering.test_jobs import RULE, rows_of, write_lines

ROOT = Path(__file__).parents[2]


def run(*args, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "stepgauge", "filter", *map(str, args)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )


@pytest.fixture
def source(tmp_path):
    return write_lines(tmp_path / "in.jsonl", [*rows_of(60), "{broken"])


def test_a_folder(source, tmp_path):
    out = tmp_path / "out"
    command = [source, "--scorer", "math", "--keep", RULE, "--out", out, "--workers", 2, "--shard-rows", 20]
    result = run(*command)
    assert result.returncode == 0, result.stderr
    assert "kept 40 of 61 rollouts, dropped 20, quarantined 1; " in result.stderr
    assert "  20\tfalse: aggregate >= 0.5" in result.stderr
    assert len(list(read_parts(out / "kept"))) == json.loads((out / "summary.json").read_text())["kept"] == 40
    assert run(*command).returncode == 0
    other = run(*command[:-4], "--shard-rows", 10)
    assert other.returncode == 2
    assert "holds another job, which differs in shard_rows (was 20)" in other.stderr


def test_a_file_appears_at_the_end_and_nothing_else(source, tmp_path):
    before = set(tmp_path.iterdir())
    for name in ("kept.jsonl", "kept.parquet"):
        result = run(source, "--scorer", "math", "--keep", RULE, "--out", tmp_path / name, "--workers", 1)
        assert result.returncode == 0, result.stderr
        assert f"skipped {source}:61: broken JSON: Expecting property name" in result.stderr
    assert set(tmp_path.iterdir()) - before == {tmp_path / "kept.jsonl", tmp_path / "kept.parquet"}
    lines = [json.loads(line) for line in (tmp_path / "kept.jsonl").read_text().splitlines()]
    assert [row["id"] for row in lines] == [row["id"] for n, row in enumerate(rows_of(60)) if n % 3]
    assert lines == pq.read_table(tmp_path / "kept.parquet").to_pylist()


def test_array_jobs(source, tmp_path):
    out = tmp_path / "out"
    command = [source, "--scorer", "math", "--keep", "aggregate >= 1", "--out", out, "--workers", 1, "--shard-rows", 20]
    first = run(*command, "--shard", "1/2")
    assert "kept 13 of 21 rollouts" in first.stderr
    assert "other shards are not done yet" in first.stderr
    second = run(*command, "--shard", "0/2")
    assert "kept 40 of 61 rollouts" in second.stderr
    assert "not done" not in second.stderr


def test_a_stream_and_standard_input(source, tmp_path):
    (tmp_path / "data").mkdir()
    write_lines(tmp_path / "data" / "train.jsonl", rows_of(30))
    result = run(f"stream:{tmp_path}/data:train", "-s", "math", "--keep", RULE, "-o", tmp_path / "out", "--workers", 1)
    assert "kept 20 of 30 rollouts" in result.stderr, result.stderr
    with source.open() as stream:
        piped = subprocess.run(
            [sys.executable, "-m", "stepgauge", "filter", "-", "-s", "math", "--keep", RULE, "-o", tmp_path / "piped"],
            stdin=stream,
            capture_output=True,
            text=True,
        )
    assert "kept 40 of 61 rollouts" in piped.stderr


def test_a_scorer_that_fails_on_everything_exits_with_1(tmp_path):
    source = write_lines(tmp_path / "two.jsonl", rows_of(2))
    result = run(source, "-s", "http:http://127.0.0.1:9/", "--keep", "aggregate > 0", "-o", tmp_path / "out")
    assert result.returncode == 1, result.stderr
    assert "no rollout could be scored" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([], "Missing option '--keep'"),
        (["--keep", "agregate > 0"], "did you mean 'aggregate'"),
        (["--keep", "aggregate > 0", "--runner", "slurm"], "--runner must be local or ray"),
        (["--keep", "aggregate > 0", "--shard", "3/3"], "--shard must be i/n"),
        (["--keep", "aggregate > 0", "--shard", "one"], "--shard must be i/n"),
    ],
)
def test_wrong_usage(args, says, tmp_path):
    result = run("bundled", *args, "--out", "out", cwd=tmp_path)
    assert result.returncode == 2
    assert says in result.stderr
    assert "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("out", "extra", "says"),
    [
        ("kept.csv", [], "must be a folder, or end in .jsonl"),
        ("kept.jsonl", ["--shard", "0/2"], "needs a folder as --out"),
    ],
)
def test_wrong_out(out, extra, says, tmp_path):
    result = run("bundled", "--keep", "aggregate > 0", "--out", out, *extra, cwd=tmp_path)
    assert result.returncode == 2
    assert says in result.stderr


def test_hub_names_need_download(tmp_path):
    result = run("stream:owner/name:train", "--keep", "aggregate > 0", "--out", "out", cwd=tmp_path)
    assert result.returncode == 2
    assert "needs --download" in result.stderr
