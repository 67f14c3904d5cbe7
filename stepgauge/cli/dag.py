"""``stepgauge dag``."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from stepgauge.cli.common import BadRows, JsonOption, OutOption, one_line, print_json, progress_bar
from stepgauge.dag_scoring import FormulaDag, grade
from stepgauge.dag_scoring.picture import draw
from stepgauge.data import BadRow, read_rows, write_rows


def dag_command(
    source: Annotated[
        str,
        typer.Argument(
            metavar="CASES",
            help="JSONL or parquet, '-' = stdin. Rows: id, nodes [{id, latex, depends_on}], final, constants, rtol, "
            "and candidates [{kind, steps}]; a step is text or {text}.",
        ),
    ],
    out: OutOption = None,
    svg: Annotated[Path | None, typer.Option(help="Folder for one SVG picture a candidate.")] = None,
    json_lines: JsonOption = False,
) -> None:
    """Score candidate derivations against reference derivations.

    One row a candidate: id, kind, closure_score, strict_score, supported_score, matched, contradicted, first_error and
    ms.

    \b
    Example:
        stepgauge dag cases.jsonl --out scores.jsonl --svg pictures
    """
    bad = BadRows()
    total = 0
    if svg is not None:
        svg.mkdir(parents=True, exist_ok=True)

    def rows() -> Iterator[dict[str, Any]]:
        nonlocal total
        with progress_bar("grading") as advance:
            for line, row in read_rows(source, on_bad=bad):
                try:
                    graded = list(_grade_row(row, line, svg))
                except (KeyError, TypeError, ValueError, AttributeError) as error:
                    bad(BadRow(source, line, f"{type(error).__name__}: {error}"))
                    continue
                for item in graded:
                    total += 1
                    yield item
                advance(1)

    if out is not None:
        write_rows(out, rows())
    else:
        for item in rows():
            if json_lines:
                print_json(item)
            else:
                scores = "\t".join(f"{item[f'{name}_score']:.3f}" for name in ("closure", "strict", "supported"))
                typer.echo(
                    f"{one_line(str(item['id']))}\t{one_line(str(item['kind']))}\t{scores}\t{item['first_error']}"
                )
    bad.report(total)
    typer.echo(f"{total} candidates graded" + (f"; wrote {out}" if out else ""), err=True)


def _grade_row(row: dict[str, Any], line: int, svg: Path | None) -> Iterator[dict[str, Any]]:
    fields = ("nodes", "final", "constants", "context", "assumptions", "rtol", "grading_standard")
    dag = FormulaDag.from_json({name: row[name] for name in fields if name in row})
    name = str(row.get("id", line))
    for index, candidate in enumerate(row.get("candidates") or ()):
        steps = [step if isinstance(step, str) else step["text"] for step in candidate["steps"]]
        start = time.perf_counter()
        report = grade(steps, dag)
        spent = (time.perf_counter() - start) * 1e3
        if svg is not None:
            safe = re.sub(r"[^A-Za-z0-9_-]", "_", f"{name}_{index}_{candidate.get('kind', '')}")[:120]
            (svg / f"{safe}.svg").write_text(draw(dag, report), encoding="utf-8")
        yield {
            "id": name,
            "kind": candidate.get("kind", ""),
            "closure_score": report.closure_score,
            "strict_score": report.strict_score,
            "supported_score": report.supported_score,
            "matched": list(report.matched),
            "contradicted": list(report.contradicted),
            "first_error": report.first_error,
            "ms": round(spent, 3),
        }
