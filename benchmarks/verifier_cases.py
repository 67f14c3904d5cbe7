"""The math verifier on files of cases: accuracy by category, false positives, abstentions; what hostile items cost.

    python benchmarks/verifier_cases.py CASES.jsonl [...]

A case has gold, prediction, expected (true = the same answer) and, where it applies, form, category, contested and
hostile; texts too long to write down are given as prefix, unit, times and suffix. Verdict "equal" is yes, all else no.
Of each hostile item: wall seconds, and the MB that it added to the peak of this process and of the verifier's workers.
The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

from stepgauge.verifiers import verify, verify_response


def cases_of(path: Path) -> list[dict[str, Any]]:
    """The cases of a file, long texts written out."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    for row in rows:
        for name in ("gold", "prediction"):
            if made := row.get(f"{name}_gen"):
                row[name] = made["prefix"] + made["unit"] * made["times"] + made["suffix"]
            row[name] = row[name].replace("{MARKER}", "/tmp/stepgauge_marker")
    return rows


def _mb(process: str, field: str) -> float:
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    except OSError:  # it has ended
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith(field)), 0.0)


def _descendants(process: str = "self") -> list[str]:
    found = []
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        for child in children.read_text(encoding="utf-8").split():
            found += [child, *_descendants(child)]
    return found


def judged(row: dict[str, Any]) -> tuple[str, float, float]:
    """(verdict, wall seconds, MB added to the peak of this process and its workers)."""
    for process in ("self", *_descendants()):
        Path(f"/proc/{process}/clear_refs").write_text("5", encoding="utf-8")  # resets the high-water mark
    before = _mb("self", "VmRSS") + sum(_mb(child, "VmRSS") for child in _descendants())
    start = time.perf_counter()
    compare = verify if row.get("form") == "answer" else verify_response
    verdict = compare(row["gold"], row["prediction"]).verdict
    seconds = time.perf_counter() - start
    peak = _mb("self", "VmHWM") + sum(_mb(child, "VmHWM") for child in _descendants())
    return verdict, seconds, peak - before


def report(path: Path) -> dict[str, Any]:
    """Print a file's figures and return them."""
    right: Counter[str] = Counter()
    total: Counter[str] = Counter()
    false_positives, abstained, missed, hostile = 0, 0, [], []
    for row in cases_of(path):
        verdict, seconds, megabytes = judged(row)
        yes = verdict == "equal"
        if row.get("hostile"):
            hostile.append((seconds, megabytes, row["id"], yes == row["expected"]))
        if row.get("contested"):
            continue
        category = row.get("category", "")
        total[category] += 1
        right[category] += yes == row["expected"]
        false_positives += yes and not row["expected"]
        abstained += verdict in ("undecided", "invalid") and not row.get("hostile")
        if yes != row["expected"]:
            missed.append(row["id"])
    count = total.total()
    found = {
        "file": path.name,
        "uncontested": count,
        "accuracy": round(right.total() / count, 4),
        "false_positives": false_positives,
        "abstained": round(abstained / count, 4),
        "missed": missed,
        "hostile": len(hostile),
        "hostile_right": sum(ok for *_, ok in hostile),
        "hostile_max_s": round(max((seconds for seconds, *_ in hostile), default=0.0), 3),
        "hostile_max_mb": round(max((megabytes for _, megabytes, *_ in hostile), default=0.0), 1),
    }
    print(f"{path.name}: {found['accuracy']:.2%} of {count} uncontested cases right, {false_positives} false positives")
    print(f"  abstained on {found['abstained']:.2%} (hostile items not counted); missed: {missed or 'none'}")
    for category in sorted(total):
        print(f"  {category:32} {right[category]:4} of {total[category]:4}")
    for seconds, megabytes, name, ok in sorted(hostile, reverse=True)[:5]:
        print(f"  hostile {name}: {seconds:.3f} s, {megabytes:.1f} MB, {'right' if ok else 'WRONG'}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="CASES")
    print(json.dumps([report(path) for path in parser.parse_args().files]))


if __name__ == "__main__":
    main()
