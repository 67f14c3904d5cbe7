"""Death: of a worker, over one row again and again, and of everything at once; no row is lost or judged twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from stepgauge.filtering import InProcess, ProcessPool, filter_dataset
from stepgauge.filtering.strikes import Strikes
from tests.filtering.scorers import Fatal, logged_rows
from tests.filtering.test_jobs import RULE, found_in, rows_of, write_lines


def test_rows_that_kill_are_found_and_the_others_are_scored(tmp_path):
    rows = rows_of(60)
    for index, word in ((7, "kill"), (30, "exit")):
        rows[index]["steps"].append(word)
    source = write_lines(tmp_path / "in.jsonl", rows)
    summary = filter_dataset(
        source,
        Fatal(),
        "aggregate == 1",
        tmp_path / "out",
        runner=ProcessPool(2),
        shard_rows=40,
        batch_rows=8,
    )
    found = found_in(tmp_path / "out")
    assert [(row["line"], row["reason"]) for row in found["quarantined"]] == [
        (8, "killed_worker"),
        (31, "killed_worker"),
    ]
    assert [row["id"] for row in found["kept"]] == [row["id"] for n, row in enumerate(rows) if n not in (7, 30)]
    assert summary.failed == 0  # decided: another run leaves them alone
    assert list((tmp_path / "out" / "inflight").iterdir()) == []


def test_a_row_that_hangs_is_found(tmp_path):
    rows = rows_of(6)
    rows[4]["steps"].append("hang")
    source = write_lines(tmp_path / "in.jsonl", rows)
    filter_dataset(source, Fatal(), "aggregate == 1", tmp_path / "out", runner=ProcessPool(1), stall_s=1.0)
    found = found_in(tmp_path / "out")
    assert [row["line"] for row in found["quarantined"]] == [5]
    assert len(found["kept"]) == 5


def test_a_killed_worker_costs_a_batch(tmp_path):
    """A worker is killed from outside: its shard is worked again, and no row is blamed."""
    source, log = write_lines(tmp_path / "in.jsonl", rows_of(400)), tmp_path / "log"
    job = start(source, tmp_path / "out", log, workers=2, seconds_a_row=0.005)
    wait_for_rows(log, 60, job)
    os.kill(int(Path(log).read_text().split()[1]), signal.SIGKILL)
    assert job.wait(120) == 0
    assert "400 0" in (tmp_path / "said").read_text()
    assert same_as_uninterrupted(source, tmp_path)
    assert 400 <= logged_rows(log)[1] <= 400 + 16


SCRIPT = """
import sys
from stepgauge.filtering import InProcess, ProcessPool, filter_dataset
from tests.filtering.scorers import Logged

if __name__ == "__main__":
    source, out, log, workers, seconds, said = sys.argv[1:]
    runner = ProcessPool(int(workers))
    done = filter_dataset(
        source, {"math": Logged(log, float(seconds))}, %r, out, runner=runner, shard_rows=100, batch_rows=16
    )
    open(said, "w").write(f"{done.rows} {done.quarantined}")
"""


def start(source, out, log, *, workers, seconds_a_row):
    folder = Path(out).parent
    (folder / "job.py").write_text(SCRIPT % RULE)
    arguments = [source, out, log, workers, seconds_a_row, folder / "said"]
    root = Path(__file__).parents[2]
    return subprocess.Popen(
        [sys.executable, str(folder / "job.py"), *map(str, arguments)],
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(root)},
        start_new_session=True,
    )


def wait_for_rows(log, rows, job):
    deadline = time.monotonic() + 60
    while logged_rows(log)[1] < rows and job.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)


def same_as_uninterrupted(source, tmp_path):
    if not (tmp_path / "whole").exists():
        filter_dataset(source, "math", RULE, tmp_path / "whole", runner=InProcess(), shard_rows=100)
    return found_in(tmp_path / "whole") == found_in(tmp_path / "out")


def kill_and_go_on(tmp_path, *, rows, kills, seed, workers=2):
    """Kill the whole job at random points; returns the rows scored beyond one time each."""
    source, log = write_lines(tmp_path / "in.jsonl", rows_of(rows)), tmp_path / "log"
    chance = random.Random(seed)
    done = 0
    for _ in range(kills):
        job = start(source, tmp_path / "out", log, workers=workers, seconds_a_row=0.002)
        done = logged_rows(log)[1]
        wait_for_rows(log, done + chance.randint(1, rows // kills), job)
        os.kill(job.pid, signal.SIGKILL)  # its workers are to end by themselves
        job.wait()
        ended = time.monotonic()
        while left := [p for p in psutil.process_iter() if _of_job(p, tmp_path)]:
            assert time.monotonic() - ended < 20, left
            time.sleep(0.05)
    job = start(source, tmp_path / "out", log, workers=workers, seconds_a_row=0.0)
    assert job.wait(300) == 0
    assert (tmp_path / "said").read_text() == f"{rows} 0"
    assert same_as_uninterrupted(source, tmp_path)
    return logged_rows(log)[1] - rows


def _of_job(process, tmp_path):
    try:
        return any(str(tmp_path) in part for part in process.cmdline()) or str(tmp_path) in str(process.environ())
    except psutil.Error:
        return False


def test_everything_killed_twice(tmp_path):
    assert 0 <= kill_and_go_on(tmp_path, rows=600, kills=2, seed=1) <= 2 * 2 * 16


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
def test_everything_killed_at_ten_random_points(tmp_path, seed):
    """At most the batch in flight of each of the two workers is scored again for each kill."""
    assert 0 <= kill_and_go_on(tmp_path, rows=4_000, kills=10, seed=seed) <= 10 * 2 * 16


def test_strikes_blame_a_row_after_two_deaths_at_it_alone(tmp_path):
    note = tmp_path / "note"

    def die(*aims):
        strikes = Strikes(note, "shard 1").__enter__()
        for row, alone in aims:
            strikes.aim(row, alone=alone)
        strikes.__exit__(KeyboardInterrupt)  # as after a death, the note stays
        return strikes

    assert die((1, False), (17, False)).suspect is None
    assert die((1, False), (17, True), (18, True)).suspect == 17
    assert die((1, False), (17, True), (19, True)).out == {}
    assert die((1, False), (17, True), (18, True)).suspect == 17
    assert die((17, True), (33, False)).out == {18: 2}
    with Strikes(note, "shard 1") as strikes:
        assert strikes.suspect == 33
        assert strikes.out == {18: 2}
    assert not note.exists()
    with Strikes(note, "shard 1") as strikes:
        assert (strikes.suspect, strikes.out) == (None, {})


def test_a_shard_over_which_workers_die_for_ever_stops_the_job(tmp_path):
    note = tmp_path / "note"
    note.write_text("try\nbatch 1\n" * 100)
    with pytest.raises(RuntimeError, match="workers died 100 times over shard 1"):
        Strikes(note, "shard 1").__enter__()
