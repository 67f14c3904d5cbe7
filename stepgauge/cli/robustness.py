"""``stepgauge robustness``."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from stepgauge.cli.common import (
    BadRows,
    GoldOption,
    JsonOption,
    LimitOption,
    OutOption,
    Source,
    SplitOption,
    one_line,
    print_json,
    progress_bar,
    read,
)
from stepgauge.data import write_rows
from stepgauge.evaluate.robustness import AttackResult, Robustness, robustness
from stepgauge.loading import load
from stepgauge.verifiers import verify_response


def robustness_command(
    source: Source,
    scorer: Annotated[str, typer.Option("--scorer", "-s", help="The scorer to attack.")] = "embedded",
    out: OutOption = None,
    json_out: JsonOption = False,
    max_rate: Annotated[
        float | None,
        typer.Option(
            "--max-rate",
            min=0,
            max=1,
            help="Exit with 1 where an empty text is accepted, or padding raises the score, more often than this.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the random choices of the attacks.")] = 0,
    split: SplitOption = "auto",
    gold_field: GoldOption = None,
    limit: LimitOption = None,
) -> None:
    """Attack a scorer: empty texts, padding, rewording, damaged solutions; see docs/robustness.md.

    With gold answers, wrong solutions get the empty texts and the padding, right ones the damage; else all get all.

    \b
    Example:
        stepgauge robustness bundled --scorer math --limit 64 --max-rate 0.05
    """
    bad = BadRows()
    rollouts = list(read(source, bad, split=split, gold_field=gold_field, limit=limit))
    bad.report(len(rollouts))
    correct = [None if r.gold is None else verify_response(r.gold, r.response).equal for r in rollouts]
    with load(scorer) as one, progress_bar("attacking") as advance:
        report = robustness(one, rollouts, correct, seed=seed, progress=advance)
    if out is not None:
        write_rows(out, ({"scorer": scorer, **row} for row in report.to_json()["results"]))
    if json_out:
        print_json(report.to_json())
    else:
        _print_table(report)
    errors = sum(result.errors for result in report.results)
    if errors:
        typer.echo(f"{one_line(scorer)} failed {errors} times; those solutions are left out", err=True)
    if not any(result.applied for result in report.results):
        typer.echo("error: no attacked solution could be scored", err=True)
        raise typer.Exit(1)
    exceeded = [] if max_rate is None else [r for r in report.results if _gated(r) > max_rate]
    for result in exceeded:
        typer.echo(f"over {max_rate:g}: {result.family} '{result.attack}' {_gated(result):.3f}", err=True)
    if exceeded:
        raise typer.Exit(1)


def _gated(result: AttackResult) -> float:
    """What --max-rate bounds; empty texts on a scorer without threshold count as a rise."""
    if result.family == "empty":
        return (result.inflation_rate if result.accepted_after is None else result.accepted_after) or 0.0
    return (result.inflation_rate or 0.0) if result.family == "padding" else 0.0


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _print_table(report: Robustness) -> None:
    table = Table(box=None, pad_edge=False)
    for name in ("family", "attack"):
        table.add_column(name, no_wrap=True)
    for name in ("n", "rose", "fell", "accepted", "ranking lost"):
        table.add_column(name, no_wrap=True, justify="right")
    for r in report.results:
        accepted = f"{_shown(r.accepted_before)} > {_shown(r.accepted_after)}"
        rates = (_shown(r.inflation_rate), _shown(r.caught_rate), accepted, _shown(r.correctness_drop))
        table.add_row(r.family, r.attack, str(r.applied), *rates)
    Console().print(table)
    typer.echo(f"{report.scorer}: {report.rollouts} solutions, {report.right} right, {report.wrong} wrong")
