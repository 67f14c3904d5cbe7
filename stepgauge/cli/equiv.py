"""``stepgauge equiv``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from stepgauge.cli.common import JsonOption, OutOption, write_verdicts
from stepgauge.dag_scoring import FormulaVerdict, equal_formulas


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
    write_verdicts(source, _judge, label="comparing", out=out, json_lines=json_lines)


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
