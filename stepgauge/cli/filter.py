"""``stepgauge filter``."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated, Any

import typer

from stepgauge.cli.common import GoldOption, ScorerOption, SplitOption, one_line, progress_bar
from stepgauge.data import write_rows
from stepgauge.filtering import (
    FilterFailed,
    FilterProgress,
    FilterSummary,
    Rule,
    filter_dataset,
    named_scorers,
    read_parts,
)
from stepgauge.filtering.chunks import Source as RowSource
from stepgauge.filtering.runners import ProcessPool, Runner

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
            help="A folder: kept, dropped and quarantined rows with reasons, a summary. Or a file for the kept rows.",
        ),
    ],
    keep: Annotated[
        str,
        typer.Option(
            help="The rule, as in \"aggregate >= 0.5 and verdict == 'equal'\"; columns: see docs/filtering.md."
        ),
    ],
    scorer: ScorerOption = "embedded",
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

    Memory does not grow with the input, and the same command started again goes on where it was killed. With a folder
    as --out, rows are sorted into kept/, dropped/ and quarantined/ (why is said in a column), with summary.json; with a
    file, the kept rows appear in it at the end, whole. A rollout that could not be scored is never kept by accident:
    what the rule asks of it is unknown, and only true is kept.

    \b
    Example:
        stepgauge filter rollouts.jsonl --scorer math --keep "verdict == 'equal' and n_steps < 20" --out kept
    """
    scorers = named_scorers(scorer)
    rule = Rule(keep, tuple(scorers))
    target = Path(out)
    one_file = out.endswith(FILES)
    if one_file and shard is not None:
        raise ValueError("--shard needs a folder as --out, which the jobs of the array share")
    if target.suffix and not one_file and not target.is_dir():
        raise ValueError(f"--out must be a folder, or end in {', '.join(FILES)}; got {out!r}")
    folder = target.with_name(f".{target.name}.job") if one_file else target
    try:
        with _Shown() as shown:
            summary = filter_dataset(
                _stream(source, download) if source.startswith("stream:") else source,
                scorers,
                rule.text,
                folder,
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
    if one_file and summary.quarantined < summary.rows:
        write_rows(target, read_parts(folder / "kept"))
        shutil.rmtree(folder)
    _report(summary, out)


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
    for reason in ("unreadable", "killed_worker"):
        for row in summary.tally.examples.get(reason, []):
            typer.echo(f"skipped {row['source']}:{row['line']}: {one_line(row['message'], 300)}", err=True)
    for reason, count in summary.tally.reasons.most_common(SHOWN_REASONS):
        typer.echo(f"  {count}\t{one_line(reason, 120)}", err=True)
    for name, message in summary.tally.messages.items():
        typer.echo(f"{name} failed on some rollouts, first with: {one_line(message, 300)}", err=True)
    state = "" if summary.complete else "; other shards are not done yet"
    again = f" ({summary.failed} will be tried again by the next run)" if summary.failed else ""
    typer.echo(
        f"kept {summary.kept} of {summary.rows} rollouts, dropped {summary.dropped}, quarantined "
        f"{summary.quarantined}{again}; {summary.seconds:.1f} s; --out {out}{state}",
        err=True,
    )
    if summary.rows == summary.quarantined:
        typer.echo("error: no rollout could be scored", err=True)
        raise typer.Exit(1)
