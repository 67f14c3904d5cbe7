"""``stepgauge rerank``."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from stepgauge.cli.common import (
    BadRows,
    GoldOption,
    JsonOption,
    OutOption,
    ScorerOption,
    Source,
    SplitOption,
    load_scorers,
    one_line,
    print_json,
    progress_bar,
    read,
)
from stepgauge.data import write_rows
from stepgauge.selection import Rerank, rerank


def rerank_command(
    source: Source,
    scorer: ScorerOption = "embedded",
    n: Annotated[int | None, typer.Option("--n", "-n", min=1, help="Candidates a problem; default: all.")] = None,
    out: OutOption = None,
    json_out: JsonOption = False,
    split: SplitOption = "auto",
    gold_field: GoldOption = None,
) -> None:
    """Pick one of N candidates a problem, and show how good each selection rule is.

    Rollouts of one problem share problem_id, else the problem text. Where gold answers are known the table gives the
    share of problems solved, with a bootstrap 95 % interval over problems. --out gets one row a problem: the picked id,
    the scores of all candidates, and which rules disagreed.

    \b
    Example:
        stepgauge rerank rollouts.jsonl --scorer embedded,math --n 8 --out picks.jsonl
    """
    scorers = load_scorers(scorer)
    bad = BadRows()
    rollouts = []
    for rollout in read(source, bad, split=split, gold_field=gold_field, limit=None):
        if rollout.problem or "problem_id" in rollout.meta:
            rollouts.append(rollout)
        else:
            bad.skip(
                f"{source}: rollout {rollout.id}: neither problem nor problem_id, so no telling what it competes with"
            )
    bad.report(len(rollouts))
    with progress_bar("scoring", total=len(rollouts) * len(scorers)) as advance:
        result = rerank(rollouts, scorers, n=n, progress=advance)
    for one in scorers.values():
        one.close()
    if result.counts["scorer_errors"] == result.counts["rollouts"] * len(scorers):
        typer.echo(
            f"error: no rollout could be scored: {one_line(next(iter(result.failures.values())), 300)}", err=True
        )
        raise typer.Exit(1)
    if out is not None:
        write_rows(out, (pick.to_row() for pick in result.picks))
    if json_out:
        print_json(_as_json(result))
    else:
        _print_table(result)
    for name, message in result.failures.items():
        typer.echo(f"{name} failed on some rollouts, first with: {one_line(message, 300)}", err=True)
    if out is not None:
        typer.echo(f"wrote {out}: one row for each of {len(result.picks)} problems", err=True)


def _print_table(result: Rerank) -> None:
    counts = result.counts
    console = Console()
    if counts["with_gold"]:
        table = Table("rule", "scorer", "solved", "95 % interval", title=None)
        for rule in result.rules:
            if rule.accuracy is not None:
                a = rule.accuracy
                table.add_row(rule.name, rule.scorer, f"{a.mean:.3f}", f"{a.low:.3f} – {a.high:.3f}")
        console.print(table)
    else:
        typer.echo("no gold answers (a column 'gold', or --gold-field NAME): picks only")
        for pick in result.picks[:20]:
            typer.echo(
                f"{one_line(pick.problem_id, 40)}\t{one_line(pick.picked, 40)}\t{one_line(str(pick.answer), 40)}"
            )
        if len(result.picks) > 20:
            typer.echo(f"… {len(result.picks) - 20} more; --out writes all")
    facts = [
        f"{counts['problems']} problems ({counts['with_gold']} with gold)",
        f"{counts['rollouts']} rollouts, up to {result.n} a problem",
        f"{counts['without_answer']} without an answer",
        f"{counts['not_scored']} not scored"
        + (f", {counts['scorer_errors']} of them by failure" * bool(counts["scorer_errors"])),
    ]
    if counts["undecided"]:
        facts.append(f"{counts['undecided']} answers could not be compared with gold and count as wrong")
    typer.echo("; ".join(facts))


def _as_json(result: Rerank) -> dict[str, Any]:
    rules = [
        {
            "rule": rule.name,
            "scorer": rule.scorer,
            "solved": None if rule.accuracy is None else rule.accuracy.mean,
            "low": None if rule.accuracy is None else rule.accuracy.low,
            "high": None if rule.accuracy is None else rule.accuracy.high,
        }
        for rule in result.rules
    ]
    return {"rules": rules, "n": result.n, "counts": dict(result.counts), "picks": [p.to_row() for p in result.picks]}
