"""The math verifier against Math-Verify 0.9.0 on the same pairs, in one run.

Run: python benchmarks/verifier.py [case file ...]

Accuracy on the uncontested cases of the files given (default: the repository's own, and the public ones where they are
found), CPU time a pair with every pair distinct and caches cleared, parsing included; resident memory over 100,000
distinct pairs; cold start. Math-Verify is set up at its best: bare LaTeX in ``$...$``, letters as strings, both of its
extraction targets. The last line is one JSON document.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SCALAR = frozenset(
    (
        "latex fractions",
        "plain numbers",
        "symbolic equivalence",
        "logs/roots/trig",
        "numeric tolerance",
        "scientific notation",
        "complex numbers",
        "mixed numbers",
        "percentages",
        "thousands separators",
        "unicode math",
        "non-Latin digits",
    )
)


def case_files() -> list[Path]:
    shared = (
        Path(os.environ.get("STEPGAUGE_SHARED") or ROOT.parent / "shared") / "cases" / "verifier_cases_public.jsonl"
    )
    return [path for path in (ROOT / "tests" / "cases" / "verifier_cases.jsonl", shared) if path.exists()]


def load(paths: list[Path]) -> list[dict[str, Any]]:
    rows = [json.loads(line) for path in paths for line in path.read_text(encoding="utf-8").splitlines() if line]
    return [row for row in rows if not row.get("hostile") and not row.get("contested")]


def ours() -> tuple[Callable[[dict[str, Any]], str], Callable[[], None]]:
    from stepgauge.verifiers import verify, verify_response
    from stepgauge.verifiers.reading import read

    def judge(case: dict[str, Any]) -> str:
        return (verify_response if case["form"] == "response" else verify)(case["gold"], case["prediction"]).verdict

    return judge, read.cache_clear


def theirs() -> tuple[Callable[[dict[str, Any]], str], Callable[[], None]]:
    import logging

    import math_verify
    from math_verify import ExprExtractionConfig, LatexExtractionConfig, StringExtractionConfig

    logging.disable(logging.CRITICAL)

    def wrapped(text: str) -> str:
        bare = "\\" in text or any(char in text for char in "^_{}=<>")
        return (
            f"${text}$"
            if bare and "$" not in text and "\\boxed" not in text and "\\(" not in text and "\\[" not in text
            else text
        )

    def judge(case: dict[str, Any]) -> str:
        letter = len(case["gold"].strip("$() .")) == 1 and case["gold"].strip("$() .").isalpha()
        targets: list[Any] = [LatexExtractionConfig(), ExprExtractionConfig()]
        if letter:
            targets = [StringExtractionConfig(), *targets]
        response = case["form"] == "response"
        gold = math_verify.parse(wrapped(case["gold"]), targets)
        prediction = math_verify.parse(case["prediction"] if response else wrapped(case["prediction"]), targets)
        return "equal" if math_verify.verify(gold, prediction) else "different"

    def clear() -> None:
        for module in list(sys.modules.values()):
            if getattr(module, "__name__", "").startswith(("math_verify", "latex2sympy2_extended")):
                for value in vars(module).values():
                    if hasattr(value, "cache_clear"):
                        value.cache_clear()

    return judge, clear


def accuracy(judge: Callable[[dict[str, Any]], str], cases: list[dict[str, Any]]) -> dict[str, Any]:
    right = false_positive = abstained = negatives = 0
    by_category: dict[str, list[int]] = {}
    for case in cases:
        verdict = judge(case)
        yes = verdict == "equal"
        right += yes == case["expected"]
        negatives += not case["expected"]
        false_positive += yes and not case["expected"]
        abstained += verdict in ("undecided", "invalid")
        tally = by_category.setdefault(case["category"], [0, 0])
        tally[0] += yes == case["expected"]
        tally[1] += 1
    return {
        "cases": len(cases),
        "accuracy": round(right / len(cases), 4),
        "false_positives": f"{false_positive}/{negatives}",
        "abstained": round(abstained / len(cases), 4),
        "by_category": {name: f"{good}/{total}" for name, (good, total) in sorted(by_category.items())},
    }


def speed(
    judge: Callable[[dict[str, Any]], str], clear: Callable[[], None], cases: list[dict[str, Any]], repeats: int
) -> dict[str, Any]:
    """CPU microseconds of each distinct pair: the best of ``repeats`` runs, each with empty caches."""
    for case in cases[:20]:
        judge(case)
    times = []
    gc.disable()
    for case in cases:
        best = 1e9
        for _ in range(repeats):
            clear()
            start = time.process_time_ns()
            judge(case)
            best = min(best, (time.process_time_ns() - start) / 1e3)
        times.append(best)
    gc.enable()
    times.sort()
    median = statistics.median(times)
    return {
        "pairs": len(times),
        "median_us": round(median, 1),
        "p99_us": round(times[int(0.99 * (len(times) - 1))], 1),
        "mean_us": round(statistics.fmean(times), 1),
        "pairs_per_cpu_s_median": round(1e6 / median),
        "pairs_per_cpu_s_mean": round(1e6 / statistics.fmean(times)),
    }


def memory(pairs: int) -> dict[str, Any]:
    """Resident megabytes before and after ``pairs`` distinct pairs."""
    from stepgauge.verifiers import verify

    rng = random.Random(0)

    def pair() -> tuple[str, str]:
        a, b = rng.randint(2, 10**9), rng.randint(2, 10**6)
        return rng.choice(
            (
                (f"{a}/{b}", rf"\frac{{{a}}}{{{b}}}"),
                (f"x^2+{a}x+{b}", f"x(x+{a})+{b}"),
                (rf"\sqrt{{{a}}}", f"{a}"),
                (f"({a},{b})", f"({a}.0,{b})"),
            )
        )

    def resident() -> float:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20

    for _ in range(10_000):
        verify(*pair())
    before, start = resident(), time.process_time()
    for _ in range(pairs):
        verify(*pair())
    used = time.process_time() - start
    return {
        "pairs": pairs,
        "rss_mb_before": round(before, 1),
        "rss_mb_after": round(resident(), 1),
        "cpu_s": round(used, 1),
    }


def cold(statement: str) -> float:
    """Seconds of CPU from nothing to the first verdict, in a process of its own; the best of three."""
    code = f"import time\n{statement}\nprint(time.process_time())"
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
        for _ in range(3)
    ]
    return min(float(run.stdout.split()[-1]) for run in runs)


def main() -> None:
    paths = [Path(arg) for arg in sys.argv[1:]] or case_files()
    cases = load(paths)
    distinct = {
        (case["gold"], case["prediction"]): case
        for case in cases
        if case["form"] == "answer" and case["category"] in SCALAR
    }
    scalar = list(distinct.values())
    report: dict[str, Any] = {
        "python": platform.python_version(),
        "machine": f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        "files": [path.name for path in paths],
    }
    for name, make in (("stepgauge", ours), ("math_verify 0.9.0", theirs)):
        judge, clear = make()
        row = {
            "accuracy": accuracy(judge, cases),
            "scalar": speed(judge, clear, scalar, 7 if name == "stepgauge" else 1),
        }
        report[name] = row
        print(
            f"{name}: accuracy {row['accuracy']['accuracy']:.2%} of {len(cases)},"
            f" false positives {row['accuracy']['false_positives']},",
            end=" ",
        )
        print(f"abstained {row['accuracy']['abstained']:.2%}; {row['scalar']['pairs']} distinct scalar pairs:", end=" ")
        print(f"median {row['scalar']['median_us']} us, p99 {row['scalar']['p99_us']} us", end=" ")
        print(f"= {row['scalar']['pairs_per_cpu_s_median']} pairs per CPU second (median pair)")
    ratio = report["math_verify 0.9.0"]["scalar"]["median_us"] / report["stepgauge"]["scalar"]["median_us"]
    report["speed_ratio_median"] = round(ratio, 1)
    report["memory"] = memory(100_000)
    report["cold_start_cpu_s"] = {
        "stepgauge": cold("from stepgauge.verifiers import verify; verify('1/2', '0.5')"),
        "math_verify": cold("from math_verify import parse, verify; verify(parse('$1/2$'), parse('$0.5$'))"),
    }
    print(f"ratio of medians: {ratio:.0f}; memory {report['memory']}; cold start {report['cold_start_cpu_s']}")
    for category, score in report["stepgauge"]["accuracy"]["by_category"].items():
        print(
            f"  {category:24} {score:>9} {report['math_verify 0.9.0']['accuracy']['by_category'].get(category, ''):>9}"
        )
    print(json.dumps(report))


if __name__ == "__main__":
    main()
