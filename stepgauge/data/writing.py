"""Rows out: a file appears complete, or not at all."""

from __future__ import annotations

import gzip
import json
import math
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import IO, Any

__all__ = ["write_rows", "write_text"]

_BATCH = 512  # rows of a parquet file held at a time


def write_rows(path: str | PathLike[str], rows: Iterable[Mapping[str, Any]]) -> int:
    """Write rows as JSON lines (.jsonl, .jsonl.gz), parquet (.parquet) or a ``datasets`` folder (a path without suffix,
    as ``save_to_disk`` writes it) and return how many; streams ``rows``.

    The rows go to a temporary file in the same folder, which is renamed when all of it is on the disk: a killed run or
    an exception out of ``rows`` leaves what was there before. Missing folders are made. NaN and infinity, which JSON
    has not, become null.

    Raises:
        ValueError: another suffix, a folder that exists, or columns whose types no parquet column can hold together.
        TypeError: a row that is not a mapping, or a value that JSON cannot write.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_rows(f"{folder}/scores.jsonl", [{"id": "a", "score": 0.5}])
        1
    """
    target = Path(path).resolve()
    if target.is_dir():
        raise ValueError(f"write_rows(path): the folder {str(path)!r} exists; name a file in it, or another folder")
    if target.suffix and not target.name.endswith((".jsonl", ".jsonl.gz", ".parquet")):
        raise ValueError(
            f"write_rows(path) must end in .jsonl, .jsonl.gz or .parquet, or have no suffix for a datasets folder; "
            f"got {str(path)!r}"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.suffix:
        return _write_dataset(target, rows)
    if target.suffix == ".parquet":
        return _write_parquet(target, rows)
    with appearing(target) as stream:
        if target.suffix == ".gz":
            with gzip.GzipFile(filename="", fileobj=stream, mode="wb", mtime=0) as packed:
                return _write_lines(packed, rows)
        return _write_lines(stream, rows)


def write_text(path: str | PathLike[str], text: str) -> None:
    """Write a text file in UTF-8, whole or not at all; missing folders are made.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_text(f"{folder}/page.html", "<!doctype html>")
    """
    target = Path(path).resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    with appearing(target) as stream:
        stream.write(text.encode())


@contextmanager
def appearing(target: Path) -> Iterator[IO[bytes]]:
    """A stream to a temporary file beside ``target`` that takes its place on success and is removed otherwise."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(target)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _write_lines(stream: IO[bytes] | gzip.GzipFile, rows: Iterable[Mapping[str, Any]]) -> int:
    count = 0
    for row in rows:
        if not isinstance(row, Mapping):
            raise TypeError(f"write_rows(rows): row {count + 1} must be a mapping, got {type(row).__name__}")
        stream.write(_line(row))
        count += 1
    return count


def _line(row: Mapping[str, Any]) -> bytes:
    try:
        text = json.dumps(dict(row), ensure_ascii=False, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(dict(row)), ensure_ascii=False, allow_nan=False)
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:  # a lone surrogate; JSON can escape it
        return json.dumps(json.loads(text)).encode() + b"\n"


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def without_empty_structs(value: Any) -> Any:
    """Parquet has no struct without fields: {} becomes null."""
    if isinstance(value, dict):
        return {key: without_empty_structs(item) for key, item in value.items()} or None
    return [without_empty_structs(item) for item in value] if isinstance(value, list) else value


def _write_parquet(target: Path, rows: Iterable[Mapping[str, Any]]) -> int:
    """Two passes over a spool of JSON lines, because a column's type is known only after the last row."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    spool = target.with_name(f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}.spool")
    try:
        with spool.open("xb") as lines:
            count = _write_lines(lines, rows)
        try:
            schema = pa.schema([])
            for batch in _batches(spool):
                names = dict.fromkeys(name for row in batch for name in row)
                types = [pa.field(name, pa.infer_type([row.get(name) for row in batch])) for name in names]
                schema = pa.unify_schemas([schema, pa.schema(types)], promote_options="permissive")
            with appearing(target) as stream, pq.ParquetWriter(stream, schema) as writer:
                for batch in _batches(spool):
                    writer.write_table(pa.Table.from_pylist(batch, schema=schema))
        except pa.ArrowException as error:
            raise ValueError(f"write_rows: parquet cannot hold these rows ({error}); write .jsonl") from error
    finally:
        with suppress(FileNotFoundError):
            spool.unlink()
    return count


def _write_dataset(target: Path, rows: Iterable[Mapping[str, Any]]) -> int:
    import datasets

    work = target.with_name(f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    quiet = datasets.are_progress_bars_disabled()
    try:
        work.mkdir()
        count = _write_parquet(work / "rows.parquet", rows)
        datasets.disable_progress_bars()
        dataset = datasets.Dataset.from_parquet(str(work / "rows.parquet"), cache_dir=str(work / "cache"))
        dataset.save_to_disk(str(work / "dataset"))
        (work / "dataset").rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)
        if not quiet:
            datasets.enable_progress_bars()
    return count


def _batches(spool: Path) -> Iterator[list[dict[str, Any]]]:
    with spool.open("rb") as stream:
        rows = (without_empty_structs(json.loads(line)) for line in stream)
        while batch := list(islice(rows, _BATCH)):
            yield batch
