"""``stepgauge evaluate best-of-n``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from stepgauge.cli.common import (
    BadRows,
    GoldOption,
    JsonOption,
    OutOption,
    SplitOption,
    load_scorers,
    one_line,
    print_json,
    progress_bar,
    read,
)
from stepgauge.cli.evaluate import percent, print_table
from stepgauge.data import BadRow, read_rows, write_rows
from stepgauge.evaluate.best_of_n import Candidates, Curve, best_of_n_curves, candidates_of_pick
from stepgauge.selection import rerank


def best_of_n_command(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="Rollouts with gold answers, as for rerank; or, without --scorer, the file that rerank --out wrote.",
        ),
    ],
    scorer: Annotated[str | None, typer.Option("--scorer", "-s", help="Scorer, or several with commas.")] = None,
    ns: Annotated[
        str | None, typer.Option("--ns", help="Numbers of candidates, as 1,4,16; default: powers of 2.")
    ] = None,
    draws: Annotated[int, typer.Option("--draws", min=1, help="Random subsets a problem and n.")] = 32,
    seed: Annotated[int, typer.Option("--seed", help="Of the subsets.")] = 0,
    out: OutOption = None,
    json_out: JsonOption = False,
    split: SplitOption = "auto",
    gold_field: GoldOption = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Rollouts (or saved problems) at most.")] = None,
) -> None:
    """Share of problems solved against the number of candidates: pass@n, majority, best-of-n, weighted vote, Borda.

    Intervals: 95 % bootstrap over problems. --out gets the curves, a row a rule and n.

    \b
    Example:
        stepgauge evaluate best-of-n bundled --scorer embedded,math
    """
    numbers = None if ns is None else _numbers(ns)
    bad = BadRows()
    picks = _saved(data, bad, limit) if scorer is None else _scored(data, scorer, bad, split, gold_field, limit)
    problems: list[Candidates] = []
    for place, row in picks:
        try:
            problems.append(candidates_of_pick(row))
        except (ValueError, TypeError) as error:
            bad(BadRow(data, place, str(error)))
    bad.report(len(problems))
    with progress_bar("drawing subsets", total=len(problems)) as advance:
        curves = best_of_n_curves(problems, numbers, draws=draws, seed=seed, progress=advance)
    if out is not None:
        write_rows(out, (row for curve in curves for row in _rows(curve)))
    if json_out:
        print_json({"problems": len(problems), "curves": [curve.to_json() for curve in curves]})
    else:
        _print(curves, len(problems))
    if out is not None:
        typer.echo(f"wrote {out}", err=True)


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--ns must be numbers with commas, as 1,4,16; got {text!r}") from None


def _saved(data: str, bad: BadRows, limit: int | None) -> list[tuple[int, Mapping[str, Any]]]:
    rows = []
    for line, row in read_rows(data, on_bad=bad):
        if isinstance(row, Mapping):
            rows.append((line, row))
        else:
            bad(BadRow(data, line, f"a row must be an object with named fields, got {type(row).__name__}"))
    return rows[:limit]


def _scored(
    data: str, scorer: str, bad: BadRows, split: str, gold_field: str | None, limit: int | None
) -> list[tuple[int, Mapping[str, Any]]]:
    scorers = load_scorers(scorer)
    rollouts = list(read(data, bad, split=split, gold_field=gold_field, limit=limit))
    bad.report(len(rollouts))
    with progress_bar("scoring", total=len(rollouts) * len(scorers)) as advance:
        result = rerank(rollouts, scorers, progress=advance)
    for one in scorers.values():
        one.close()
    for name, message in result.failures.items():
        typer.echo(f"{name} failed on some rollouts, first with: {one_line(message, 300)}", err=True)
    return [(number, pick.to_row()) for number, pick in enumerate(result.picks, start=1)]


def _rows(curve: Curve) -> list[dict[str, Any]]:
    return [
        {
            "rule": curve.rule,
            "scorer": curve.scorer,
            "n": n,
            "solved": interval.mean,
            "low": interval.low,
            "high": interval.high,
            "problems": count,
        }
        for n, interval, count in zip(curve.ns, curve.solved, curve.problems, strict=True)
    ]


def _print(curves: list[Curve], problems: int) -> None:
    typer.echo(f"solved in percent of {problems} problems, [95 % interval]")
    rows = [
        [curve.rule, curve.scorer, *(f"{percent(i.mean)} [{percent(i.low)}, {percent(i.high)}]" for i in curve.solved)]
        for curve in sorted(curves, key=lambda curve: curve.rule == "pass@n")
    ]
    print_table(["rule", "scorer", *(f"n={n}" for n in curves[0].ns)], rows, left=2)
    few = [(n, count) for n, count in zip(curves[0].ns, curves[0].problems, strict=True) if count < problems]
    for n, count in few:
        typer.echo(f"n={n}: {count} problems have that many candidates")
