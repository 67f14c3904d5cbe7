"""``stepgauge scorers``."""

from __future__ import annotations

import typer

from stepgauge.cli.common import JsonOption, print_json
from stepgauge.loading import available
from stepgauge.scoring import KINDS


def scorers_command(json_out: JsonOption = False) -> None:
    """List the scorers: what each needs, and what its numbers mean.

    \b
    Example:
        stepgauge scorers
    """
    rows = available()
    if json_out:
        print_json(rows)
        return
    for row in rows:
        typer.echo(f"{row['name']}  ({row['kind']})" if row["kind"] else row["name"])
        typer.echo(f"    {row['about']}")
        typer.echo(f"    needs: {row['needs']}")
    typer.echo("\nkinds, with the default aggregate and threshold:")
    for kind, info in KINDS.items():
        threshold = "none" if info.threshold is None else f"{info.threshold:g}"
        typer.echo(f"    {kind}: {info.meaning}; {info.aggregate}, {threshold}")
