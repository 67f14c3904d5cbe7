"""A derivation as an SVG picture: layers by depth, colours by what a candidate did with each formula."""

from __future__ import annotations

from html import escape

import networkx as nx

from stepgauge.dag_scoring.graph import FormulaDag
from stepgauge.dag_scoring.scorer import DagReport

__all__ = ["draw"]

_COLOURS = {"matched": "#b7e4c7", "credited": "#fff3b0", "contradicted": "#f4acb7", "missing": "#e9ecef"}
_BOX = (190, 46)
_GAP = (30, 48)
_MAX_LABEL = 30


def draw(dag: FormulaDag, report: DagReport | None = None) -> str:
    """SVG of a derivation, with a candidate's result where one is given.

    Green: matched, with the step's number. Yellow: not stated, but a match follows from it. Red: contradicted.
    Grey: missing.

    Example:
        >>> from stepgauge.dag_scoring.graph import FormulaNode
        >>> draw(FormulaDag((FormulaNode("n1", "a < b"),), (), ("n1",))).count("a &lt; b")
        2
    """
    generations = [sorted(layer) for layer in nx.topological_generations(dag.graph)]
    (width, height), (gap_x, gap_y) = _BOX, _GAP
    widest = max(len(layer) for layer in generations)
    total = (widest * (width + gap_x) + gap_x, len(generations) * (height + gap_y) + gap_y + 22)
    spots = {}
    for depth, layer in enumerate(generations):
        left = (total[0] - len(layer) * (width + gap_x) + gap_x) / 2
        for k, name in enumerate(layer):
            spots[name] = (left + k * (width + gap_x), gap_y / 2 + depth * (height + gap_y))
    closed = dag.closure(report.matched) if report else set()
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total[0]:.0f} {total[1]:.0f}" width="{total[0]:.0f}" '
        f'height="{total[1]:.0f}" font-family="sans-serif" font-size="12">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#555"/></marker></defs>',
    ]
    for start, end in dag.edges:
        (x1, y1), (x2, y2) = spots[start], spots[end]
        parts.append(
            f'<line x1="{x1 + width / 2:.0f}" y1="{y1 + height:.0f}" x2="{x2 + width / 2:.0f}" y2="{y2:.0f}" '
            'stroke="#555" marker-end="url(#tip)"/>'
        )
    for node in dag.nodes:
        x, y = spots[node.id]
        state = _state(node.id, report, closed)
        label = node.latex if len(node.latex) <= _MAX_LABEL else node.latex[: _MAX_LABEL - 1] + "…"
        step = f", step {report.matched_at[node.id] + 1}" if report and node.id in report.matched_at else ""
        stroke = 2.5 if node.id in dag.finals else 1
        parts.append(
            f'<g class="{state}"><title>{escape(node.latex)}</title><rect x="{x:.0f}" y="{y:.0f}" width="{width}" '
            f'height="{height}" rx="6" fill="{_COLOURS[state]}" stroke="#333" stroke-width="{stroke}"/>'
            f'<text x="{x + 8:.0f}" y="{y + 17:.0f}" fill="#555">{escape(node.id)}{step}</text>'
            f'<text x="{x + 8:.0f}" y="{y + 35:.0f}">{escape(label)}</text></g>'
        )
    if report is not None:
        scores = (
            ("closure", report.closure_score),
            ("strict", report.strict_score),
            ("supported", report.supported_score),
        )
        text = " · ".join(f"{name} {value:.2f}" for name, value in scores)
        parts.append(f'<text x="{gap_x}" y="{total[1] - 10:.0f}">{text}</text>')
    return "".join([*parts, "</svg>"])


def _state(name: str, report: DagReport | None, closed: set[str]) -> str:
    if report is None:
        return "missing"
    if name in report.matched:
        return "matched"
    if name in report.contradicted:
        return "contradicted"
    return "credited" if name in closed else "missing"
