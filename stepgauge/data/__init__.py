"""Rollouts in and out, step splitting, token alignment, bundled samples."""

from stepgauge.data.alignment import align, step_of_token, step_token_spans, token_spans
from stepgauge.data.bundled import bundled
from stepgauge.data.files import BadRow, read_rollouts, read_rows
from stepgauge.data.rows import from_row, scores_to_row, to_row
from stepgauge.data.steps import (
    SPLITTERS,
    answer_start,
    locate,
    rollout_from_text,
    split,
    think_is_open,
    thinking_spans,
)
from stepgauge.data.writing import write_rows, write_text

__all__ = [
    "SPLITTERS",
    "BadRow",
    "align",
    "answer_start",
    "bundled",
    "from_row",
    "locate",
    "read_rollouts",
    "read_rows",
    "rollout_from_text",
    "scores_to_row",
    "split",
    "step_of_token",
    "step_token_spans",
    "think_is_open",
    "thinking_spans",
    "to_row",
    "token_spans",
    "write_rows",
    "write_text",
]
