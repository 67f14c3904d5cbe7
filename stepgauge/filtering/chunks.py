"""A source of rows cut into numbered chunks, always the same ones, that another process can read by itself.

Plain JSON lines, parquet with moderate row groups and ``datasets`` folders are cut by place: a chunk is a file and a
range. What can only be read from its start (gzip, standard input, a stream, rows in memory) travels inside its chunks.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from stepgauge.data.files import JSON_SUFFIXES, MAX_LINE_BYTES, first_byte, json_lines, open_rows

__all__ = ["Chunk", "Chunks", "cut", "read_chunk"]

MAX_CHUNK_BYTES = 32 * 2**20  # of JSON lines; a chunk of long rows has fewer of them
_LARGE_GROUPS = 8  # row groups of more chunks than this are read once, from their start
_READ_ROWS = 256

Source = str | PathLike[str] | Iterable[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive rows of a source.

    ``count`` rows (or lines) from place ``first`` (1-based) on, in one of four forms: "lines" are ``length`` bytes from
    byte ``start`` of a file, "parquet" and "dataset" are rows from row ``start`` (0-based) on, "rows" carries
    (place, row) pairs, with a ``digest`` of them. ``many``: the source has several files, so a row is named by both.
    """

    index: int
    source: str
    first: int
    count: int
    form: Literal["lines", "parquet", "dataset", "rows"]
    start: int = 0
    length: int = 0
    rows: tuple[tuple[int, Any], ...] = ()
    digest: str = ""
    many: bool = False


@dataclass(frozen=True, slots=True)
class Chunks:
    """The chunks of a source, how many rows they hold (None = not known beforehand), and what tells the source."""

    chunks: Iterable[Chunk]
    rows: int | None
    identity: tuple[Any, ...]


def cut(source: Source, rows: int) -> Chunks:
    """Cut ``source`` into chunks of at most ``rows`` rows.

    Args:
        source: as ``stepgauge.data.read_rollouts`` takes; besides, a folder of .jsonl and .parquet files (read in the
            order of their names), and a ``datasets.IterableDataset``.
        rows: of a chunk, at most; the last one of a file has fewer.

    Raises:
        FileNotFoundError, ValueError: as ``read_rollouts``, for sources that are not there or cannot be read.

    Example:
        >>> found = cut([{"problem": "p", "steps": ["a"]}] * 5, 2)
        >>> [(chunk.index, chunk.first, chunk.count) for chunk in found.chunks]
        [(0, 1, 2), (1, 3, 2), (2, 5, 1)]
    """
    if rows < 1:
        raise ValueError(f"cut(rows) must be at least 1, got {rows}")
    if not isinstance(source, str | PathLike):
        return Chunks(_carried("rows", open_rows(source), rows), _length(source), (type(source).__name__,))
    path = Path(source)
    if not path.exists():  # a name such as "-" or "bundled", or the error that says what there is
        return Chunks(_carried(str(source), open_rows(source), rows), None, (str(source),))
    files = [file for file in sorted(path.iterdir()) if _is_rows(file)] if path.is_dir() else [path]
    if path.is_dir() and (not files or (path / "dataset_info.json").exists()):
        files = [path]
    parts = [_cut_file(file, rows) for file in files]
    known = [part.rows for part in parts]
    chained = itertools.chain.from_iterable(part.chunks for part in parts)
    numbered = (replace(chunk, index=index, many=len(files) > 1) for index, chunk in enumerate(chained))
    total = None if None in known else sum(n for n in known if n is not None)
    if total == 0:
        raise ValueError(f"{source} is empty; it should hold one row per rollout")
    return Chunks(numbered, total, tuple(itertools.chain.from_iterable(part.identity for part in parts)))


def _is_rows(file: Path) -> bool:
    return file.is_file() and not file.name.startswith(".") and file.name.endswith((".parquet", *JSON_SUFFIXES))


def _length(source: Iterable[Any]) -> int | None:
    return len(source) if isinstance(source, Sized) else None


