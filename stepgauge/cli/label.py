"""``stepgauge label``."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from stepgauge.cli.common import BadRows, GoldOption, LimitOption, Source, SplitOption, read
from stepgauge.data import to_row, write_rows
from stepgauge.generation import Generator, load_generator
from stepgauge.loading import load
from stepgauge.prm.labelling import STRATEGIES, Journal, Progress, consensus_filter, judge_solution, label_solutions
from stepgauge.prm.labelling.adaptive import MAX_STEPS
from stepgauge.prm.labelling.counts import SolutionLabels, step_labels
from stepgauge.scoring import Rollout

LINE_EVERY_S = 10.0


def label_command(
    source: Source,
    out: Annotated[
        str, typer.Option("--out", "-o", help="Labelled rows: .jsonl, .parquet or a new datasets folder; whole or not.")
    ],
    generator: Annotated[
        str,
        typer.Option(
            help="What completes prefixes: a model folder, hub name or .gguf file; http://HOST:PORT (vLLM, SGLang, "
            "llama.cpp); python:MODULE:FUNCTION, your own (prompt, seed) -> text."
        ),
    ],
    strategy: Annotated[str, typer.Option(help="uniform (Math-Shepherd), binary (OmegaPRM) or adaptive.")] = "adaptive",
    rollouts: Annotated[int | None, typer.Option(min=1, help="Completions of a prefix, at most for adaptive.")] = None,
    error_rate: Annotated[float | None, typer.Option(help="With adaptive: stated rate of wrong decisions.")] = None,
    target: Annotated[
        str, typer.Option(help="Column 'labels': hard, soft or er (counts are written anyway).")
    ] = "hard",
    eta: Annotated[float, typer.Option(help="With --target er.")] = 2.0,
    verifier: Annotated[str, typer.Option(help="math (needs gold) or code (needs unit tests).")] = "math",
    judge: Annotated[
        str | None, typer.Option(help="Also ask this generator for the first wrong step, and keep where both agree.")
    ] = None,
    critiques: Annotated[int, typer.Option(min=1, help="Replies of the judge.")] = 1,
    journal: Annotated[
        str | None, typer.Option(help="File that keeps every completion; default OUT.journal. Rerun to go on.")
    ] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Of a completion; default the generator's.")] = None,
    temperature: Annotated[float | None, typer.Option(min=0.0, help="Of sampling; default 1.")] = None,
    price: Annotated[float, typer.Option(min=0.0, help="Of a million tokens, to show the cost so far.")] = 0.0,
    workers: Annotated[int | None, typer.Option(min=1, help="Solutions at once.")] = None,
    split: SplitOption = "auto",
    gold_field: GoldOption = None,
    limit: LimitOption = None,
) -> None:
    """Label the steps of solutions by completing their prefixes and checking the answers.

    Rows out: the row read, plus first_error (0-based, -1 none, null undecided), confidence, counts (by prefix),
    contradictions, rollouts, labels. Completions are journaled as they come: a killed run, started again with the same
    command, goes on where it was and writes the same file.

    \b
    Example:
        stepgauge label solutions.jsonl --out labelled.jsonl --generator http://localhost:8000 --strategy adaptive
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"--strategy must be one of {', '.join(STRATEGIES)}; got {strategy!r}")
    if error_rate is not None and strategy != "adaptive":
        raise ValueError(f"--error-rate belongs to --strategy adaptive, not to {strategy}")
    step_labels([], target=target, eta=eta)  # type: ignore[arg-type]  # says what is wrong before anything is drawn
    sampling = {"max_tokens": max_tokens, "temperature": temperature}
    made = {name: value for name, value in sampling.items() if value is not None}
    options: dict[str, Any] = {"rollouts": rollouts, "error_rate": error_rate}
    options = {name: value for name, value in options.items() if value is not None}
    drawing = load_generator(generator, **made)
    judging = None if judge is None else load_generator(judge, **made)
    bad, done = BadRows(), Counter[str]()
    solutions = [
        r for r in read(source, bad, split=split, gold_field=gold_field, limit=limit) if _usable(r, verifier, bad)
    ]
    bad.report(len(solutions))
    started = time.monotonic()
    with Journal(journal or _beside(out)) as kept:
        labelled = label_solutions(
            solutions,
            drawing,
            strategy=strategy,
            verifier=load(verifier),
            journal=kept,
            workers=workers,
            progress=_reporter(kept, len(solutions), price),
            **options,
        )

        def rows() -> Iterator[dict[str, Any]]:
            for rollout, labels in labelled:
                done["undecided" if labels.first_error is None else "labelled"] += 1
                done["rollouts"] += labels.rollouts
                row = to_row(rollout) | labels.to_json()
                row["labels"] = step_labels(
                    labels.counts,
                    target=target,  # type: ignore[arg-type]  # checked above
                    eta=eta,
                    first_error=labels.first_error if target == "hard" else None,
                )
                yield row if judging is None else row | _judged(rollout, labels, judging, critiques, kept)

        write_rows(out, rows())
        completions, tokens = kept.totals()
    cost = f", {tokens * price / 1e6:.4f} at {price:g} a million" if price else ""
    typer.echo(
        f"{len(solutions)} solutions ({done['undecided']} undecided) from {done['rollouts']} completions in "
        f"{time.monotonic() - started:.0f} s; journal: {completions} completions, {tokens} tokens{cost}; wrote {out}",
        err=True,
    )


def _usable(rollout: Rollout, verifier: str, bad: BadRows) -> bool:
    why = None
    if verifier == "math" and rollout.gold is None:
        why = "no gold answer, so its completions cannot be judged"
    elif not rollout.steps:
        why = "no steps to label"
    elif len(rollout.steps) > MAX_STEPS:
        why = f"{len(rollout.steps)} steps, more than {MAX_STEPS}"
    if why is not None:
        bad.skip(f"row {rollout.id}: {why}")
    return why is None


def _beside(out: str) -> str:
    return str(Path(out).with_name(f"{Path(out).name}.journal"))


def _judged(
    rollout: Rollout, labels: SolutionLabels, judge: Generator, critiques: int, journal: Journal
) -> dict[str, Any]:
    said = judge_solution(rollout, judge, critiques=critiques, journal=journal)
    hard = step_labels(labels.counts, first_error=labels.first_error)
    agreed = None
    if labels.first_error is not None:
        agreed = consensus_filter([int(label or 0) for label in hard], said.first_error)
    reason = "undecided" if agreed is None else agreed.reason
    return said.to_json() | {"keep": agreed is not None and agreed.keep, "keep_reason": reason}


def _reporter(journal: Journal, total: int, price: float) -> Callable[[Progress], None]:
    """A line on stderr every 10 s: how far, at what cost, how long still."""
    before = journal.totals()[1]
    last = time.monotonic()

    def report(now: Progress) -> None:
        nonlocal last
        if time.monotonic() - last < LINE_EVERY_S:
            return
        last = time.monotonic()
        left = now.left_s(total)
        eta = "" if left is None else f", {left:.0f} s left"
        spent = before + now.tokens
        cost = f" = {spent * price / 1e6:.4f}" if price else ""
        typer.echo(
            f"labelling: {now.solutions} of {total}, {now.drawn} completions drawn, {now.reused} from the journal, "
            f"{spent} tokens so far{cost}{eta}",
            err=True,
        )

    return report
