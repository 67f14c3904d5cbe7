"""``stepgauge evaluate``: the group of commands, and what they share."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from stepgauge.cli.common import BadRows, Failures, batches, one_line, progress_bar
from stepgauge.data import scores_to_row
from stepgauge.data.formats import Labelled
from stepgauge.evaluate.saved import match_scores, read_scores
from stepgauge.loading import load
from stepgauge.scoring import Rollout, StepScores

SUFFIXES = (".json", ".jsonl", ".jsonl.gz", ".json.gz", ".parquet")

ScorerChoice = Annotated[
    str | None, typer.Option("--scorer", "-s", help="The scorer to evaluate; `stepgauge scorers` lists them.")
]
SavedChoice = Annotated[
    str | None,
    typer.Option(
        "--scores", help="Saved scores instead of a scorer: rows with id and values, as score --out or --out here."
    ),
]


def data_files(source: str) -> list[Path]:
    """The files of a source: itself, or the data files of a folder, by name."""
    path = Path(source)
    if not path.exists():
        raise FileNotFoundError(f"there is no file or folder {source!r}; give the benchmark's file, or its folder")
    if path.is_file():
        return [path]
    files = sorted(file for file in path.iterdir() if file.name.endswith(SUFFIXES))
    if not files:
        raise ValueError(f"the folder {source!r} has no data file ({', '.join(SUFFIXES)})")
    return files


def split_name(file: Path) -> str:
    """``gsm8k`` of ``gsm8k.jsonl.gz``."""
    return file.name.split(".")[0]


def by_split(files: Sequence[Path]) -> dict[str, Path]:
    """Split name to file; raises ValueError where two files are of one split."""
    found: dict[str, Path] = {}
    for file in files:
        if split_name(file) in found:
            raise ValueError(f"{file} and {found[split_name(file)]} are both of split {split_name(file)!r}; keep one")
        found[split_name(file)] = file
    return found


def sample(items: Sequence[Labelled], limit: int | None) -> list[Labelled]:
    """At most ``limit`` of the items, a fixed random choice in the old order.

    The first rows would not do: ProcessBench's files begin with wrong solutions only.
    """
    if limit is None or limit >= len(items):
        return list(items)
    return [items[index] for index in sorted(random.Random(0).sample(range(len(items)), limit))]


class Source:
    """Where scores come from: a scorer, or a file of saved scores. Counts what is left out."""

    def __init__(self, scorer: str | None, saved: str | None) -> None:
        if (scorer is None) == (saved is None):
            raise ValueError("give either --scorer NAME or --scores FILE")
        self.name = str(scorer or saved)
        self.bad = BadRows()
        self.left_out = 0
        self._scorer = None if scorer is None else load(scorer)
        self._saved = None if saved is None else read_scores(saved, on_bad=self.bad)
        self._failures = Failures()

    def scores(self, rollouts: Sequence[Rollout]) -> list[StepScores | None]:
        """One result a rollout; None where the file has none."""
        if self._saved is not None:
            matched, problems = match_scores(rollouts, self._saved)
            for problem in problems:
                self.bad.skip(problem)
            self.left_out += matched.count(None)
            return matched
        found: list[StepScores | None] = []
        assert self._scorer is not None
        with closing(self._scorer), progress_bar("scoring", total=len(rollouts)) as advance:
            for batch in batches(rollouts):
                for scores in self._scorer.score_batch(batch, progress=advance):
                    self._failures.note(self.name, scores)
                    found.append(scores)
        return found

    def report(self, used: int) -> None:
        """Say what was left out; where nothing could be used, exit code 1."""
        if self.left_out:
            typer.echo(f"{self.left_out} of {self.left_out + used} solutions have no saved scores: left out", err=True)
        if used == 0:
            typer.echo("error: no solution has scores; is the id column that of the benchmark?", err=True)
            raise typer.Exit(1)
        self._failures.report(used)


def score_splits(splits: dict[str, list[Labelled]], source: Source) -> dict[str, list[tuple[Labelled, StepScores]]]:
    """The solutions of each split with their scores; those without, and empty splits, are left out."""
    items = [(split, item) for split, solutions in splits.items() for item in solutions]
    scored: dict[str, list[tuple[Labelled, StepScores]]] = {}
    for (split, item), scores in zip(items, source.scores([item.rollout for _, item in items]), strict=True):
        if scores is not None:
            scored.setdefault(split, []).append((item, scores))
    source.report(sum(map(len, scored.values())))
    return scored


def saved_rows(
    scored: dict[str, list[tuple[Labelled, StepScores]]], name: str, more: dict[str, list[dict[str, Any]]]
) -> Iterator[dict[str, Any]]:
    """One row a solution, with its scores and label; ``--scores`` reads it again."""
    for split, solutions in scored.items():
        for index, (item, scores) in enumerate(solutions):
            row = scores_to_row(item.rollout, name, scores)
            yield {**row, "split": split, "labels": list(item.labels), "outcome": item.outcome, **more[split][index]}


def percent(value: float | None) -> str:
    """A share in percent with one decimal; "-" for None."""
    return "-" if value is None else f"{100 * value:.1f}"


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> None:
    """A plain table; the first ``left`` columns are text."""
    table = Table(box=None, pad_edge=False)
    for index, name in enumerate(header):
        table.add_column(one_line(name), justify="left" if index < left else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(one_line(cell, 200) for cell in row))
    console = Console()
    if not console.is_terminal:
        console.width = 200  # a file is not cut to a terminal's width
    console.print(table)
