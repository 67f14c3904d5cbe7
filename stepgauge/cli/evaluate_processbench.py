"""``stepgauge evaluate processbench``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, get_args

import typer

from stepgauge.cli.common import BadRows, JsonOption, OutOption, one_line, print_json
from stepgauge.cli.evaluate import (
    SavedChoice,
    ScorerChoice,
    Source,
    by_split,
    data_files,
    percent,
    print_table,
    sample,
    saved_rows,
    score_splits,
)
from stepgauge.data import write_rows, write_text
from stepgauge.data.formats import Labelled, read_labelled
from stepgauge.evaluate.calibration import reliability_svg
from stepgauge.evaluate.first_errors import PROTOCOLS, ProcessBenchReport, Protocol, evaluate_processbench
from stepgauge.evaluate.published import PROCESSBENCH

FIRST_ERRORS = ("processbench", "mr_gsm8k", "mr_ben", "bigbench_mistake")
ORDER = ("gsm8k", "math", "olympiadbench", "omnimath")


def processbench_command(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="ProcessBench: a folder with gsm8k.json, math.json, olympiadbench.json, omnimath.json, or one file.",
        ),
    ],
    scorer: ScorerChoice = None,
    scores: SavedChoice = None,
    protocol: Annotated[
        str | None, typer.Option("--protocol", help="0.5, tuned-on-gsm8k or oracle; several with commas; default: all.")
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            "--format", help="Other sets of first errors: mr_gsm8k, mr_ben, bigbench_mistake; their files are splits."
        ),
    ] = "processbench",
    out: OutOption = None,
    svg: Annotated[str | None, typer.Option("--svg", help="Write the reliability diagram here.")] = None,
    json_out: JsonOption = False,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Solutions a split at most, a fixed random choice.")
    ] = None,
) -> None:
    """Does a scorer find the first wrong step, and leave right solutions alone?

    F1 is the harmonic mean of the accuracies on wrong and on right solutions; the first step below a threshold is the
    predicted error. Protocols: 0.5 (the kind's natural threshold), tuned-on-gsm8k, oracle (fitted on each split itself:
    an upper bound). A step without a score accuses nobody. Beside it stand published figures, with their sources.

    \b
    Example:
        stepgauge evaluate processbench data/processbench --scorer arithmetic --out scores.jsonl
    """
    protocols = _protocols(protocol)
    if format not in FIRST_ERRORS:
        raise ValueError(f"--format must be one of {', '.join(FIRST_ERRORS)}; got {format!r}")
    source = Source(scorer, scores)
    bad = BadRows()
    files = by_split(data_files(data))
    order = [split for split in ORDER if split in files] + [split for split in files if split not in ORDER]
    splits = {split: sample(_solutions(files[split], split, format, bad), limit) for split in order}
    bad.report(sum(map(len, splits.values())))
    scored = score_splits(splits, source)
    report = evaluate_processbench(scored, protocols)
    if out is not None:
        more = {
            split: [
                {
                    "label": item.first_error(),
                    "predicted": {s.protocol: s.predictions[i] for s in report.scores if s.split == split},
                }
                for i, (item, _) in enumerate(solutions)
            ]
            for split, solutions in scored.items()
        }
        write_rows(out, saved_rows(scored, source.name, more))
    if svg is not None:
        if report.calibration is None:
            raise ValueError(f"--svg needs probabilities of being right, and {source.name} gives {report.kind}")
        write_text(svg, reliability_svg(report.calibration, f"{source.name} on ProcessBench"))
    if json_out:
        print_json({"scorer": source.name, **report.to_json()})
    else:
        _print(report, source.name, published=format == "processbench")
    for path in (out, svg):
        if path is not None:
            typer.echo(f"wrote {path}", err=True)


def _solutions(file: Path, split: str, format: str, bad: BadRows) -> list[Labelled]:
    """The solutions of a split. Only ProcessBench's ids are their own; others are named by their place."""
    items = list(read_labelled(file, format, on_bad=bad))
    if format == "processbench":
        return items
    return [replace(item, rollout=replace(item.rollout, id=f"{split}/{n}")) for n, item in enumerate(items)]


def _protocols(text: str | None) -> tuple[Protocol, ...]:
    if text is None:
        return PROTOCOLS
    chosen = [name.strip() for name in text.split(",")]
    unknown = [name for name in chosen if name not in PROTOCOLS]
    if unknown:
        raise ValueError(f"--protocol must be of {', '.join(PROTOCOLS)}; got {unknown[0]!r}")
    return tuple(name for name in get_args(Protocol) if name in chosen)


def _print(report: ProcessBenchReport, name: str, *, published: bool) -> None:
    splits = [facts.split for facts in report.splits]
    typer.echo(f"{one_line(name)} ({report.kind}): F1 in percent, [95 % interval]; * = threshold fitted on this split")
    rows = []
    for protocol in dict.fromkeys(score.protocol for score in report.scores):
        found = [report.score(protocol, split) for split in splits]
        cells = [s for s in found if s is not None]
        rows += [
            [protocol, "F1", *(percent(s.f1) + "*" * s.in_sample for s in cells), percent(report.mean_f1(protocol))],
            ["", "interval", *(f"[{percent(s.low)}, {percent(s.high)}]" for s in cells), ""],
            ["", "wrong, located", *(percent(s.acc_error) for s in cells), ""],
            ["", "right, left alone", *(percent(s.acc_correct) for s in cells), ""],
            ["", "F1, abstained = missed", *(percent(s.f1_scored_only_right) for s in cells), ""],
            ["", "right answer, wrong process: found", *(percent(s.found) for s in cells), ""],
            ["", "right answer, wrong process: located", *(percent(s.located) for s in cells), ""],
            ["", "threshold", *(f"{s.threshold:.4g}" for s in cells), ""],
        ]
    if rows:
        print_table(["protocol", "", *splits, "mean"], rows, left=2)
    for left_out, why in report.missing.items():
        typer.echo(f"{left_out}: not applied, {why}")
    typer.echo("")
    facts = report.splits
    steps = [f.scored_steps / f.steps if f.steps else None for f in facts]
    print_table(
        ["what was scored", *splits],
        [
            ["solutions", *(str(f.solutions) for f in facts)],
            ["with a wrong step", *(str(f.wrong) for f in facts)],
            ["right answer, wrong process", *(str(f.right_answer_wrong_process) for f in facts)],
            ["abstained, %", *(percent(f.abstained / f.solutions) for f in facts)],
            ["scorer failed, %", *(percent(f.failed / f.solutions) for f in facts)],
            ["steps scored, %", *map(percent, steps)],
            ["lowest score on the last step, %", *(percent(f.last_step_lowest) for f in facts)],
        ],
    )
    if report.calibration is not None:
        c = report.calibration
        typer.echo(f"calibration over {c.steps} labelled steps: ECE {c.ece:.3f}, Brier {c.brier:.3f}")
    if published and set(splits) & set(ORDER):
        _print_published(splits)


def _print_published(splits: list[str]) -> None:
    places = [ORDER.index(split) for split in splits if split in ORDER]
    sources = list(dict.fromkeys(row.source for row in PROCESSBENCH))
    rows = [
        [row.model, *(f"{row.f1[at]:.1f}" for at in places), f"{row.mean:.1f}", f"[{sources.index(row.source) + 1}]"]
        for row in PROCESSBENCH
    ]
    typer.echo("\npublished F1 (mean over all four splits; thresholds as their authors chose them)")
    print_table(["model", *(ORDER[at] for at in places), "mean", "source"], rows)
    for number, text in enumerate(sources, start=1):
        typer.echo(f"[{number}] {text}")
