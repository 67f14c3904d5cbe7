"""``stepgauge filter``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from stepgauge.cli.common import (
    BadRows,
    Failures,
    GoldOption,
    ScorerOption,
    Source,
    SplitOption,
    batches,
    load_scorers,
    progress_bar,
    read,
)
from stepgauge.data import to_row, write_rows


def filter_command(
    source: Source,
    min_aggregate: Annotated[float, typer.Option("--min-aggregate", help="Keep rollouts that score at least this.")],
    out: Annotated[str, typer.Option("--out", "-o", help="Where the kept rows go: .jsonl or .parquet.")],
    scorer: ScorerOption = "embedded",
    split: SplitOption = "auto",
    gold_field: GoldOption = None,
) -> None:
    """Keep the rollouts whose aggregate score reaches a minimum.

    Streams: memory does not grow with the input. Kept rows get the columns 'score' and 'scorer'. A rollout that could
    not be scored is dropped, and counted apart from those that scored too low.

    \b
    Example:
        stepgauge filter rollouts.jsonl --scorer arithmetic --min-aggregate 0.5 --out kept.jsonl
    """
    scorers = load_scorers(scorer)
    if len(scorers) > 1:
        raise ValueError(f"filter takes one scorer, got {scorer!r}")
    ((name, one),) = scorers.items()
    bad, failures, counts = BadRows(), Failures(), Counter[str]()
    rollouts = read(source, bad, split=split, gold_field=gold_field, limit=None)

    def kept() -> Iterator[dict[str, Any]]:
        with progress_bar("filtering") as advance:
            for batch in batches(rollouts):
                for rollout, scores in zip(batch, one.score_batch(batch), strict=True):
                    failures.note(name, scores)
                    score = scores.aggregate()
                    verdict = "not scored" if score is None else "kept" if score >= min_aggregate else "too low"
                    counts[verdict] += 1
                    if verdict == "kept":
                        yield {**to_row(rollout), "score": score, "scorer": name}
                advance(len(batch))

    write_rows(out, kept())
    one.close()
    bad.report(counts.total())
    dropped = f"{counts['too low']} scored too low, {counts['not scored']} could not be scored"
    typer.echo(f"kept {counts['kept']} of {counts.total()} rollouts ({dropped}); wrote {out}", err=True)
    failures.report(counts.total())
