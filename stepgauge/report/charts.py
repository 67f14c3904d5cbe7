"""Charts as inline SVG: accuracy by n, reliability, histogram of first errors. Colours come from the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

__all__ = ["accuracy_chart", "error_chart", "reliability_chart"]

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 420, 260, 52, 34, 14, 12
MAX_BARS = 20


def _x(share: float) -> float:
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def _y(share: float) -> float:
    return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)


def _frame(title: str, body: list[str], x_label: str, y_label: str, *, percent: bool = True) -> str:
    """An SVG with axes; the title is what a screen reader says."""
    ticks = [
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{_y(t):.1f}" y2="{_y(t):.1f}"/>'
        f'<text x="{LEFT - 6}" y="{_y(t) + 4:.1f}" text-anchor="end">{t:.0%}</text>'
        for t in ((0, 0.25, 0.5, 0.75, 1) if percent else ())
    ]
    labels = [
        f'<text x="{_x(0.5):.1f}" y="{HEIGHT - 4}" text-anchor="middle">{escape(x_label)}</text>',
        f'<text transform="translate(11 {_y(0.5):.1f}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>',
    ]
    inside = "".join([*ticks, *body, *labels])
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}"><title>{escape(title)}</title>'
        f"{inside}</svg>"
    )


def accuracy_chart(curves: Sequence[Mapping[str, Any]]) -> str:
    """Share of problems solved by each rule against the number of candidates (even steps), with intervals."""
    sizes = sorted({point["n"] for curve in curves for point in curve["points"]})
    if not sizes:
        return ""
    place = {size: (at / max(len(sizes) - 1, 1)) * 0.94 + 0.03 for at, size in enumerate(sizes)}
    body = [
        f'<text x="{_x(place[size]):.1f}" y="{HEIGHT - BOTTOM + 14}" text-anchor="middle">{size}</text>'
        for size in sizes
    ]
    for index, curve in enumerate(curves):
        points = curve["points"]
        line = " ".join(f"{_x(place[p['n']]):.1f},{_y(p['solved']):.1f}" for p in points)
        body.append(f'<polyline class="line c{index % 8}" points="{line}"/>')
        for p in points:
            x = f"{_x(place[p['n']]):.1f}"
            rule = f"{curve['rule']} {curve['scorer']}".strip()
            name = f"{rule}, n = {p['n']}: {p['solved']:.1%} ({p['low']:.1%} to {p['high']:.1%})"
            body.append(
                f'<line class="bar c{index % 8}" x1="{x}" x2="{x}" y1="{_y(p["low"]):.1f}" y2="{_y(p["high"]):.1f}"/>'
                f'<circle class="dot c{index % 8}" cx="{x}" cy="{_y(p["solved"]):.1f}" r="3.5">'
                f"<title>{escape(name)}</title></circle>"
            )
    return _frame("Share of problems solved by the number of candidates", body, "candidates", "solved")


def reliability_chart(bins: Sequence[Mapping[str, Any]]) -> str:
    """How often candidates are right against what the scorer says; a calibrated one lies on the diagonal."""
    if not bins:
        return ""
    body = [f'<line class="grid" x1="{_x(0):.1f}" y1="{_y(0):.1f}" x2="{_x(1):.1f}" y2="{_y(1):.1f}"/>']
    most = max(entry["count"] for entry in bins)
    for entry in bins:
        radius = 3 + 9 * (entry["count"] / most) ** 0.5
        name = f"score {entry['score']:.2f}: {entry['right']:.1%} right of {entry['count']}"
        body.append(
            f'<circle class="dot c0" cx="{_x(entry["score"]):.1f}" cy="{_y(entry["right"]):.1f}" r="{radius:.1f}">'
            f"<title>{escape(name)}</title></circle>"
        )
    return _frame("Share of right answers by score; larger dots are more candidates", body, "score", "right")


def error_chart(found: Sequence[Mapping[str, int]]) -> str:
    """How many candidates have their first wrong step at each index; the first bar is those with none."""
    if not found:
        return ""
    shown = [entry for entry in found if entry["step"] < MAX_BARS - 2]
    later = sum(entry["count"] for entry in found) - sum(entry["count"] for entry in shown)
    bars = [("none" if e["step"] < 0 else str(e["step"]), e["count"]) for e in shown] + (
        [("later", later)] if later else []
    )
    most = max(count for _, count in bars)
    wide = (WIDTH - LEFT - RIGHT) / len(bars)
    body = []
    for at, (label, count) in enumerate(bars):
        x, y = LEFT + at * wide, _y(count / most)
        body.append(
            f'<rect class="fill c0" x="{x + wide * 0.15:.1f}" y="{y:.1f}" width="{wide * 0.7:.1f}" '
            f'height="{_y(0) - y:.1f}"><title>{label}: {count}</title></rect>'
            f'<text x="{x + wide / 2:.1f}" y="{HEIGHT - BOTTOM + 14}" text-anchor="middle">{label}</text>'
            f'<text x="{x + wide / 2:.1f}" y="{y - 2:.1f}" text-anchor="middle">{count}</text>'
        )
    return _frame("Candidates by their first wrong step", body, "first wrong step", "candidates", percent=False)
