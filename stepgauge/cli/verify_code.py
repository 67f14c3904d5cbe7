"""``stepgauge verify --code``: rows with a program and its tests, judged in a sandbox."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import typer

from stepgauge.cli.common import BATCH, BadRows, one_line, print_json, progress_bar
from stepgauge.data import BadRow, read_rows, write_rows
from stepgauge.scoring import Rollout, StepScores
from stepgauge.verifiers.code_answers import CodeScorer
from stepgauge.verifiers.code_formats import read_tests
from stepgauge.verifiers.sandbox import Limits, SandboxError, choose_sandbox

PROGRAM_COLUMNS = ("program", "completion", "response", "prediction", "solution", "code")


def verify_code(source: str, *, sandbox: str, out: str | None, json_lines: bool) -> None:
    """Judge the program of each row against its tests; write or print a row a program."""
    level = _level(sandbox)
    protects = "; this protects nothing: programs run as you, on this machine" if level == "unsafe-subprocess" else ""
    typer.echo(f"sandbox: {level}{protects}", err=True)
    bad, counts = BadRows(), Counter[str]()

    def rows() -> Iterator[dict[str, Any]]:
        with CodeScorer(sandbox) as scorer, progress_bar("testing programs") as advance:
            rollouts = _rollouts(source, bad)
            while batch := list(itertools.islice(rollouts, BATCH)):
                for rollout, scores in zip(batch, scorer.score_batch(batch, progress=advance), strict=True):
                    row = _row(rollout.id, scores)
                    counts[row["verdict"]] += 1
                    yield row

    if out is not None:
        write_rows(out, rows())
    else:
        for row in rows():
            if json_lines:
                print_json(row)
            else:
                passed = f"{row['passed']}/{row['tests']}"
                typer.echo(f"{one_line(row['id'])}\t{row['verdict']}\t{passed}\t{one_line(row['reason'], 120)}")
    bad.report(counts.total())
    summary = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
    typer.echo(f"{counts.total()} programs: {summary}" + (f"; wrote {out}" if out else ""), err=True)


def _level(sandbox: str) -> str:
    """What runs the programs. Raises ValueError where it does not work: better now than as an error in every row."""
    chosen = choose_sandbox(sandbox)
    try:
        with chosen.open("print(1)", Limits()) as program:
            program.run("")
        return chosen.level
    except SandboxError as error:
        raise ValueError(str(error)) from error


def _rollouts(source: str, bad: BadRows) -> Iterator[Rollout]:
    for line, row in read_rows(source, on_bad=bad):
        try:
            yield Rollout("", (_program(row),), reference=read_tests(row), id=_id(row, line))
        except (TypeError, ValueError) as error:
            bad(BadRow(source, line, str(error)))


def _program(row: Mapping[str, Any]) -> str:
    steps = row.get("steps")
    if isinstance(steps, list) and all(isinstance(step, str) for step in steps):
        return "".join(step if step.endswith("\n") else step + "\n" for step in steps)
    for name in PROGRAM_COLUMNS:
        if isinstance(row.get(name), str):
            return str(row[name])
    raise ValueError(f"found no program in this row; give it as text in one of: steps, {', '.join(PROGRAM_COLUMNS)}")


def _id(row: Mapping[str, Any], line: int) -> str:
    return str(next((row[name] for name in ("id", "task_id", "question_id") if row.get(name) is not None), line))


def _row(name: str, scores: StepScores) -> dict[str, Any]:
    summary = scores.summary
    tests = list(scores.details[-1].get("tests", ())) if scores.details else []
    return {
        "id": name,
        "verdict": summary["verdict"] if scores.status == "ok" else scores.status,
        "passed": summary.get("passed", 0),
        "tests": summary.get("tests", 0),
        "reason": " ".join(str(summary[key]) for key in ("reason", "message") if summary.get(key)),
        "sandbox": summary.get("sandbox"),
        "ms": round(sum(test["ms"] for test in tests), 1),
        "details": tests,
    }
