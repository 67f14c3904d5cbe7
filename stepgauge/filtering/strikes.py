"""Which row kills workers: a note beside the job that outlives the process that wrote it.

The note names each batch before it is scored. Where a try ended in death, the next one scores the rows of that batch
one at a time, each named first. A row at which two such tries ended is left out; one death may have had another cause.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import IO, Self

__all__ = ["Strikes"]

STRIKES = 2
MAX_TRIES = 100


class Strikes:
    """The note of one shard; removed when the ``with`` block ends without an exception.

    ``suspect``: first row of the batch in which an earlier try died, if any. ``out``: rows to leave out, with the
    number of deaths at them.

    Raises:
        RuntimeError: on entering, after ``MAX_TRIES`` deaths.
    """

    def __init__(self, path: Path, what: str) -> None:
        self.path = path
        self.what = what
        self.suspect: int | None = None
        self.out: dict[int, int] = {}
        self._stream: IO[bytes] | None = None

    def __enter__(self) -> Self:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        ends = self._read()
        if len(ends) >= MAX_TRIES:
            raise RuntimeError(
                f"workers died {len(ends)} times over {self.what}; look for memory or a broken device, then remove "
                f"{self.path} and run again"
            )
        deaths = Counter(row for row in ends if row is not None)
        self.out = {row: count for row, count in deaths.items() if count >= STRIKES}
        self._stream = self.path.open("ab", buffering=0)
        self._stream.write(b"try\n")
        return self

    def _read(self) -> list[int | None]:
        """The single row at which each earlier try ended, None for one that ended in a batch; finds ``suspect``."""
        try:
            tries = self.path.read_text(encoding="ascii", errors="replace").split("try\n")[1:]
        except FileNotFoundError:
            return []
        ends: list[int | None] = []
        for one in tries:
            mark, _, number = one.rstrip("\n").rpartition("\n")[2].partition(" ")
            ends.append(int(number) if mark == "row" and number.isdigit() else None)
            if mark == "batch" and number.isdigit():
                self.suspect = int(number)
        return ends

    def aim(self, row: int, *, alone: bool) -> None:
        """About to score this row, alone or with the batch it begins."""
        if self._stream is not None:
            self._stream.write(b"%s %d\n" % (b"row" if alone else b"batch", row))

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        if self._stream is not None:
            self._stream.close()
        if kind is None:
            os.unlink(self.path)
