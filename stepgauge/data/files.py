"""Rollouts in: JSONL, parquet, a ``datasets`` folder, standard input, the bundled samples or rows in memory.

A row that cannot be read is reported with its place and skipped; a source that cannot be read raises.
"""

from __future__ import annotations

import gzip
import json
import logging
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, cast

from stepgauge.data.bundled import sample_path
from stepgauge.data.rows import from_row
from stepgauge.data.steps import SPLITTERS
from stepgauge.scoring import Rollout

__all__ = ["BadRow", "read_rollouts", "read_rows"]

MAX_LINE_BYTES = 64 * 2**20
JSON_SUFFIXES = (".jsonl", ".json", ".jsonl.gz", ".json.gz")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that was skipped: where it stands (1-based line of a JSONL file, else row) and what is wrong with it.

    Example:
        >>> print(BadRow("runs.jsonl", 3, "steps must be a list of strings, got str"))
        runs.jsonl:3: steps must be a list of strings, got str
    """

    source: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.source}:{self.line}: {self.message}"


OnBad = Callable[[BadRow], None]
_Row = tuple[int, Any]  # line and row; an exception in place of the row says why there is none


def _log_bad(bad: BadRow) -> None:
    _log.warning("skipped %s", bad)


def read_rollouts(
    source: str | PathLike[str] | Iterable[Mapping[str, Any]],
    *,
    gold_field: str | None = None,
    how: str = "auto",
    on_bad: OnBad = _log_bad,
) -> Iterator[Rollout]:
    """Stream the rollouts of ``source``; see ``from_row`` for the field names.

    Args:
        source: a file (.jsonl, .json, .jsonl.gz, .json.gz, .parquet), a folder written by ``datasets``'
            ``save_to_disk``, "-" for JSON lines on standard input, "bundled" or "bundled:dev_1.5b" for the samples in
            the package, or an iterable of rows.
        gold_field: the column that holds the gold answer, if not "gold".
        how: the splitter for rows that give a text, see ``stepgauge.data.split``.
        on_bad: called with a ``BadRow`` for each row that is skipped; logs a warning by default.

    Raises:
        FileNotFoundError: no such file. ValueError: an empty or unreadable file, a suffix that is not known.

    Example:
        >>> rows = [{"problem": "1+1?", "steps": ["1+1 = 2."], "gold": 2}, {"problem": "no steps"}]
        >>> bad = []
        >>> [rollout.gold for rollout in read_rollouts(rows, on_bad=bad.append)], bad[0].line
        (['2'], 2)
    """
    if how not in SPLITTERS:
        raise ValueError(f"read_rollouts(how) must be one of {', '.join(SPLITTERS)}; got {how!r}")
    name = str(source) if isinstance(source, str | PathLike) else "rows"
    return _rollouts(name, open_rows(source), gold_field, how, on_bad)


def read_rows(source: str | PathLike[str], *, on_bad: OnBad = _log_bad) -> Iterator[tuple[int, Any]]:
    """Stream (line, row) of a file as it is, for rows that are no rollouts; sources and errors as ``read_rollouts``.

    Example:
        >>> [(line, row["gold"]) for line, row in read_rows("bundled")][:1]
        [(1, '644')]
    """
    return _good_rows(str(source), open_rows(source), on_bad)


def _good_rows(name: str, rows: Iterator[_Row], on_bad: OnBad) -> Iterator[tuple[int, Any]]:
    line = 0
    for line, row in rows:
        if isinstance(row, Exception):
            on_bad(BadRow(name, line, str(row)))
        else:
            yield line, row
    if line == 0 and name != "rows":
        raise ValueError(f"{name} is empty; it should hold one row per rollout")


def _rollouts(name: str, rows: Iterator[_Row], gold_field: str | None, how: str, on_bad: OnBad) -> Iterator[Rollout]:
    for line, row in _good_rows(name, rows, on_bad):
        try:
            rollout = from_row(row, gold_field=gold_field, how=how, id=str(line))
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            on_bad(BadRow(name, line, str(error)))
        else:
            yield rollout


def open_rows(source: str | PathLike[str] | Iterable[Mapping[str, Any]]) -> Iterator[_Row]:
    """Stream (line, row) of any source; a row that cannot be read is the exception that says why."""
    if not isinstance(source, str | PathLike):
        return enumerate(source, start=1)
    if source == "-":
        return json_lines(sys.stdin.buffer)
    name, _, sample = str(source).partition(":")
    path = sample_path(sample or "dev_0.5b") if name == "bundled" else Path(source)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {str(path)!r}; give a file, '-' for standard input, or 'bundled'")
    if path.is_dir():
        return _dataset_rows(path)
    if path.stat().st_size == 0 and path.is_file():
        raise ValueError(f"{path} is empty; it should hold one row per rollout")
    if path.name.endswith(".parquet"):
        return _parquet_rows(path)
    if path.name.endswith(JSON_SUFFIXES):
        return _json_rows(path)
    raise ValueError(f"{path} has a suffix that is not known; use one of {', '.join(JSON_SUFFIXES)}, .parquet")


def _binary(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _json_rows(path: Path) -> Iterator[_Row]:
    with _binary(path) as stream:
        if ".json" in path.suffixes and first_byte(path) == b"[":
            try:
                yield from enumerate(json.load(stream), start=1)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{path} is not a JSON list ({error}); write one row per line, as .jsonl") from error
        else:
            yield from json_lines(stream)


def first_byte(path: Path) -> bytes:
    """The first byte that is no space; b"[" begins a JSON list."""
    with _binary(path) as stream:
        return stream.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()[:1]


def json_lines(stream: BinaryIO) -> Iterator[_Row]:
    """(line, row) of JSON lines; blank lines are left out, broken ones give the exception."""
    number = 0
    while True:
        number += 1
        try:
            line = stream.readline(MAX_LINE_BYTES + 1)
            too_long = len(line) > MAX_LINE_BYTES
            while len(line) > MAX_LINE_BYTES and not line.endswith(b"\n"):  # the rest of it
                line = stream.readline(MAX_LINE_BYTES + 1)
        except (EOFError, OSError, zlib.error) as error:
            yield number, ValueError(f"the file is damaged here and cannot be read further ({error})")
            return
        if too_long:
            yield number, ValueError(f"the line is longer than {MAX_LINE_BYTES // 2**20} MB; leave such rows out")
        elif not line:
            return
        elif line.strip():
            yield number, _parse(line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line)


def _parse(line: bytes) -> Any:
    try:
        return json.loads(line.decode())
    except UnicodeDecodeError as error:
        return ValueError(f"byte {error.start} (0x{line[error.start]:02x}) is not UTF-8; write the file as UTF-8")
    except RecursionError:
        return ValueError("the JSON is nested too deeply")
    except ValueError as error:
        return ValueError(f"broken JSON: {error}")


def _parquet_rows(path: Path) -> Iterator[_Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"{path} is not a parquet file that can be read ({error}); write it again") from error
    with file:
        number = 0
        for batch in file.iter_batches(batch_size=256):
            for row in batch.to_pylist():
                number += 1
                yield number, row


def _dataset_rows(path: Path) -> Iterator[_Row]:
    import datasets

    try:
        dataset = datasets.load_from_disk(str(path))
    except (FileNotFoundError, ValueError) as error:
        raise ValueError(
            f"the folder {path} was not written by datasets' save_to_disk ({error}); give one file of it instead"
        ) from error
    if isinstance(dataset, datasets.DatasetDict):
        splits = ", ".join(dataset)
        raise ValueError(f"{path} holds the splits {splits}; name the folder of one, as {path / next(iter(dataset))}")
    yield from enumerate(dataset, start=1)