def _cut_file(path: Path, rows: int) -> Chunks:
    if path.is_dir():
        import datasets

        next(open_rows(path), None)  # says what is wrong with the folder
        dataset = datasets.load_from_disk(str(path))
        return Chunks(_ranges(path, "dataset", len(dataset), rows), len(dataset), (dataset._fingerprint,))
    stat = path.stat()
    identity = (path.name, stat.st_size, stat.st_mtime_ns)
    if path.suffix == ".parquet" and stat.st_size:
        next(open_rows(path), None)
        total, largest = _parquet_size(path)
        if largest <= _LARGE_GROUPS * rows:
            return Chunks(_ranges(path, "parquet", total, rows), total, identity)
        return Chunks(_carried(str(path), open_rows(path), rows), total, identity)
    if path.suffix in (".jsonl", ".json") and stat.st_size and first_byte(path) != b"[":
        lines = list(_line_ranges(path, rows))
        return Chunks(lines, sum(chunk.count for chunk in lines), identity)
    return Chunks(_carried(str(path), open_rows(path), rows), None, identity)


def _parquet_size(path: Path) -> tuple[int, int]:
    import pyarrow.parquet as pq

    meta = pq.read_metadata(path)
    groups = [meta.row_group(index).num_rows for index in range(meta.num_row_groups)]
    return meta.num_rows, max(groups, default=0)


def _ranges(path: Path, form: Literal["parquet", "dataset"], total: int, rows: int) -> Iterator[Chunk]:
    for index, start in enumerate(range(0, total, rows)):
        yield Chunk(index, str(path), start + 1, min(rows, total - start), form, start)


def _line_ranges(path: Path, rows: int) -> Iterator[Chunk]:
    index, first, start, count, length = 0, 1, 0, 0, 0
    with path.open("rb") as stream:
        while line := stream.readline(MAX_LINE_BYTES + 1):
            length += len(line)
            if len(line) > MAX_LINE_BYTES and not line.endswith(b"\n"):
                continue  # one line, read in pieces
            count += 1
            if count == rows or length >= MAX_CHUNK_BYTES:
                yield Chunk(index, str(path), first, count, "lines", start, length)
                index, first, start, count, length = index + 1, first + count, start + length, 0, 0
    if length:
        yield Chunk(index, str(path), first, max(count, 1), "lines", start, length)


def _carried(source: str, pairs: Iterator[tuple[int, Any]], rows: int) -> Iterator[Chunk]:
    for index in itertools.count():
        some = tuple(itertools.islice(pairs, rows))
        if not some:
            return
        content = json.dumps(some, default=repr).encode()
        digest = hashlib.blake2b(content, digest_size=16).hexdigest()
        yield Chunk(index, source, some[0][0], len(some), "rows", rows=some, digest=digest)


def read_chunk(chunk: Chunk) -> Iterator[tuple[int, Any]]:
    """Stream (place, row) of a chunk; a row that cannot be read is the exception that says why."""
    match chunk.form:
        case "lines":
            with open(chunk.source, "rb") as stream:
                stream.seek(chunk.start)
                content = stream.read(chunk.length)
            for line, row in json_lines(io.BytesIO(content)):
                yield line + chunk.first - 1, row
        case "parquet":
            yield from enumerate(_parquet_rows(chunk), chunk.first)
        case "dataset":
            import datasets

            rows = datasets.load_from_disk(chunk.source).select(range(chunk.start, chunk.start + chunk.count))
            yield from enumerate(rows, chunk.first)
        case "rows":
            yield from chunk.rows


def _parquet_rows(chunk: Chunk) -> Iterator[Any]:
    import pyarrow.parquet as pq

    end = chunk.start + chunk.count
    with pq.ParquetFile(chunk.source) as file:
        at, groups, skipped = 0, [], 0
        for group in range(file.metadata.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if at < end and at + rows > chunk.start:
                groups.append(group)
            elif at + rows <= chunk.start:
                skipped = at + rows
            at += rows
        at = skipped
        for batch in file.iter_batches(batch_size=_READ_ROWS, row_groups=groups):
            wanted = batch[max(0, chunk.start - at) : max(0, end - at)]
            yield from wanted.to_pylist()
            at += len(batch)
