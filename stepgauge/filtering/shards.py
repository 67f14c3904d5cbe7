"""One shard: the rows of a chunk read, scored in batches, decided, written as parquet parts, and marked as done.

A shard is done when its marker is there; parts are written before it, each by rename, so that a shard interrupted
anywhere is simply worked again, and its finished batches come from the journal.
"""

from __future__ import annotations

import faulthandler
import itertools
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stepgauge.data.journal import Journal
from stepgauge.data.rows import from_row
from stepgauge.data.writing import write_text
from stepgauge.filtering.chunks import Chunk, read_chunk
from stepgauge.filtering.judging import Decision, decide, score_rollouts
from stepgauge.filtering.parts import write_part
from stepgauge.filtering.rules import Rule
from stepgauge.filtering.strikes import Strikes
from stepgauge.filtering.tallies import Tally
from stepgauge.scoring import Rollout, Scorer

__all__ = ["FATES", "ShardWork", "marker_path"]

FATES = ("kept", "dropped", "quarantined")
ROW_CHARS = 100_000  # of an unreadable or failing row that are kept in quarantine

_TYPES = {
    **dict.fromkeys(("id", "problem", "gold", "text", "scorer", "reason"), "str"),
    "steps": "list str",
    "spans": "list list int",
    "token_ids": "list int",
    "score": "float",
}
_SCORE_TYPES = {
    "aggregate": "float",
    "values": "list float",
    "first_error": "int",
    "coverage": "float",
    "status": "str",
    "reason": "str",
    "verdict": "str",
}
_QUARANTINE_TYPES = {
    **dict.fromkeys(("source", "id", "reason", "message", "row"), "str"),
    "line": "int",
}


def marker_path(out: Path, index: int) -> Path:
    """The file that says a shard is done."""
    return out / "shards" / f"{index:06d}.json"


_Found = Decision | tuple[str, str]  # or (reason, message) of a row that could not be judged


@dataclass
class ShardWork:
    """What a worker does with a chunk; called once a chunk, in any process.

    Args:
        out: the folder of the job. scorers: by name. rule: which rows are kept.
        journal: file of the scores, None for none.
        gold_field, how: for reading rows, see ``stepgauge.data.from_row``.
        batch_rows: rows scored, and journaled, at once.
        stall_s: seconds after which a worker that is stuck in one batch ends itself; only where it is ``supervised``,
            that is, where a runner puts another one in its place.
    """

    out: Path
    scorers: Mapping[str, Scorer]
    rule: Rule
    journal: Path | None
    gold_field: str | None = None
    how: str = "auto"
    batch_rows: int = 256
    stall_s: float = 600.0
    supervised: bool = False
    _opened: Journal | None = field(default=None, init=False, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_opened": None}

    def __call__(self, chunk: Chunk) -> dict[str, Any]:
        """Work one chunk to its marker; returns what the marker says.

        Raises:
            RuntimeError: workers have died over this chunk again and again.
        """
        if self.journal is not None and self._opened is None:
            self._opened = Journal(self.journal)
        tally = Tally()
        parts: dict[str, list[dict[str, Any]]] = {fate: [] for fate in FATES}
        with Strikes(self.out / "inflight" / f"{chunk.index:06d}", f"shard {chunk.index} ({chunk.source})") as strikes:
            for line, row, decision in self._decided(chunk, strikes, tally):
                _file(parts, tally, chunk.source, line, row, decision)
            for fate, rows in parts.items():
                self._write(fate, chunk.index, rows)
            marker = {
                "index": chunk.index,
                "source": chunk.source,
                "first": chunk.first,
                "rows": chunk.count,
                "digest": chunk.digest,
                **tally.to_json(),
            }
            write_text(marker_path(self.out, chunk.index), json.dumps(marker) + "\n")
        return marker

    def _write(self, fate: str, index: int, rows: list[dict[str, Any]]) -> None:
        path = self.out / fate / f"part-{index:06d}.parquet"
        if not rows:
            path.unlink(missing_ok=True)  # of an earlier try
            return
        types = _TYPES | {f"{name}_{column}": kind for name in self.scorers for column, kind in _SCORE_TYPES.items()}
        write_part(path, rows, _QUARANTINE_TYPES if fate == "quarantined" else types)

    def _decided(self, chunk: Chunk, strikes: Strikes, tally: Tally) -> Iterator[tuple[int, Any, _Found]]:
        """(line, row, what was found) of every row, in order."""
        pairs = read_chunk(chunk)
        while batch := list(itertools.islice(pairs, self.batch_rows)):
            alone = batch[0][0] == strikes.suspect
            for some in [[pair] for pair in batch] if alone else [batch]:
                strikes.aim(some[0][0], alone=alone)
                yield from self._batch(chunk, some, strikes, tally)

    def _batch(
        self, chunk: Chunk, batch: list[tuple[int, Any]], strikes: Strikes, tally: Tally
    ) -> Iterator[tuple[int, Any, _Found]]:
        rollouts: dict[int, Rollout] = {}
        found: dict[int, _Found] = {}
        for line, row in batch:
            if line in strikes.out:
                found[line] = ("killed_worker", f"workers died {strikes.out[line]} times while they scored this row")
            elif isinstance(read := self._read(chunk, line, row), Rollout):
                rollouts[line] = read
            else:
                found[line] = ("unreadable", read)
        with self._watched():
            scored = score_rollouts(list(rollouts.values()), self.scorers, self._opened)
        tally.counts["scored"] += scored.made
        tally.counts["reused"] += scored.found
        for (line, rollout), scores in zip(rollouts.items(), scored.scores, strict=True):
            found[line] = decide(rollout, scores, self.rule)
        for line, row in batch:
            yield line, row, found[line]

    def _read(self, chunk: Chunk, line: int, row: Any) -> Rollout | str:
        """The rollout of a row, or why there is none."""
        if isinstance(row, Exception):
            return str(row)
        name = f"{Path(chunk.source).name}:{line}" if chunk.many else str(line)
        try:
            return from_row(row, gold_field=self.gold_field, how=self.how, id=name)
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            return str(error)

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """End this process if the block takes longer than ``stall_s``, even where C code holds the interpreter."""
        if not self.supervised:
            yield
            return
        faulthandler.dump_traceback_later(self.stall_s, exit=True, file=sys.__stderr__ or sys.stderr)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()

    def close(self) -> None:
        """Close the journal and the scorers; another call opens them again."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None
        for scorer in self.scorers.values():
            scorer.close()


def _file(
    parts: dict[str, list[dict[str, Any]]],
    tally: Tally,
    source: str,
    line: int,
    row: Any,
    decision: _Found,
) -> None:
    """Put a row where it belongs, and count it."""
    if isinstance(decision, Decision) and decision.fate != "quarantined":
        tally.add(decision)
        because = {"reason": decision.reason} if decision.fate == "dropped" else {}
        parts[decision.fate].append(decision.row | because)
        return
    if isinstance(decision, Decision):
        tally.add(decision)
        tally.counts["failed"] += decision.reason != "rule"
        name, reason, message = decision.rollout.id, decision.reason, decision.message
    else:
        (reason, message), name = decision, str(line)
        tally.note("quarantined", reason, {"source": source, "line": line, "message": message[:300]})
    text = "" if isinstance(row, Exception) else json.dumps(row, default=repr)[:ROW_CHARS]
    parts["quarantined"].append(
        {"source": source, "line": line, "id": name, "reason": reason, "message": message[:ROW_CHARS], "row": text}
    )
