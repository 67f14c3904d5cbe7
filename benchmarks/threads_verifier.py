"""32 threads, 10,000 pairs each, 1 % bombs: are all verdicts right, how long does it take, does a process stay behind?

Run: python benchmarks/threads_verifier.py [threads] [pairs]
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any

from stepgauge.verifiers import verify
from stepgauge.verifiers.symbolic import worker

_BOMBS = [
    "9^{9^{9^{9}}}", "((((9!)!)!)!)",
    "(" * 3000 + "1", "x" * 100_000, r"\boxed{" * 5000,
    r"\frac{1}{1+" * 200 + "1" + "}" * 200,
    "99999999^{99999999}", r"\sqrt[10^{10}]{2}", "|x" * 500, r"\sum_{k=0}^{10000000}\binom{10000000}{k}",
]  # fmt: skip
_STUBBORN = r"\int_0^1\int_0^1\int_0^1 e^{xyz} dx dy dz"  # only the worker's clock stops this one


def _pair(rng: random.Random, index: int) -> tuple[str, str, bool]:
    """A distinct pair and whether it is equal."""
    if index % 100 == 99:
        return "7", _STUBBORN if index == 99 else rng.choice(_BOMBS), False
    a, b = rng.randint(2, 10**6), rng.randint(2, 999)
    same = rng.random() < 0.5
    off = 0 if same else 1
    form = index % 5
    if form == 0:
        return f"{a}/{b}", rf"\frac{{{a + off}}}{{{b}}}", same
    if form == 1:
        return f"(x+{a})(x-{b})", f"x^2+{a - b + off}x-{a * b}".replace("+-", "-"), same
    if form == 2:
        return rf"{b}\sqrt{{{a}}}", rf"\sqrt{{{a * b * b + off}}}", same
    if form == 3:
        return f"[{b},{b + a})", rf"{b + off}\le x<{a + b}", same
    return rf"\{{{a},{b}\}}", f"{b + off}, {a}", same


def _children() -> set[int]:
    """Process ids of the living descendants of this process, the fork server aside."""
    from multiprocessing import forkserver, resource_tracker

    helpers = {forkserver._forkserver._forkserver_pid, resource_tracker._resource_tracker._pid}  # type: ignore[attr-defined]
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                continue
    found, frontier = set(), {os.getpid()}
    while frontier:
        frontier = {pid for pid, parent in parents.items() if parent in frontier}
        found |= frontier
    return {pid for pid in found if pid not in helpers}


def hammer(threads: int, pairs: int) -> dict[str, Any]:
    """Run it; counts of wrong verdicts, wall and CPU seconds, processes left over after ``close``."""
    wrong: list[tuple[str, str, str]] = []
    start, cpu = time.perf_counter(), time.process_time()

    def work(seed: int) -> None:
        rng = random.Random(seed)
        for index in range(pairs):
            gold, prediction, same = _pair(rng, index)
            verdict = verify(gold, prediction)
            if verdict.equal != same or verdict.reason.startswith("internal"):
                wrong.append((gold[:60], prediction[:60], verdict.verdict))

    pool = [threading.Thread(target=work, args=(seed,)) for seed in range(threads)]
    for thread in pool:
        thread.start()
    for thread in pool:
        thread.join()
    wall, used = time.perf_counter() - start, time.process_time() - cpu
    worker.close()
    time.sleep(0.5)
    return {
        "threads": threads,
        "pairs": threads * pairs,
        "wrong": len(wrong),
        "examples": wrong[:5],
        "wall_s": round(wall, 1),
        "cpu_s": round(used, 1),
        "left_over_processes": len(_children()),
        "left_over_threads": threading.active_count() - 1,
    }


def main() -> None:
    threads, pairs = (int(arg) for arg in sys.argv[1:3]) if len(sys.argv) > 2 else (32, 10_000)
    report = hammer(threads, pairs)
    for key, value in report.items():
        print(f"{key:>20}: {value}")
    print(json.dumps(report))


if __name__ == "__main__":
    main()
