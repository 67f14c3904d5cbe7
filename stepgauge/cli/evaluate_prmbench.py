"""``stepgauge evaluate prmbench``."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from stepgauge.cli.common import BadRows, JsonOption, OutOption, one_line, print_json
from stepgauge.cli.evaluate import (
    SavedChoice,
    ScorerChoice,
    Source,
    data_files,
    percent,
    print_table,
    sample,
    saved_rows,
    score_splits,
)
from stepgauge.data import write_rows
from stepgauge.data.formats import Labelled, read_labelled
from stepgauge.evaluate.prmbench import CATEGORIES, PRMBenchReport, Rule, evaluate_prmbench
from stepgauge.evaluate.published import PRMBENCH, PRMBENCH_SOURCE


def prmbench_command(
    data: Annotated[str, typer.Argument(metavar="DATA", help="PRMBench: the folder of its JSONL files, or one file.")],
    scorer: ScorerChoice = None,
    scores: SavedChoice = None,
    threshold: Annotated[
        str,
        typer.Option(
            "--threshold",
            help="A number; 0.5 = the natural threshold of the scores' kind; oracle = the best one, an upper bound.",
        ),
    ] = "0.5",
    out: OutOption = None,
    json_out: JsonOption = False,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Solutions a class at most, a fixed random choice.")
    ] = None,
) -> None:
    """PRMScore, as PRMBench's authors compute it: half F1 of right steps, half F1 of wrong steps.

    Overall pools all steps; a group is the mean of its classes. A step without a score is called right.

    \b
    Example:
        stepgauge evaluate prmbench data/prmbench --scorer arithmetic
    """
    chosen = _threshold(threshold)
    source = Source(scorer, scores)
    bad = BadRows()
    splits: dict[str, list[Labelled]] = {}
    seen: set[str] = set()
    for file in data_files(data):
        for item in read_labelled(file, "prmbench", on_bad=bad):
            name = str(item.rollout.meta["classification"])
            if name not in CATEGORIES:
                bad.skip(f"{file}: {item.rollout.id}: unknown class {name!r}; known: {', '.join(CATEGORIES)}")
                continue
            key = f"{name}_{item.rollout.id}"  # the same idx occurs in every class
            if key not in seen:  # as the authors' script does
                seen.add(key)
                splits.setdefault(name, []).append(replace(item, rollout=replace(item.rollout, id=key)))
    splits = {name: sample(items, limit) for name, items in splits.items()}
    bad.report(sum(map(len, splits.values())))
    scored = score_splits(splits, source)
    pairs = [pair for solutions in scored.values() for pair in solutions]
    report = evaluate_prmbench(
        [s.values for _, s in pairs],
        [[label or 0.0 for label in item.labels] for item, _ in pairs],
        [str(item.rollout.meta["classification"]) for item, _ in pairs],
        kind=pairs[0][1].kind,
        threshold=chosen,
    )
    if out is not None:
        more = {name: [{"idx": item.rollout.id} for item, _ in solutions] for name, solutions in scored.items()}
        write_rows(out, saved_rows(scored, source.name, more))
    abstained = sum(s.status != "ok" for _, s in pairs) / len(pairs)
    if json_out:
        print_json({"scorer": source.name, "abstained": abstained, **report.to_json()})
    else:
        _print(report, source.name, abstained)
    if out is not None:
        typer.echo(f"wrote {out}", err=True)


def _threshold(text: str) -> float | Rule:
    if text in ("0.5", "oracle"):
        return text  # type: ignore[return-value]  # narrowed by the test
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--threshold must be a number, 0.5 or oracle; got {text!r}") from None


def _print(report: PRMBenchReport, name: str, abstained: float) -> None:
    fitted = ", fitted on these very steps: an upper bound" if report.fitted else ""
    typer.echo(f"{one_line(name)} ({report.kind}): PRMScore in percent, threshold {report.threshold:.4g}{fitted}")
    rows = [
        [
            f"{row.name} ({CATEGORIES[row.name][0]})" if row.name in CATEGORIES else row.name,
            percent(row.score),
            percent(row.f1),
            percent(row.negative_f1),
            str(row.solutions),
            str(row.steps),
            str(row.wrong_steps),
        ]
        for row in report.rows
    ]
    print_table(["", "PRMScore", "F1 right steps", "F1 wrong steps", "solutions", "steps", "wrong steps"], rows)
    typer.echo(f"steps scored: {percent(report.scored_steps)} %; solutions without any score: {percent(abstained)} %")
    shown = [[r.model, *(f"{v:.1f}" for v in (r.overall, r.simplicity, r.soundness, r.sensitivity))] for r in PRMBENCH]
    typer.echo(f"\npublished PRMScore, from the {PRMBENCH_SOURCE}")
    print_table(["model", "overall", "simplicity", "soundness", "sensitivity"], shown)
