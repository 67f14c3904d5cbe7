"""What was drawn, on disk at once: every (prefix, sample index) is paid for once, whatever kills the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Literal, cast, get_args

from stepgauge.data.journal import JournalFile
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


class Journal(JournalFile):
    """Completions by (prefix hash, sample index), in a file with the promises of ``JournalFile``.

    A request is one transaction: it is there whole or not at all, so that a rerun asks for the same requests.

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
        super().__init__(path, _SCHEMA, _VERSION)

    def get(self, prefix: bytes) -> dict[int, Drawn]:
        """All samples of a prefix by index."""
        rows = self.ask("SELECT sample, outcome, tokens, text FROM samples WHERE prefix = ? ORDER BY sample", (prefix,))
        return {sample: Drawn(outcome, tokens, text) for sample, outcome, tokens, text in rows}

    def put(self, prefix: bytes, drawn: Mapping[int, Drawn]) -> None:
        """Add samples in one transaction; what is already there stays."""
        rows = [
            (prefix, sample, d.outcome, d.tokens, d.text.encode("utf-8", "replace").decode())
            for sample, d in drawn.items()
        ]
        self.add("INSERT INTO samples VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", rows)

    def totals(self) -> tuple[int, int]:
        """(completions, tokens) in the journal: what has been paid for so far."""
        ((count, tokens),) = self.ask("SELECT count(*), coalesce(sum(tokens), 0) FROM samples")
        return int(count), int(tokens)


def tally(drawn: Sequence[Drawn]) -> Counts:
    """Counts of some completions by outcome."""
    counts = cast("dict[str, Any]", dict.fromkeys(get_args(Outcome), 0))
    for item in drawn:
        counts[item.outcome] += 1
    return Counts(**counts)
