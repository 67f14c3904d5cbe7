"""``stepgauge verify``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from stepgauge.cli.common import JsonOption, OutOption, write_verdicts
from stepgauge.cli.verify_code import verify_code
from stepgauge.verifiers import Verdict, verify, verify_response


def verify_command(
    source: Annotated[
        str,
        typer.Argument(
            metavar="CASES",
            help="JSONL or parquet, '-' = stdin. Rows: id, gold, prediction, and form: 'answer' (a bare answer) or "
            "'response' (extract it first); without form, extract, else take the whole text. With --code: a program "
            "(completion, response, solution, steps, …) and its tests (tests, or the columns of HumanEval, MBPP, "
            "LiveCodeBench, APPS).",
        ),
    ],
    code: Annotated[bool, typer.Option("--code", help="Rows are programs: run each against its tests.")] = False,
    sandbox: Annotated[
        str,
        typer.Option(
            help="With --code: auto (bubblewrap where it works, else sandlock), bubblewrap, sandlock, the URL of a "
            "SandboxFusion server, or unsafe-subprocess (none)."
        ),
    ] = "auto",
    out: OutOption = None,
    json_lines: JsonOption = False,
) -> None:
    """Compare predictions with gold answers; with --code, run programs against their tests in a sandbox.

    Each row gives id, verdict (equal, different, undecided, invalid), reason and ms. Undecided and invalid say that the
    verifier could not tell; they are not 'wrong'.

    \b
    Example:
        stepgauge verify cases.jsonl --out verdicts.jsonl
        stepgauge verify --code programs.jsonl
    """
    if code:
        verify_code(source, sandbox=sandbox, out=out, json_lines=json_lines)
        return
    write_verdicts(source, _judge, label="verifying", out=out, json_lines=json_lines)


def _judge(row: dict[str, Any]) -> Verdict:
    for name in ("gold", "prediction"):
        if name not in row:
            raise KeyError(f"column '{name}' is missing; a row needs id, gold and prediction")
        if isinstance(row[name], int | float) and not isinstance(row[name], bool):
            row[name] = str(row[name])
        if not isinstance(row[name], str):
            raise TypeError(f"column '{name}' must be text, got {type(row[name]).__name__}; put it in quotes")
    form = row.get("form")
    if form not in (None, "answer", "response"):
        raise ValueError(f"column 'form' must be 'answer' or 'response', got {form!r}")
    judge = verify if form == "answer" else verify_response
    return judge(row["gold"], row["prediction"])
