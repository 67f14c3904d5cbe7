"""A Ray cluster of two workers, one of which is killed: every row once, the same rows as on one machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stepgauge.filtering import InProcess, filter_dataset
from stepgauge.filtering.ray_runner import RayActors
from tests.filtering.scorers import logged_rows
from tests.filtering.test_jobs import RULE, found_in, rows_of, write_lines

ROWS, SHARD, BATCH = 2_000, 100, 20

SCRIPT = """
import sys, threading, time
import psutil, ray
from ray.cluster_utils import Cluster
from stepgauge.filtering import filter_dataset
from stepgauge.filtering.ray_runner import RayActors
from tests.filtering.scorers import Logged, logged_rows

source, out, log, rule = sys.argv[1:5]
shard, batch = map(int, sys.argv[5:])
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
ray.init(address=cluster.address, log_to_driver=False)


def kill_one():
    while True:  # once both actors score, the node of one of them goes, at once
        time.sleep(0.1)
        if logged_rows(log)[2] < 2 or logged_rows(log)[1] < 300:
            continue
        pids = {int(line.split()[1]) for line in open(log) if line.endswith("\\n")}
        for node in nodes:
            raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
            if pids & {child.pid for child in raylet.children(recursive=True)}:
                cluster.remove_node(node, allow_graceful=False)
                print("killed at", logged_rows(log)[1], flush=True)
                return


threading.Thread(target=kill_one, daemon=True).start()
done = filter_dataset(
    source, {"math": Logged(log, 0.01)}, rule, out, runner=RayActors(2), shard_rows=shard, batch_rows=batch
)
print("done", done.rows, done.complete, len([node for node in ray.nodes() if node["Alive"]]), flush=True)
ray.shutdown()
cluster.shutdown()
"""


def test_ray_is_named_where_it_is_missing(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"pip install 'stepgauge\[ray\]'"):
        filter_dataset(rows_of(3), "math", RULE, tmp_path / "out", runner=RayActors())


def test_a_journal_is_refused(tmp_path):
    with pytest.raises(ValueError, match="a journal is for one machine"):
        filter_dataset(rows_of(3), "math", RULE, tmp_path / "out", runner=RayActors(), journal=tmp_path / "j")


@pytest.mark.slow
def test_every_row_once_where_one_of_two_workers_is_killed(tmp_path):
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'stepgauge[ray]'")
    source, log = write_lines(tmp_path / "in.jsonl", [*rows_of(ROWS - 1), "{broken"]), tmp_path / "log"
    (tmp_path / "cluster.py").write_text(SCRIPT)
    root = str(Path(__file__).parents[2])
    arguments = [source, tmp_path / "out", log, RULE, SHARD, BATCH]
    result = subprocess.run(
        [sys.executable, str(tmp_path / "cluster.py"), *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=root,
        env=os.environ | {"PYTHONPATH": root},
        timeout=400,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    killed, done = (line for line in result.stdout.splitlines() if line.startswith(("killed", "done")))
    assert killed.startswith("killed at ")
    assert done == f"done {ROWS} True 2"  # the head and the worker that is left
    filter_dataset(source, "math", RULE, tmp_path / "whole", runner=InProcess(), shard_rows=SHARD)
    assert found_in(tmp_path / "out") == found_in(tmp_path / "whole")
    _, scored, processes = logged_rows(log)
    assert processes >= 2
    assert ROWS - 1 <= scored <= ROWS - 1 + 2 * SHARD  # without a journal, a lost node costs the shards it was at
