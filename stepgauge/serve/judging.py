"""From the rows of a request to their scores: which scorer, what is refused, what is counted."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from fastapi import HTTPException, Request

from stepgauge.data import from_row
from stepgauge.scoring import Rollout, Scorer, StepScores
from stepgauge.serve.batcher import Batcher, QueueFull
from stepgauge.serve.metrics import Metrics

__all__ = ["Judge"]

GONE_CHECK_S = 0.25
CLIENT_GONE = 499  # nobody reads it


class Judge:
    """The scorers of one server behind their batchers, and the limits of a request."""

    def __init__(
        self,
        scorers: Mapping[str, Scorer],
        metrics: Metrics,
        *,
        max_rollouts: int,
        max_queue: int,
        max_tokens: int,
        deadline_s: float,
    ) -> None:
        self.scorers = scorers
        self.metrics = metrics
        self.max_rollouts = max_rollouts
        self.deadline_s = deadline_s
        self.batchers = {
            name: Batcher(scorer, max_tokens=max_tokens, max_queue=max_queue, on_batch=partial(metrics.batch, name))
            for name, scorer in scorers.items()
        }
        for name, batcher in self.batchers.items():
            metrics.watch_queue(name, partial(_waiting, batcher))

    def start(self) -> None:
        """Begin; call within the event loop."""
        for batcher in self.batchers.values():
            batcher.start()

    async def close(self) -> None:
        """Score what waits, then stop."""
        for batcher in self.batchers.values():
            await batcher.close()

    def choose(self, name: str | None) -> str:
        """The scorer that a request asks for, the first by default; 404 for an unknown one."""
        if name is not None and name not in self.scorers:
            raise HTTPException(404, f"this server has no scorer {name!r}; it has {', '.join(self.scorers)}")
        return name or next(iter(self.scorers))

    async def rows(
        self, request: Request, name: str, rows: Sequence[Mapping[str, Any]], deadline_s: float | None = None
    ) -> list[tuple[Rollout, StepScores] | str]:
        """Each row's rollout and scores, or what is wrong with the row."""
        if len(rows) > self.max_rollouts:
            raise HTTPException(413, f"{len(rows)} rollouts in one request; at most {self.max_rollouts}, send several")
        read = [_read(row) for row in rows]
        good = [rollout for rollout in read if isinstance(rollout, Rollout)]
        work = asyncio.ensure_future(self.batchers[name].score(good, deadline_s=deadline_s or self.deadline_s))
        try:
            while not (await asyncio.wait({work}, timeout=GONE_CHECK_S))[0]:
                if await request.is_disconnected():
                    raise HTTPException(CLIENT_GONE)
            scored = iter(work.result())
        except QueueFull as full:
            raise HTTPException(503, str(full), headers={"Retry-After": str(full.retry_after_s)}) from None
        finally:
            work.cancel()
            with suppress(asyncio.CancelledError, QueueFull):
                await work
        results = [(rollout, next(scored)) if isinstance(rollout, Rollout) else rollout for rollout in read]
        for result in results:
            self.metrics.rollout(name, "unparsed" if isinstance(result, str) else result[1].status)
        return results

    async def all_rows(self, request: Request, name: str, rows: Sequence[Mapping[str, Any]]) -> list[StepScores]:
        """The scores of each row; a row that cannot be read refuses the request (400)."""
        results = await self.rows(request, name, rows)
        for index, result in enumerate(results):
            if isinstance(result, str):
                raise HTTPException(400, f"item {index}: {result}")
        return [result[1] for result in results if not isinstance(result, str)]


def _waiting(batcher: Batcher) -> float:
    return float(batcher.waiting)


def _read(row: Mapping[str, Any]) -> Rollout | str:
    try:
        return from_row(row)
    except (ValueError, TypeError) as error:
        return str(error)
