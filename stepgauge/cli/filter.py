"""``stepgauge filter``."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from stepgauge.cli.common import (
    BadRows,
    Failures,
    GoldOption,
    ScorerOption,
    SplitOption,
    one_line,
    progress_bar,
    read,
)
from stepgauge.data import write_rows
from stepgauge.filtering import (
    FilterFailed,
    FilterProgress,
    FilterSummary,
    Rule,
    decide_rollouts,
    filter_dataset,
    named_scorers,
)
from stepgauge.filtering.chunks import Source as RowSource
from stepgauge.filtering.runners import ProcessPool, Runner
from stepgauge.scoring import Scorer

FILES = (".jsonl", ".jsonl.gz", ".parquet")
SHOWN_REASONS = 8


def filter_command(
    source: Annotated[
        str,
        typer.Argument(
            metavar="ROLLOUTS",
            help="JSONL, parquet, a datasets folder, or a folder of .jsonl and .parquet files; '-' = JSONL on stdin; "
            "'bundled'; 'stream:NAME:SPLIT' = a streaming dataset (a local path, or a hub name with --download).",
        ),
    ],
    out: Annotated[
        str,
        typer.Option(
            "--out",
            "-o",
            help="A folder: many rows, several processes, goes on after a kill. Or one file, .jsonl or .parquet.",
        ),
    ],
    scorer: ScorerOption = "embedded",
    keep: Annotated[
        str | None,
        typer.Option(
            help="The rule, as in \"aggregate >= 0.5 and verdict == 'equal'\"; columns: see docs/filtering.md."
        ),
    ] = None,
    min_aggregate: Annotated[
        float | None, typer.Option("--min-aggregate", help="Short for --keep 'aggregate >= X'.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Processes (or Ray actors), each with its own scorers; default: a core each."),
    ] = None,
    runner: Annotated[
        str, typer.Option(help="local, or ray (the cluster at RAY_ADDRESS, else this machine).")
    ] = "local",
    shard: Annotated[
        str | None, typer.Option(help="i/n, i from 0: this is job i of an array of n that share the folder.")
    ] = None,
    journal: Annotated[
        str | None, typer.Option(help="File of finished scores, to share between folders; default in the folder.")
    ] = None,
    shard_rows: Annotated[int, typer.Option(min=1, help="Rows of a part.")] = 4096,
    batch: Annotated[int, typer.Option(min=1, help="Rows scored at once; what a kill can lose, a process.")] = 256,
    split: SplitOption = "auto",
    gold_field: GoldOption = None,
    download: Annotated[bool, typer.Option("--download", help="Allow stream: to ask the hub.")] = False,
) -> None:
    """Keep the rollouts that meet a rule about their scores.

    Memory does not grow with the input. With a folder as --out, rows are sorted into kept/, dropped/ and quarantined/
    (why is said in a column), with summary.json; the same command started again goes on where it was killed. A rollout
    that could not be scored is never kept by accident: what the rule asks of it is unknown, and only true is kept.

    \b
    Example:
        stepgauge filter rollouts.jsonl --scorer math --keep "verdict == 'equal' and n_steps < 20" --out kept
    """
    if (keep is None) == (min_aggregate is None):
        raise ValueError("filter needs a rule: give --keep or --min-aggregate, one of them")
    if min_aggregate is not None and math.isnan(min_aggregate):
        raise ValueError("--min-aggregate must be a number, got nan; no score reaches it")
    rule_text = keep if keep is not None else f"aggregate >= {min_aggregate!r}"
    scorers = named_scorers(scorer)
    rule = Rule(rule_text, tuple(scorers))
    if out.endswith(FILES):
        if shard is not None or journal is not None or runner != "local":
            raise ValueError("--shard, --journal and --runner need a folder as --out")
        _to_file(source, scorers, rule, out, split=split, gold_field=gold_field, short=keep is None)
        return
    if Path(out).suffix and not Path(out).is_dir():
        raise ValueError(f"--out must be a folder, or end in {', '.join(FILES)}; got {out!r}")
    try:
        with _Shown() as shown:
            summary = filter_dataset(
                _stream(source, download) if source.startswith("stream:") else source,
                scorers,
                rule_text,
                out,
                runner=_runner(runner, workers),
                shard=_shard(shard),
                shard_rows=shard_rows,
                batch_rows=batch,
                journal=journal,
                gold_field=gold_field,
                how=split,
                progress=shown,
            )
    except FilterFailed as error:
        typer.echo(f"error: no rollout could be scored: {one_line(str(error), 300)}", err=True)
        raise typer.Exit(1) from None
    _report(summary, out)


def _to_file(
    source: str,
    scorers: dict[str, Scorer],
    rule: Rule,
    out: str,
    *,
    split: str,
    gold_field: str | None,
    short: bool,
) -> None:
    bad, failures, counts = BadRows(), Failures(), Counter[str]()
    rollouts = read(source, bad, split=split, gold_field=gold_field, limit=None)

    def kept() -> Iterator[dict[str, Any]]:
        with progress_bar("filtering") as advance:
            for decision in decide_rollouts(rollouts, scorers, rule, progress=advance):
                for name, scores in decision.scores.items():
                    failures.note(name, scores)
                unknown = decision.fate == "quarantined" or decision.reason.startswith("unknown")
                counts["unknown" if unknown else decision.fate] += 1
                if decision.fate == "kept":
                    yield decision.row

    write_rows(out, kept())
    for one in scorers.values():
        one.close()
    bad.report(counts.total())
    low = "scored too low" if short else "did not meet the rule"
    dropped = f"{counts['dropped']} {low}, {counts['unknown']} could not be scored"
    typer.echo(f"kept {counts['kept']} of {counts.total()} rollouts ({dropped}); wrote {out}", err=True)
    failures.report(counts.total() * len(scorers))


class _Shown:
    """A progress bar that starts with the first report, which tells the total."""

    def __init__(self) -> None:
        self.last: FilterProgress | None = None
        self.bar: Any = None

    def __enter__(self) -> _Shown:
        return self

    def __call__(self, now: FilterProgress) -> None:
        before = self.last.done if self.last is not None else 0
        self.last = now
        if self.bar is None:
            self.bar = progress_bar("filtering", now.total, self._note)
            self.advance = self.bar.__enter__()
        self.advance(now.done - before)

    def _note(self) -> str:
        if self.last is None or not self.last.fresh:
            return ""
        return f", {self.last.fresh / self.last.seconds:.0f} rows/s, {self.last.bad} bad"

    def __exit__(self, *exc: object) -> None:
        if self.bar is not None:
            self.bar.__exit__(*exc)


def _runner(name: str, workers: int | None) -> Runner:
    if name == "local":
        return ProcessPool(workers)
    if name == "ray":
        from stepgauge.filtering.ray_runner import RayActors

        return RayActors(workers)
    raise ValueError(f"--runner must be local or ray, got {name!r}")


def _shard(text: str | None) -> tuple[int, int]:
    if text is None:
        return 0, 1
    index, slash, jobs = text.partition("/")
    if not (slash and index.isdigit() and jobs.isdigit() and int(index) < int(jobs)):
        raise ValueError(f"--shard must be i/n with i from 0 to n - 1, as 0/8 to 7/8; got {text!r}")
    return int(index), int(jobs)


def _stream(source: str, download: bool) -> RowSource:
    import datasets

    name, _, split = source.removeprefix("stream:").rpartition(":")
    if not name:
        raise ValueError(f"write stream:NAME:SPLIT, as stream:/data/rollouts:train; got {source!r}")
    if not download and not Path(name).exists():
        raise FileNotFoundError(f"there is no folder {name!r} here; a hub name needs --download")
    found: RowSource = datasets.load_dataset(name, split=split, streaming=True)
    return found


def _report(summary: FilterSummary, out: str) -> None:
    for reason, count in summary.tally.reasons.most_common(SHOWN_REASONS):
        typer.echo(f"  {count}\t{one_line(reason, 120)}", err=True)
    for name, message in summary.tally.messages.items():
        typer.echo(f"{name} failed on some rollouts, first with: {one_line(message, 300)}", err=True)
    state = "" if summary.complete else "; other shards are not done yet"
    again = f" ({summary.failed} will be tried again by the next run)" if summary.failed else ""
    typer.echo(
        f"kept {summary.kept} of {summary.rows} rollouts, dropped {summary.dropped}, quarantined "
        f"{summary.quarantined}{again}; {summary.seconds:.1f} s; wrote {out}{state}",
        err=True,
    )
    if summary.rows == summary.failed or summary.rows == summary.quarantined:
        typer.echo("error: no rollout could be scored", err=True)
        raise typer.Exit(1)
