"""Shards on a Ray cluster: a pool of Ray Data actors, each with its own scorers.

Ray moves the places of rows, not the rows: every node reads the source and writes the folder of the job, so both lie
on storage that all of them see. SQLite does not work there; the parts are the record of what is done, and a lost node
costs the shards it was at work on.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from stepgauge.filtering.chunks import Chunk
from stepgauge.filtering.shards import ShardWork

__all__ = ["RayActors"]


@dataclass(frozen=True, slots=True)
class RayActors:
    """Actors of the Ray cluster that ``ray.init`` finds (``RAY_ADDRESS``, else this machine); Ray replaces dead ones.

    A source that can only be read from its start (gzip, stdin, a stream) is put into Ray's object store as a whole.

    Args:
        workers: actors; default, one for each CPU of the cluster but one, which Ray Data needs for itself.
    """

    workers: int | None = None
    one_machine: ClassVar[bool] = False

    def run(self, work: ShardWork, chunks: Iterable[Chunk]) -> Generator[dict[str, Any], None, None]:
        """See ``Runner.run``."""
        try:
            import ray
            import ray.data
        except ImportError as error:
            raise ImportError(f"the ray runner needs Ray: pip install 'stepgauge[ray]' ({error})") from error
        todo = [{"chunk": chunk} for chunk in chunks]
        if not todo:
            return
        started = not ray.is_initialized()
        if started:
            ray.init(log_to_driver=False)
        try:
            actors = self.workers or max(1, int(ray.cluster_resources().get("CPU", 1)) - 1)
            markers = ray.data.from_items(todo, override_num_blocks=len(todo)).map_batches(
                _Actor,
                fn_constructor_args=(replace(work, supervised=True),),
                batch_size=1,
                compute=ray.data.ActorPoolStrategy(min_size=1, max_size=actors),
                num_cpus=1,
            )
            for row in markers.iter_rows():
                yield json.loads(row["marker"])
        finally:
            if started:
                ray.shutdown()


class _Actor:
    def __init__(self, work: ShardWork) -> None:
        self.work = work

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[str]]:
        return {"marker": [json.dumps(self.work(chunk)) for chunk in batch["chunk"]]}
