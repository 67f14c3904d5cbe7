"""``stepgauge equiv``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from stepgauge.cli.common import BadRows, JsonOption, OutOption, one_line, print_json, progress_bar
from stepgauge.dag_scoring import FormulaVerdict, equal_formulas
from stepgauge.data import BadRow, read_rows, write_rows


def equiv_command(
    source: Annotated[
        str,
        typer.Argument(
            metavar="PAIRS",
            help="JSONL or parquet, '-' = stdin. Rows: id, a, b (LaTeX), and where given constants {name: value}, "
            "context [relations], assumptions {name: real|angle|integer}, rtol.",
        ),
    ],
    out: OutOption = None,
    json_lines: JsonOption = False,
) -> None:
    """Say of pairs of physics formulas whether they are the same statement.

    Each row gives id, verdict (equivalent, implies, implied, different, unparsed, undecided), reason and ms. Unparsed
    and undecided say that it could not be told; they are not 'different'.

    \b
    Example:
        stepgauge equiv pairs.jsonl --out verdicts.jsonl
    """
    bad, counts = BadRows(), Counter[str]()

    def rows() -> Iterator[dict[str, Any]]:
        with progress_bar("comparing") as advance:
            for line, row in read_rows(source, on_bad=bad):
                try:
                    verdict = _judge(row)
                except (KeyError, TypeError, ValueError) as error:
                    bad(BadRow(source, line, str(error.args[0])))
                    continue
                counts[verdict.verdict] += 1
                advance(1)
                yield {
                    "id": row.get("id", str(line)),
                    "verdict": verdict.verdict,
                    "reason": verdict.reason,
                    "ms": round(verdict.ms, 4),
                }

    if out is not None:
        write_rows(out, rows())
    else:
        for row in rows():
            if json_lines:
                print_json(row)
            else:
                typer.echo(f"{one_line(str(row['id']))}\t{row['verdict']}\t{one_line(row['reason'])}")
    bad.report(counts.total())
    summary = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
    typer.echo(f"{counts.total()} verdicts: {summary}" + (f"; wrote {out}" if out else ""), err=True)


def _judge(row: dict[str, Any]) -> FormulaVerdict:
    for name in ("a", "b"):
        if not isinstance(row.get(name), str):
            raise TypeError(f"column {name!r} must be LaTeX text, got {type(row.get(name)).__name__}")
    given = {name: row.get(name) or {} for name in ("constants", "assumptions")}
    for name, value in given.items():
        if not isinstance(value, dict):
            raise TypeError(f"column {name!r} must be an object {{name: value}}, got {type(value).__name__}")
    context = row.get("context") or []
    if not isinstance(context, list):
        raise TypeError(f"column 'context' must be a list of formulas, got {type(context).__name__}")
    return equal_formulas(row["a"], row["b"], given["constants"], context, given["assumptions"], row.get("rtol"))
