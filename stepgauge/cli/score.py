"""``stepgauge score``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from stepgauge.cli.common import (
    BadRows,
    Failures,
    GoldOption,
    JsonOption,
    LimitOption,
    OutOption,
    ScorerOption,
    Source,
    SplitOption,
    batches,
    load_scorers,
    one_line,
    print_json,
    progress_bar,
    read,
)
from stepgauge.data import scores_to_row, write_rows

SHOWN_STEPS = 50


def score_command(
    source: Source,
    scorer: ScorerOption = "embedded",
    out: OutOption = None,
    json_lines: JsonOption = False,
    split: SplitOption = "auto",
    gold_field: GoldOption = None,
    limit: LimitOption = None,
) -> None:
    """Score every step of every rollout.

    Prints a line a rollout (aggregate, first wrong step, the step scores; '·' = not scored), or JSON lines with --json.

    \b
    Example:
        stepgauge score rollouts.jsonl --scorer arithmetic --out scores.jsonl
    """
    scorers = load_scorers(scorer)
    bad = BadRows()
    failures = Failures()
    counts = {"rollouts": 0, "error": 0, "abstain": 0, "ok": 0}
    rollouts = read(source, bad, split=split, gold_field=gold_field, limit=limit)

    def rows() -> Iterator[dict[str, Any]]:
        with progress_bar("scoring") as advance:
            for batch in batches(rollouts):
                counts["rollouts"] += len(batch)
                for name, one in scorers.items():
                    for rollout, scores in zip(batch, one.score_batch(batch, progress=advance), strict=True):
                        counts[scores.status] += 1
                        failures.note(name, scores)
                        yield scores_to_row(rollout, name, scores)

    if out is not None:
        write_rows(out, rows())
    else:
        for row in rows():
            if json_lines:
                print_json(row)
            else:
                typer.echo(_line(row))
    for one in scorers.values():
        one.close()
    bad.report(counts["rollouts"])
    counted = ", ".join(f"{counts[status]} {status}" for status in ("ok", "abstain", "error") if counts[status])
    typer.echo(
        f"scored {counts['rollouts']} rollouts with {scorer}: {counted}" + (f"; wrote {out}" if out else ""), err=True
    )
    failures.report(sum(counts[status] for status in ("ok", "abstain", "error")))


def _line(row: dict[str, Any]) -> str:
    steps = " ".join("·" if value is None else f"{value:.3g}" for value in row["values"][:SHOWN_STEPS])
    steps += f" … {len(row['values'])} steps" if len(row["values"]) > SHOWN_STEPS else ""
    if row["status"] != "ok":
        return f"{one_line(row['id'])}\t{row['scorer']}\t{row['status']}: {row['summary'].get('reason')}\t[{steps}]"
    error = "" if row["first_error"] in (None, -1) else f"\tfirst error at step {row['first_error']}"
    return f"{one_line(row['id'])}\t{row['scorer']}\t{row['aggregate']:.4g}\t[{steps}]{error}"
