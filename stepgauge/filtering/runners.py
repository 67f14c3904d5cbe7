"""Where shards are worked: in this process, or in a pool of processes that outlives the death of its workers."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

from stepgauge.filtering.chunks import Chunk
from stepgauge.filtering.shards import ShardWork

__all__ = ["InProcess", "ProcessPool", "Runner", "usable_cores"]

_WAITING = 2  # chunks a worker that are handed out ahead
_work: ShardWork | None = None  # of this worker process


class Runner(Protocol):
    """Works every chunk once and yields the markers as they come, in any order.

    A runner hands ``work`` to its workers once, calls it with each chunk, and calls it again in another worker where
    one dies; see ``ShardWork`` for what makes that safe. ``one_machine``: its workers may share a journal.
    """

    one_machine: ClassVar[bool]

    def run(self, work: ShardWork, chunks: Iterable[Chunk]) -> Generator[dict[str, Any], None, None]:
        """The markers of all chunks."""


@dataclass(frozen=True, slots=True)
class InProcess:
    """One chunk after the other, here: for small sources, and scorers that hold the one GPU."""

    one_machine: ClassVar[bool] = True

    def run(self, work: ShardWork, chunks: Iterable[Chunk]) -> Generator[dict[str, Any], None, None]:
        """See ``Runner.run``."""
        try:
            yield from map(work, chunks)
        finally:
            work.close()


@dataclass(frozen=True, slots=True)
class ProcessPool:
    """Processes on this machine, each with its own scorers.

    Workers are spawned: a script that filters needs ``if __name__ == "__main__":``. A worker that dies is replaced, and
    its chunk is worked again; when this process dies, its workers die with it.

    Args:
        workers: processes; default, the cores this process may use.
    """

    workers: int | None = None
    one_machine: ClassVar[bool] = True

    def run(self, work: ShardWork, chunks: Iterable[Chunk]) -> Generator[dict[str, Any], None, None]:
        """See ``Runner.run``."""
        from multiprocessing import get_context

        from pebble import ProcessExpired
        from pebble import ProcessPool as Pool

        workers = self.workers or usable_cores()
        threads = max(1, usable_cores() // workers)
        pool = Pool(
            max_workers=workers,
            context=get_context("spawn"),
            initializer=_start,
            initargs=(replace(work, supervised=True), threads),
        )
        left = iter(chunks)
        running: dict[Future[dict[str, Any]], Chunk] = {}

        def hand_out(chunk: Chunk | None) -> None:
            if chunk is not None:
                running[pool.schedule(_call, args=(chunk,))] = chunk

        try:
            for _ in range(workers * _WAITING):
                hand_out(next(left, None))
            while running:
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    chunk = running.pop(future)
                    try:
                        marker = future.result()
                    except ProcessExpired:
                        hand_out(chunk)
                    else:
                        hand_out(next(left, None))
                        yield marker
            pool.close()
        finally:
            pool.stop()
            pool.join()


def usable_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _start(work: ShardWork, threads: int) -> None:
    """In a new worker: its share of the threads, its work, and an end with its parent."""
    global _work
    from multiprocessing import parent_process

    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()
    _work = work


def _end_with(sentinel: int) -> None:
    from multiprocessing.connection import wait as wait_for

    wait_for([sentinel])
    os._exit(1)


def _call(chunk: Chunk) -> dict[str, Any]:
    assert _work is not None
    return _work(chunk)
