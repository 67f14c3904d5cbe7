"""``filter_dataset``: rows/s, peak memory, the same with ``kill -9`` at random points, and ``datasets.map``.

Run: python benchmarks/filtering.py [--rows 20000] [--scorer math] [--workers 1] [--folder DIR] [--stages …]

Stages: "whole" (an uninterrupted job), "killed" (the same, all processes killed with SIGKILL at random points and
started again), "compare" (both outputs sorted by id, and the work repeated), "map" (``datasets.map`` with the same
function, beside ours). With a --folder, stages may run in turns: a job that reaches --seconds is killed, and the next
call goes on with it. Each stage prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from stepgauge import load
from stepgauge.data.rows import from_row
from stepgauge.filtering import ProcessPool, Rule, filter_dataset
from stepgauge.filtering.judging import decide, score_rollouts
from stepgauge.scoring import Scorer

BATCH = 256
RULES = {"math": "aggregate >= 0.5 and verdict == 'equal'", "embedded": "aggregate >= 0.5"}
FATES = ("kept", "dropped", "quarantined")


def row(number: int) -> dict[str, Any]:
    """A distinct problem; every third answer is wrong, and the right ones are written in three ways."""
    a, b = number, number % 97 + 2
    total = a + b if number % 3 else a + b + 1
    answer = (f"{total}", f"\\frac{{{2 * total}}}{{2}}", f"{total}.0")[number % 7 % 3]
    steps = [f"We add {b} to {a}.", f"{a} + {b} = {total}.", f"The answer is \\boxed{{{answer}}}."]
    return {"id": f"r{number:07d}", "problem": f"What is {a} + {b}?", "steps": steps, "gold": str(a + b)}


def write_lines(path: Path, rows: int) -> Path:
    if not path.exists():
        with path.with_suffix(".part").open("w") as stream:
            stream.writelines(json.dumps(row(number)) + "\n" for number in range(rows))
        path.with_suffix(".part").rename(path)
    return path


class Counted(Scorer):
    """Another scorer; notes the size of each batch in a file before it scores it."""

    def __init__(self, spec: str, log: str) -> None:
        self.inner = load(spec)
        self.name, self.kind, self.log = spec, self.inner.kind, log

    @property
    def fingerprint(self) -> str:
        return self.inner.fingerprint

    def score_batch(self, rollouts, *, deadline_s=None, progress=None):
        if rollouts:
            with open(self.log, "ab", buffering=0) as stream:
                stream.write(b"%d\n" % len(rollouts))
        return self.inner.score_batch(rollouts, deadline_s=deadline_s, progress=progress)


class Seen:
    """How many rows a scorer has begun, from its log; reads only what is new."""

    def __init__(self, log: Path) -> None:
        self.log, self.at, self.rows = log, 0, 0

    def __call__(self) -> int:
        if self.log.exists():
            with self.log.open("rb") as stream:
                stream.seek(self.at)
                content = stream.read()
            self.at += len(content)
            self.rows += sum(map(int, content.split()))
        return self.rows


def job(source: str, scorer: str, out: str, log: str, workers: str) -> None:
    """What the processes that may be killed do."""
    named = {scorer: Counted(scorer, log)}
    filter_dataset(source, named, RULES[scorer], out, runner=ProcessPool(int(workers)), batch_rows=BATCH)


def memory(process: psutil.Process) -> tuple[int, int]:
    """(sum, largest) resident bytes of a process and its children."""
    found = []
    for one in [process, *process.children(recursive=True)]:
        try:
            found.append(one.memory_info().rss)
        except psutil.NoSuchProcess:
            continue
    return sum(found), max(found, default=0)


def watched(command: list[str], seen: Seen, rows: int, ends: Iterator[int], until: float) -> dict[str, Any]:
    """Run a job, again and again where it is killed, until it ends or time is up."""
    peak = largest = early = kills = 0
    started = time.perf_counter()
    end = next(ends, None)
    while True:
        process = subprocess.Popen(command, start_new_session=True)
        watch = psutil.Process(process.pid)
        while process.poll() is None:
            try:
                total, one = memory(watch)
            except psutil.NoSuchProcess:
                break
            peak, largest = max(peak, total), max(largest, one)
            if seen() < rows / 10:
                early = peak
            late = time.monotonic() > until
            if late or (end is not None and seen() >= end):
                os.killpg(process.pid, signal.SIGKILL)
                kills += 1
                process.wait()
                end = end if late else next(ends, None)
                break
            time.sleep(0.05 if end is not None else 0.25)
        code = process.wait()
        if code == 0 or time.monotonic() > until:
            break
        assert code == -signal.SIGKILL, f"the job ended with {code}"
    return {
        "done": code == 0,
        "seconds": time.perf_counter() - started,
        "kills": kills,
        "peak_mib": round(peak / 2**20),
        "peak_first_tenth_mib": round(early / 2**20),
        "largest_process_mib": round(largest / 2**20),
    }


def stage(options: argparse.Namespace, name: str) -> dict[str, Any]:
    """One job, or a further piece of it; adds to what earlier pieces noted."""
    folder = Path(options.folder)
    source = write_lines(folder / "rows.jsonl", options.rows)
    log, notes = folder / f"{name}.log", folder / f"{name}.json"
    seen = Seen(log)
    before = json.loads(notes.read_text()) if notes.exists() else {}
    kills = options.kills if name == "killed" else 0
    points = sorted(random.Random(options.seed).sample(range(1, options.rows), kills))[before.get("kills_planned", 0) :]
    command = [sys.executable, __file__, "--job", str(source), options.scorer, str(folder / name), str(log)]
    until = time.monotonic() + options.seconds
    found = watched([*command, str(options.workers)], seen, options.rows, iter(points), until)
    for key in ("seconds", "kills"):
        found[key] += before.get(key, 0)
    for key in ("peak_mib", "largest_process_mib"):
        found[key] = max(found[key], before.get(key, 0))
    found["peak_first_tenth_mib"] = before.get("peak_first_tenth_mib") or found["peak_first_tenth_mib"]
    passed = [point for point in points if point <= seen()]
    found["kills_planned"] = before.get("kills_planned", 0) + len(passed)
    notes.write_text(json.dumps(found))
    shown = {"rows": options.rows, "workers": options.workers, "rows_per_s": round(seen() / found["seconds"])}
    return shown | found | {"seconds": round(found["seconds"], 1), "scored": seen()}


def compare(options: argparse.Namespace) -> dict[str, Any]:
    """Both outputs, sorted by id, and how much was scored more than once."""
    import pyarrow.parquet as pq

    folder, same, counts = Path(options.folder), {}, {}
    for fate in FATES:
        sides = [sorted((folder / name / fate).glob("part-*.parquet")) for name in ("whole", "killed")]
        tables = [pq.read_table(side).sort_by("id") if side else None for side in sides]
        same[fate] = tables[0] == tables[1]
        counts[fate] = 0 if tables[0] is None else len(tables[0])
        if tables[0] is not None:
            assert len(set(tables[0]["id"].to_pylist())) == len(tables[0])
    notes = json.loads((folder / "killed.json").read_text())
    repeated = Seen(folder / "killed.log")() - options.rows
    limit = notes["kills"] * BATCH * options.workers
    return {"same": same, **counts, "kills": notes["kills"], "repeated": repeated, "at_most": limit}


def against_map(options: argparse.Namespace) -> dict[str, Any]:
    """``datasets.map`` and ``filter`` with the same scorer and rule, parquet out; the best of some turns each."""
    import datasets

    datasets.disable_progress_bars()
    scorer, rule = {options.scorer: load(options.scorer)}, Rule(RULES[options.scorer], (options.scorer,))
    rows = min(options.rows, options.map_rows)

    def judged(batch: dict[str, list[Any]]) -> dict[str, list[Any]]:
        rollouts = [from_row(dict(zip(batch, values, strict=True))) for values in zip(*batch.values(), strict=True)]
        found = score_rollouts(rollouts, scorer).scores
        decisions = [decide(rollout, scores, rule) for rollout, scores in zip(rollouts, found, strict=True)]
        columns = {name: [one.row[name] for one in decisions] for name in decisions[0].row}
        return columns | {"fate": [one.fate for one in decisions]}

    ours, theirs = [], []
    for _ in range(options.turns):
        with tempfile.TemporaryDirectory() as made:
            source = write_lines(Path(made) / "rows.jsonl", rows)
            started = time.perf_counter()
            done = filter_dataset(
                source, scorer, rule.text, Path(made) / "out", runner=ProcessPool(options.workers), batch_rows=BATCH
            )
            ours.append(time.perf_counter() - started)
            started = time.perf_counter()
            cache = str(Path(made) / "cache")
            table = datasets.load_dataset("json", data_files=str(source), split="train", cache_dir=cache)
            processes = options.workers if options.workers > 1 else None
            table = table.map(judged, batched=True, batch_size=BATCH, num_proc=processes)
            kept = table.filter(lambda fate: fate == "kept", input_columns="fate", num_proc=processes)
            kept.to_parquet(str(Path(made) / "kept.parquet"))
            theirs.append(time.perf_counter() - started)
            assert len(kept) == done.kept
    return {
        "rows": rows,
        "workers": options.workers,
        "filter_dataset_rows_per_s": round(rows / min(ours)),
        "datasets_map_rows_per_s": round(rows / min(theirs)),
        "ratio": round(min(theirs) / min(ours), 2),
        "seconds": {"filter_dataset": [round(t, 1) for t in ours], "datasets_map": [round(t, 1) for t in theirs]},
    }


def main() -> None:
    if sys.argv[1:2] == ["--job"]:
        job(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--scorer", choices=RULES, default="math")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=3_600.0, help="of a job, after which it is killed")
    parser.add_argument("--map-rows", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--folder", help="keeps rows and jobs between calls")
    parser.add_argument("--stages", default="whole,killed,compare,map")
    options = parser.parse_args()
    made = None if options.folder else tempfile.mkdtemp()
    options.folder = options.folder or made
    Path(options.folder).mkdir(parents=True, exist_ok=True)
    names = ("pyarrow", "datasets", "numpy")
    about = {"machine": f"{platform.machine()}, {os.cpu_count()} cores", "python": platform.python_version()}
    about |= {name: version(name) for name in names}
    try:
        for name in options.stages.split(","):
            made_of = {"compare": compare, "map": against_map}.get(name)
            result = made_of(options) if made_of else stage(options, name)
            print(json.dumps({"stage": name, "scorer": options.scorer} | result | about), flush=True)
    finally:
        if made is not None:
            shutil.rmtree(made)


if __name__ == "__main__":
    main()
