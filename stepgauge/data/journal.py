"""Finished work on disk, in SQLite: what is in a journal survives a kill of every process."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Self

__all__ = ["Journal", "JournalFile"]

_SCHEMA = "CREATE TABLE IF NOT EXISTS entries (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"
_VERSION = 0x73676A31  # "sgj1"
_ASKED_AT_ONCE = 500


class JournalFile:
    """A SQLite file of one table that only grows; threads and processes on one machine share it.

    Write-ahead log with a sync a commit: ``add`` returns when its rows are on the disk, all or none of them. SQLite's
    locks do not work over network file systems: give each machine its own file.

    Args:
        path: the file, made if there is none; ":memory:" keeps nothing.
        schema: the CREATE TABLE statement. version: of the schema, any number but 0; another one is refused.

    Raises:
        ValueError: a file that is something else.

    Example:
        >>> with JournalFile(":memory:", "CREATE TABLE IF NOT EXISTS seen (name TEXT PRIMARY KEY)", 1) as file:
        ...     file.add("INSERT INTO seen VALUES (?)", [("a",), ("b",)])
        ...     file.ask("SELECT name FROM seen ORDER BY name")
        [('a',), ('b',)]
    """

    def __init__(self, path: str | PathLike[str], schema: str, version: int) -> None:
        self.path = str(path)
        if self.path != ":memory:":
            Path(self.path).parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._db = sqlite3.connect(self.path, timeout=60.0, isolation_level=None, check_same_thread=False)
        try:
            self._open(schema, version)
        except BaseException:
            self._db.close()
            raise

    def _open(self, schema: str, version: int) -> None:
        try:
            tables = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            mark = self._db.execute("PRAGMA user_version").fetchone()[0]  # second: another process may be making it
            if mark not in (0, version) or (tables and not mark):
                raise ValueError(
                    f"Journal(path): {self.path} is a database, but no journal of this version; name another file"
                )
            if not mark:
                self._db.execute("PRAGMA journal_mode=WAL")
                self._db.execute("BEGIN IMMEDIATE")  # table and mark appear together, or a kill leaves neither
                self._db.execute(schema)
                self._db.execute(f"PRAGMA user_version={version}")
                self._db.execute("COMMIT")
            self._db.execute("PRAGMA synchronous=FULL")
        except sqlite3.DatabaseError as error:
            raise ValueError(f"Journal(path): {self.path} cannot be used ({error}); name another file") from error

    def ask(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows that a SELECT finds."""
        with self._lock:
            return self._db.execute(query, values).fetchall()

    def add(self, insert: str, rows: Iterable[Sequence[Any]]) -> None:
        """Insert rows in one transaction."""
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._db.executemany(insert, rows)
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def close(self) -> None:
        """Close the file; it cannot be used afterwards."""
        with self._lock:
            self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Journal(JournalFile):
    """A map from content keys to values (both bytes) in a file; the first value of a key stays.

    Args:
        path: as in ``JournalFile``, whose promises it keeps.

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
        super().__init__(path, _SCHEMA, _VERSION)

    def get(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """The entries that are there, of those asked for."""
        wanted = list(dict.fromkeys(keys))
        found: dict[bytes, bytes] = {}
        for start in range(0, len(wanted), _ASKED_AT_ONCE):
            some = wanted[start : start + _ASKED_AT_ONCE]
            marks = ",".join("?" * len(some))
            found.update(self.ask(f"SELECT key, value FROM entries WHERE key IN ({marks})", some))
        return found

    def put(self, entries: Mapping[bytes, bytes]) -> None:
        """Add entries in one transaction; a key that is there already keeps its value."""
        if entries:
            self.add("INSERT INTO entries VALUES (?, ?) ON CONFLICT DO NOTHING", entries.items())

    def __len__(self) -> int:
        return int(self.ask("SELECT count(*) FROM entries")[0][0])
