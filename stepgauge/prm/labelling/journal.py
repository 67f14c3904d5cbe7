"""What was drawn, on disk at once: every (prefix, sample index) is paid for once, whatever kills the run."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal, cast, get_args

from stepgauge.prm.labelling.counts import Counts, Outcome

__all__ = ["Drawn", "Journal"]

_SCHEMA = """CREATE TABLE IF NOT EXISTS samples (
    prefix BLOB NOT NULL, sample INTEGER NOT NULL, outcome TEXT NOT NULL, tokens INTEGER NOT NULL, text TEXT NOT NULL,
    PRIMARY KEY (prefix, sample)) WITHOUT ROWID"""
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Drawn:
    """One completion: how it came out (or that it is a judge's critique), how many tokens it took, and its text."""

    outcome: Outcome | Literal["critique"]
    tokens: int
    text: str


class Journal:
    """Completions by (prefix hash, sample index), in SQLite (WAL, every commit on disk before it counts).

    Threads and processes may share the file, on a local disk. A request is one transaction: it is there whole or not at
    all, so that a rerun asks for the same requests.

    Args:
        path: of the file; ":memory:" keeps nothing.

    Raises:
        ValueError: a file that is no journal, or one of another version.

    Example:
        >>> journal = Journal(":memory:")
        >>> journal.put(b"prefix", {0: Drawn("correct", 12, "The answer is 2.")})
        >>> journal.get(b"prefix")[0].outcome
        'correct'
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = str(path)
        if self.path != ":memory:":
            Path(self.path).parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._db = sqlite3.connect(self.path, timeout=60.0, isolation_level=None, check_same_thread=False)
        try:
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            tables = self._db.execute("SELECT count(*) FROM sqlite_master WHERE name != 'samples'").fetchone()[0]
            if version not in (0, _VERSION) or tables:
                raise ValueError(f"{self.path} is a database, but no journal of this version; name another file")
            self._db.execute(_SCHEMA)
            self._db.execute(f"PRAGMA user_version={_VERSION}")
        except sqlite3.DatabaseError as error:
            self._db.close()
            raise ValueError(f"{self.path} cannot be used as a journal: {error}; name another file") from error
        except ValueError:
            self._db.close()
            raise

    def get(self, prefix: bytes) -> dict[int, Drawn]:
        """All samples of a prefix by index."""
        with self._lock:
            rows = self._db.execute(
                "SELECT sample, outcome, tokens, text FROM samples WHERE prefix = ? ORDER BY sample", (prefix,)
            ).fetchall()
        return {sample: Drawn(outcome, tokens, text) for sample, outcome, tokens, text in rows}

    def put(self, prefix: bytes, drawn: Mapping[int, Drawn]) -> None:
        """Add samples in one transaction; what is already there stays."""
        rows = [
            (prefix, sample, d.outcome, d.tokens, d.text.encode("utf-8", "replace").decode())
            for sample, d in drawn.items()
        ]
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._db.executemany("INSERT INTO samples VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", rows)
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def totals(self) -> tuple[int, int]:
        """(completions, tokens) in the journal: what has been paid for so far."""
        with self._lock:
            count, tokens = self._db.execute("SELECT count(*), coalesce(sum(tokens), 0) FROM samples").fetchone()
        return int(count), int(tokens)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def tally(drawn: Sequence[Drawn]) -> Counts:
    """Counts of some completions by outcome."""
    counts = cast("dict[str, Any]", dict.fromkeys(get_args(Outcome), 0))
    for item in drawn:
        counts[item.outcome] += 1
    return Counts(**counts)
