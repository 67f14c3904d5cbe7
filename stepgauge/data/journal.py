"""Finished work on disk: content keys to values, in SQLite; what is in it survives a kill of every process."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path

__all__ = ["Journal"]

_SCHEMA = "CREATE TABLE IF NOT EXISTS entries (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"
_APPLICATION = 0x73676A31  # "sgj1": says whose file it is, and which version
_ASKED_AT_ONCE = 500


class Journal:
    """A map from keys to values (both bytes) that only grows; threads and processes on one machine share the file.

    Write-ahead log with a sync a commit: ``put`` returns when its entries are on the disk, all or none of them. The
    first value of a key stays. SQLite's locks do not work over network file systems: give each machine its own file.

    Args:
        path: the file, made if there is none; ":memory:" keeps nothing.

    Raises:
        ValueError: a file that is something else.

    Example:
        >>> with Journal(":memory:") as journal:
        ...     journal.put({b"a": b"1", b"b": b"2"})
        ...     journal.put({b"a": b"3"})
        ...     sorted(journal.get([b"a", b"b", b"c"]).items()), len(journal)
        ([(b'a', b'1'), (b'b', b'2')], 2)
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = str(path)
        if self.path != ":memory:":
            Path(self.path).parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._db = sqlite3.connect(self.path, timeout=60.0, isolation_level=None, check_same_thread=False)
        try:
            self._open()
        except BaseException:
            self._db.close()
            raise

    def _open(self) -> None:
        try:
            mark = self._db.execute("PRAGMA application_id").fetchone()[0]
            tables = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if not mark and not tables:
                self._db.execute("PRAGMA journal_mode=WAL")
                self._db.execute(_SCHEMA)
                self._db.execute(f"PRAGMA application_id={_APPLICATION}")
                mark = _APPLICATION
            if mark == _APPLICATION:
                self._db.execute("PRAGMA synchronous=FULL")
                return
        except sqlite3.DatabaseError as error:
            raise ValueError(f"Journal(path): {self.path} cannot be used ({error}); name another file") from error
        raise ValueError(f"Journal(path): {self.path} is a database, but no journal; name another file")

    def get(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """The entries that are there, of those asked for."""
        wanted = list(dict.fromkeys(keys))
        found: dict[bytes, bytes] = {}
        with self._lock:
            for start in range(0, len(wanted), _ASKED_AT_ONCE):
                some = wanted[start : start + _ASKED_AT_ONCE]
                marks = ",".join("?" * len(some))
                found.update(self._db.execute(f"SELECT key, value FROM entries WHERE key IN ({marks})", some))
        return found

    def put(self, entries: Mapping[bytes, bytes]) -> None:
        """Add entries in one transaction; a key that is there already keeps its value."""
        if not entries:
            return
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._db.executemany("INSERT INTO entries VALUES (?, ?) ON CONFLICT DO NOTHING", entries.items())
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def __len__(self) -> int:
        with self._lock:
            return int(self._db.execute("SELECT count(*) FROM entries").fetchone()[0])

    def close(self) -> None:
        """Close the file; the journal cannot be used afterwards."""
        with self._lock:
            self._db.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
