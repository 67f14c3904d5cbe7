"""Rollouts of many requests, scored together: bounded queue, deadlines, duplicates once, dropped when nobody waits."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from stepgauge.scoring import Rollout, Scorer, StepScores, rollout_key

__all__ = ["Batcher", "QueueFull"]

CHARACTERS_A_TOKEN = 4  # a guess is enough to bound a batch


class QueueFull(Exception):
    """More rollouts are waiting than the server holds; try again in ``retry_after_s``."""

    def __init__(self, waiting: int, retry_after_s: int) -> None:
        super().__init__(f"{waiting} rollouts are waiting, no more are taken now; try again in {retry_after_s} s")
        self.retry_after_s = retry_after_s


@dataclass(eq=False, slots=True)
class _Item:
    """One distinct rollout in the queue, and how many requests wait for it."""

    rollout: Rollout
    key: str
    stop: float
    future: asyncio.Future[StepScores]
    waiting: int = 0


class Batcher:
    """Feeds one scorer, in a thread of its own, with the rollouts of all requests.

    Args:
        scorer: what scores.
        max_tokens: about how many tokens (four characters each) one batch holds; a longer rollout goes alone.
        max_queue: rollouts that may wait; more raise ``QueueFull``.
        max_wait_s: how long a batch waits for company.
        on_batch: called after each batch with its size and seconds.
    """

    def __init__(
        self,
        scorer: Scorer,
        *,
        max_tokens: int = 32_768,
        max_queue: int = 4096,
        max_wait_s: float = 0.002,
        on_batch: Callable[[int, float], None] = lambda size, seconds: None,
    ) -> None:
        self.scorer = scorer
        self.max_tokens = max_tokens
        self.max_queue = max_queue
        self.max_wait_s = max_wait_s
        self.on_batch = on_batch
        self._queue: deque[_Item] = deque()
        self._known: dict[str, _Item] = {}  # waiting or being scored
        self._filled = asyncio.Event()
        self._rate = 0.0  # rollouts a second, lately
        self._task: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """Rollouts in the queue."""
        return len(self._queue)

    def start(self) -> None:
        """Begin; call within the event loop."""
        self._filled = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._work())

    async def close(self) -> None:
        """Score what waits, then stop."""
        while self._known:
            await asyncio.wait([item.future for item in self._known.values()], timeout=1.0)
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        self.scorer.close()

    async def score(self, rollouts: Sequence[Rollout], *, deadline_s: float) -> list[StepScores]:
        """The scores of each rollout; what is not done by the deadline is status "error", reason "timeout".

        Where the caller is cancelled, rollouts that nobody else waits for are dropped from the queue.

        Raises:
            QueueFull: the queue has no room for all of them.
        """
        if len(self._queue) + len(rollouts) > self.max_queue:
            raise QueueFull(
                len(self._queue), max(1, min(60, round(len(self._queue) / self._rate)) if self._rate else 1)
            )
        stop = time.monotonic() + deadline_s
        items = [self._join(rollout, stop) for rollout in rollouts]
        try:
            if items:
                await asyncio.wait({item.future for item in items}, timeout=deadline_s)
            return [
                item.future.result()
                if item.future.done()
                else StepScores.error(
                    len(item.rollout.steps), self.scorer.kind, "timeout", f"deadline of {deadline_s} s passed"
                )
                for item in items
            ]
        finally:
            for item in items:
                item.waiting -= 1

    def _join(self, rollout: Rollout, stop: float) -> _Item:
        key = rollout_key(rollout) + json.dumps(dict(rollout.meta), sort_keys=True, default=repr)
        item = self._known.get(key)
        if item is None:
            item = _Item(rollout, key, stop, asyncio.get_running_loop().create_future())
            self._known[key] = item
            self._queue.append(item)
            self._filled.set()
        item.stop = max(item.stop, stop)
        item.waiting += 1
        return item

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, thread_name_prefix=f"stepgauge-{self.scorer.name}") as thread:
            while True:
                await self._filled.wait()
                if self._tokens() < self.max_tokens:
                    await asyncio.sleep(self.max_wait_s)
                batch = self._take()
                if not batch:
                    continue
                started = time.monotonic()
                rollouts = [item.rollout for item in batch]
                left = max(item.stop for item in batch) - started
                try:
                    score = partial(self.scorer.score_batch, rollouts, deadline_s=left)
                    results = await loop.run_in_executor(thread, score)
                except Exception as error:
                    message = f"{type(error).__name__}: {error}"
                    results = [StepScores.error(len(r.steps), self.scorer.kind, "internal", message) for r in rollouts]
                seconds = time.monotonic() - started
                self._rate = 0.5 * self._rate + 0.5 * len(batch) / max(seconds, 1e-6)
                for item, scores in zip(batch, results, strict=True):
                    del self._known[item.key]
                    if not item.future.done():
                        item.future.set_result(scores)
                self.on_batch(len(batch), seconds)

    def _tokens(self) -> int:
        return sum(_size(item.rollout) for item in self._queue)

    def _take(self) -> list[_Item]:
        """The next batch: in order of arrival, up to the budget, without what nobody waits for."""
        batch: list[_Item] = []
        used = 0
        while self._queue:
            item = self._queue[0]
            size = _size(item.rollout)
            if batch and used + size > self.max_tokens:
                break
            self._queue.popleft()
            if item.waiting == 0:
                del self._known[item.key]
                item.future.cancel()
                continue
            batch.append(item)
            used += size
        if not self._queue:
            self._filled.clear()
        return batch


def _size(rollout: Rollout) -> int:
    return 1 + (len(rollout.problem) + sum(map(len, rollout.steps))) // CHARACTERS_A_TOKEN
