"""What the commands share: options, reading with a report of bad rows, progress, output."""

from __future__ import annotations

import itertools
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from stepgauge.data import BadRow, read_rollouts, read_rows, write_rows
from stepgauge.loading import load
from stepgauge.scoring import Rollout, Scorer, StepScores

SHOWN_BAD_ROWS = 10
BATCH = 256
LOG_EVERY_S = 30.0

Source = Annotated[
    str,
    typer.Argument(
        metavar="ROLLOUTS",
        help="JSONL, parquet or a datasets folder; '-' = JSONL on stdin; 'bundled' = the real rollouts in the package. "
        "Rows: problem + steps (or text, which is split), gold, id; or problem_id, problem, gold, sample_id, text.",
    ),
]
ScorerOption = Annotated[
    str, typer.Option("--scorer", "-s", help="Scorer, or several with commas; `stepgauge scorers` lists them.")
]
SplitOption = Annotated[
    str,
    typer.Option(
        "--split", help="How a text becomes steps: auto, blank_line, newline, step_label, numbered, sentence."
    ),
]
GoldOption = Annotated[
    str | None, typer.Option("--gold-field", help="Column that holds the gold answer, where it is not called 'gold'.")
]
OutOption = Annotated[
    str | None,
    typer.Option(
        "--out",
        "-o",
        help="Write rows here: .jsonl, .parquet, or a new datasets folder (no suffix); written whole or not at all.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON on stdout, for machines.")]
LimitOption = Annotated[int | None, typer.Option("--limit", min=1, help="Read this many rollouts at most.")]


def load_scorers(names: str) -> dict[str, Scorer]:
    """``"a,b"`` to scorers by name."""
    specs = [name.strip() for name in names.split(",") if name.strip()]
    if not specs:
        raise ValueError("--scorer needs a name, for example --scorer embedded; `stepgauge scorers` lists them")
    return {spec: load(spec) for spec in specs}


class BadRows:
    """Counts unreadable rows and shows the first few, with their place."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, bad: BadRow) -> None:
        """Report one bad row."""
        self.skip(str(bad))

    def skip(self, what: str) -> None:
        """Count and show one row that is left out."""
        self.count += 1
        if self.count <= SHOWN_BAD_ROWS:
            typer.echo(f"skipped {one_line(what, 300)}", err=True)
        elif self.count == SHOWN_BAD_ROWS + 1:
            typer.echo("skipped more rows; the count follows", err=True)

    def report(self, good: int) -> None:
        """The count, if any; where no row was readable, exit code 1."""
        if self.count:
            typer.echo(f"{self.count} of {self.count + good} rows were skipped as unreadable", err=True)
        if good == 0:
            typer.echo("error: no usable rows; each needs a problem and steps (or text)", err=True)
            raise typer.Exit(1)


def read(source: str, bad: BadRows, *, split: str, gold_field: str | None, limit: int | None) -> Iterator[Rollout]:
    """The rollouts of a source, at most ``limit``; bad rows are reported and skipped."""
    return itertools.islice(read_rollouts(source, gold_field=gold_field, how=split, on_bad=bad), limit)


@contextmanager
def progress_bar(
    label: str, total: int | None = None, note: Callable[[], str] = str
) -> Iterator[Callable[[int], None]]:
    """Progress on stderr for work of more than a second: a bar with the time left; in a log, a line every 30 s.

    ``note`` is asked for a few words to show besides.
    """
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Progress(*columns, TextColumn("left"), TimeRemainingColumn(), console=console, transient=True)
    task = bar.add_task(label, total=total)
    started = time.monotonic()
    next_line, done, shown = started + LOG_EVERY_S, 0, False

    def advance(count: int) -> None:
        nonlocal next_line, done, shown
        done += count
        now = time.monotonic()
        bar.update(task, advance=count, description=f"{label}{note()}")
        if console.is_terminal and not shown and now - started > 1:
            bar.start()
            shown = True
        elif not console.is_terminal and now >= next_line:
            next_line = now + LOG_EVERY_S
            rate = done / (now - started)
            left = "" if total is None else f" of {total}, {(total - done) / rate:.0f} s left"
            typer.echo(f"{label}: {done}{left}, {rate:.0f} a second{note()}", err=True)

    try:
        yield advance
    finally:
        if shown:
            bar.stop()


def batches(rollouts: Iterable[Rollout]) -> Iterator[list[Rollout]]:
    """Lists of at most ``BATCH`` rollouts."""
    iterator = iter(rollouts)
    while batch := list(itertools.islice(iterator, BATCH)):
        yield batch


def print_json(row: Mapping[str, Any] | Sequence[Any]) -> None:
    """One line of strict JSON on stdout, in ASCII: model text cannot steer a terminal."""
    typer.echo(json.dumps(row, allow_nan=False))


class Failures:
    """Remembers why a scorer failed, to say so once at the end."""

    def __init__(self) -> None:
        self.first: dict[str, str] = {}
        self.count = 0

    def note(self, name: str, scores: StepScores) -> None:
        """Look at one result."""
        if scores.status == "error":
            self.count += 1
            self.first.setdefault(name, str(scores.summary.get("message")))

    def report(self, total: int) -> None:
        """Say what failed first; where everything failed, exit code 1."""
        for name, message in self.first.items():
            typer.echo(f"{name} failed on some rollouts, first with: {one_line(message, 300)}", err=True)
        if self.count == total > 0:
            typer.echo("error: no rollout could be scored", err=True)
            raise typer.Exit(1)


def one_line(text: str, width: int = 60) -> str:
    """Text on one line, control characters removed, cut to ``width``: model text cannot steer the terminal."""
    flat = "".join(c if c.isprintable() else " " for c in text)
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def write_verdicts(
    source: str,
    judge: Callable[[dict[str, Any]], Any],
    *,
    label: str,
    out: str | None,
    json_lines: bool,
) -> None:
    """Judge every row of a file and write id, verdict, reason and ms of each; rows that cannot be judged are skipped.

    ``judge`` gives an object with ``verdict``, ``reason`` and ``ms``, and raises KeyError, TypeError or ValueError for
    a row that is not as it should be.
    """
    bad, counts = BadRows(), Counter[str]()

    def rows() -> Iterator[dict[str, Any]]:
        with progress_bar(label) as advance:
            for line, row in read_rows(source, on_bad=bad):
                try:
                    verdict = judge(row)
                except (KeyError, TypeError, ValueError) as error:
                    bad(BadRow(source, line, str(error.args[0])))
                    continue
                counts[verdict.verdict] += 1
                advance(1)
                yield {
                    "id": row.get("id", str(line)),
                    "verdict": verdict.verdict,
                    "reason": verdict.reason,
                    "ms": round(verdict.ms, 4),
                }

    if out is not None:
        write_rows(out, rows())
    else:
        for row in rows():
            if json_lines:
                print_json(row)
            else:
                typer.echo(f"{one_line(str(row['id']))}\t{row['verdict']}\t{one_line(row['reason'])}")
    bad.report(counts.total())
    summary = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
    typer.echo(f"{counts.total()} verdicts: {summary}" + (f"; wrote {out}" if out else ""), err=True)
