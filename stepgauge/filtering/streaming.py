"""``filter_rows``: the same decisions for rows in memory, one batch at a time, without a folder."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from stepgauge.data import read_rollouts
from stepgauge.data.files import BadRow
from stepgauge.filtering.jobs import Scorers, named_scorers
from stepgauge.filtering.judging import Decision, decide, score_rollouts
from stepgauge.filtering.rules import Rule

__all__ = ["filter_rows"]

BATCH_ROWS = 256


def filter_rows(
    rows: Iterable[Mapping[str, Any]],
    scorer: Scorers,
    keep: str,
    *,
    on_bad: Callable[[BadRow], None] | None = None,
    on_drop: Callable[[Decision], None] | None = None,
) -> Iterator[dict[str, Any]]:
    """Stream the rows that a rule keeps, with the score columns.

    Args:
        rows: as ``stepgauge.data.from_row`` reads them; or any source of ``read_rollouts``.
        scorer, keep: see ``filter_dataset``.
        on_bad: called for each row that cannot be read; logs a warning by default.
        on_drop: called with the decision for each row that is not kept.

    Raises:
        ValueError: a rule or scorer that does not fit, at once.

    Example:
        >>> rows = [{"problem": "1+1?", "steps": [f"1 + 1 = {n}"]} for n in (2, 3)]
        >>> [(row["steps"], row["score"]) for row in filter_rows(rows, "arithmetic", "aggregate >= 0.5")]
        [(['1 + 1 = 2'], 1.0)]
    """
    scorers = named_scorers(scorer)
    rule = Rule(keep, tuple(scorers))
    rollouts = read_rollouts(rows) if on_bad is None else read_rollouts(rows, on_bad=on_bad)

    def kept() -> Iterator[dict[str, Any]]:
        while batch := list(itertools.islice(rollouts, BATCH_ROWS)):
            for rollout, scores in zip(batch, score_rollouts(batch, scorers).scores, strict=True):
                decision = decide(rollout, scores, rule)
                if decision.fate == "kept":
                    yield decision.row
                elif on_drop is not None:
                    on_drop(decision)

    return kept()
