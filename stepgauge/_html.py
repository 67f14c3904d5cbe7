"""Small HTML views of rollouts and scores for notebooks; every piece of model text is escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepgauge.scoring import Rollout, StepScores

_CELL = "padding:2px 6px;border-left:4px solid {colour};margin:2px 0;white-space:pre-wrap"
_GREY = "#999"


def _colour(value: float | None, low: float, high: float) -> str:
    if value is None:
        return _GREY
    share = 0.5 if high == low else (value - low) / (high - low)
    return f"hsl({120 * min(max(share, 0.0), 1.0):.0f} 70% 42%)"


def rollout_html(rollout: Rollout) -> str:
    """The problem and its steps, one line each."""
    steps = "".join(f'<div style="{_CELL.format(colour=_GREY)}">{escape(step)}</div>' for step in rollout.steps)
    gold = "" if rollout.gold is None else f" <small>gold: {escape(rollout.gold)}</small>"
    return f"<div><b>{escape(rollout.problem)}</b>{gold}{steps}</div>"


def scores_html(scores: StepScores) -> str:
    """The score of each step, red (low) to green (high), grey where unscored, the reason in its place."""
    known = [value for value in scores.values if value is not None]
    if scores.kind in ("correctness", "value"):
        low, high = 0.0, 1.0
    else:
        low, high = (min(known), max(known)) if known else (0.0, 0.0)
    rows = "".join(
        f'<div style="{_CELL.format(colour=_colour(value, low, high))}" title="{escape(str(dict(detail)))}">'
        f"{index}: {f'{value:.4g}' if value is not None else escape(str(reason))}</div>"
        for index, (value, reason, detail) in enumerate(zip(scores.values, scores.reasons, scores.details, strict=True))
    )
    return f"<div><b>{escape(scores.kind)}</b> <small>{escape(scores.status)}</small>{rows}</div>"
