"""How fast and how sure the code sandboxes are.

Starts a second and milliseconds a test for each sandbox of this machine, then 1,000 programs of which 1 % are bombs:
are the verdicts right, and is anything left running? A table for people; the last line is JSON.

    python benchmarks/code_sandbox.py [--programs 1000]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import time
from importlib.util import find_spec
from pathlib import Path

import stepgauge
from stepgauge import Rollout
from stepgauge.verifiers.code_answers import CodeScorer
from stepgauge.verifiers.code_judging import run_tests
from stepgauge.verifiers.code_tests import CallTest, CheckTest, CodeTests, StdinTest
from stepgauge.verifiers.sandbox import Limits, choose_sandbox

CALLS = 50
PROGRAM = "def f(x):\n    return sorted(x)\n"
TESTS = {
    "call": CodeTests(tuple(CallTest("f", ([n, 1],), sorted([n, 1])) for n in range(CALLS))),
    "stdin": CodeTests(tuple(StdinTest(f"{n}\n", f"{n + 1}\n") for n in range(CALLS))),
    "check": CodeTests(tuple(CheckTest(f"assert f([{n}, 1])[-1] == max({n}, 1)", ("f",)) for n in range(CALLS))),
}
PROGRAMS = {"call": PROGRAM, "stdin": "print(int(input()) + 1)", "check": PROGRAM}

TASK = CodeTests(
    (
        CallTest("f", (5,), 120),
        CallTest("f", (0,), 1),
        CallTest("f", (20,), 2432902008176640000),
        CallTest("f", (1,), 1),
    )
)
RIGHT = "def f(n):\n    out = 1\n    for i in range(2, n + 1):\n        out *= i\n    return out\n"
WRONG = RIGHT.replace("n + 1", "n")
BOMBS = {
    "fork": (
        "import os\ndef f(n):\n    while True:\n        try:\n            os.fork()\n"
        "        except OSError:\n            pass\n"
    ),
    "memory": "def f(n):\n    a = []\n    while True:\n        a.append(bytearray(10**7))\n",
    "loop": "def f(n):\n    while True:\n        pass\n",
    "wait": "import time\ndef f(n):\n    time.sleep(10**6)\n",
    "output": "import os\ndef f(n):\n    while True:\n        os.write(4, b'y' * 60000)\n",
}


def sandboxes() -> list[str]:
    """The sandboxes of this machine."""
    bwrap = ["bubblewrap"] if shutil.which("bwrap") else []
    sandlock = ["sandlock"] if find_spec("sandlock") else []
    return [*bwrap, *sandlock, "unsafe-subprocess"]


def measure(spec: str, repeat: int) -> list[dict[str, object]]:
    """One row a kind of test: the first test with its start, and each further one, ms."""
    rows = []
    for kind, tests in TESTS.items():
        first, further = [], []
        for _ in range(repeat):
            started = time.perf_counter()
            verdicts = run_tests(PROGRAMS[kind], tests, choose_sandbox(spec), Limits())
            whole = (time.perf_counter() - started) * 1000
            assert all(verdict.passed for verdict in verdicts), (spec, kind)
            first.append(whole - sum(verdict.ms for verdict in verdicts[1:]))
            further += [verdict.ms for verdict in verdicts[1:]]
        row = {"sandbox": spec, "kind": kind, "runs": repeat, "starts_per_s": 1000 / statistics.median(first)}
        for name, values in (("start_ms", first), ("test_ms", further)):
            ordered = sorted(values)
            for quantile in (20, 50, 80):
                row[f"{name}_p{quantile}"] = round(ordered[int(len(ordered) * quantile / 100)], 3)
        rows.append(row)
    return rows


def descendants() -> int:
    """Processes below this one."""
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z":
                parents[int(folder.name)] = int(fields[1])
    found = {os.getpid()}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return len(found) - 1


def many(spec: str, count: int) -> dict[str, object]:
    """``count`` programs, 1 % of them bombs, half of the rest right."""
    programs = []
    for index in range(count):
        bomb = list(BOMBS.values())[index // 100 % len(BOMBS)] if index % 100 == 50 else None
        program = bomb or (RIGHT if index % 2 else WRONG)
        programs.append((f"# {index}\n{program}", 0.0 if bomb or index % 2 == 0 else 1.0))
    rollouts = [Rollout("", (program,), reference=TASK) for program, _ in programs]
    started = time.perf_counter()
    with CodeScorer(spec, cpu_s=2, wall_s=6) as scorer:
        results = scorer.score_batch(rollouts)
    seconds = time.perf_counter() - started
    time.sleep(0.5)
    right = sum(scores.values == (value,) for scores, (_, value) in zip(results, programs, strict=True))
    return {
        "sandbox": spec,
        "programs": count,
        "bombs": sum(index % 100 == 50 for index in range(count)),
        "right_verdicts": right,
        "errors": sum(scores.status == "error" for scores in results),
        "left_running": descendants(),
        "seconds": round(seconds, 1),
        "programs_per_s": round(count / seconds, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=20)
    arguments = parser.parse_args()
    rows = [row for spec in sandboxes() for row in measure(spec, arguments.repeat)]
    print(f"{'sandbox':<18} {'tests':<6} {'starts/s':>8} {'start ms':>9} {'ms a test, p20 p50 p80':>26}")
    for row in rows:
        further = " ".join(f"{row[f'test_ms_p{quantile}']:8.2f}" for quantile in (20, 50, 80))
        print(f"{row['sandbox']:<18} {row['kind']:<6} {row['starts_per_s']:8.1f} {row['start_ms_p50']:9.1f} {further}")
    # the plain subprocess gets no bombs: it is no sandbox
    bombs = [many(spec, arguments.programs) for spec in sandboxes() if spec != "unsafe-subprocess"]
    for row in bombs:
        print(
            f"{row['sandbox']}: {row['programs']} programs with {row['bombs']} bombs: {row['right_verdicts']} right "
            f"verdicts, {row['errors']} errors, {row['left_running']} processes left; {row['seconds']} s, "
            f"{row['programs_per_s']} programs/s"
        )
    machine = {
        "version": stepgauge.__version__,
        "python": platform.python_version(),
        "kernel": platform.release(),
        "cpus": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "root": os.geteuid() == 0,
    }
    print(json.dumps({"benchmark": "code_sandbox", "machine": machine, "tests": rows, "bombs": bombs}))


if __name__ == "__main__":
    main()
