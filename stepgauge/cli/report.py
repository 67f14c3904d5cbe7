"""``stepgauge report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stepgauge.cli.common import (
    BadRows,
    GoldOption,
    LimitOption,
    ScorerOption,
    Source,
    SplitOption,
    load_scorers,
    progress_bar,
    read,
)
from stepgauge.data import write_text


def report_command(
    source: Source,
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML file to write; written whole or not at all.")],
    scorer: ScorerOption = "embedded",
    title: Annotated[str, typer.Option(help="Heading of the page.")] = "stepgauge report",
    split: SplitOption = "auto",
    gold_field: GoldOption = None,
    limit: LimitOption = None,
) -> None:
    """Score rollouts and write one HTML file to look at: rules, curves, and every candidate with coloured steps.

    The file needs no network and no server. Rollouts of one problem share problem_id, else the problem text.

    \b
    Example:
        stepgauge report rollouts.jsonl --scorer embedded,math --out report.html
    """
    from stepgauge.report import collect, report_page

    scorers = load_scorers(scorer)
    bad = BadRows()
    rollouts = list(read(source, bad, split=split, gold_field=gold_field, limit=limit))
    bad.report(len(rollouts))
    with progress_bar("scoring", total=len(rollouts) * len(scorers)) as advance:
        data = collect(rollouts, scorers, progress=advance)
    for one in scorers.values():
        one.close()
    write_text(out, report_page(data, title=title))
    typer.echo(f"wrote {out}: {len(data['problems'])} problems, {len(rollouts)} rollouts", err=True)
