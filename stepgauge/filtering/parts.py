"""Parquet parts: each appears whole or not at all, and in the end all of them have the same columns.

A column whose values have no common type (a number here, a text there) is stored as JSON text in every part; its field
metadata says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepgauge.data.writing import appearing, without_empty_structs

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["read_parts", "unify_parts", "write_part"]

_JSON = {b"stepgauge": b"json"}


def write_part(path: Path, rows: Sequence[Mapping[str, Any]], types: Mapping[str, str]) -> None:
    """Write rows as one parquet file.

    Args:
        path: of the file; a file of that name is replaced.
        rows: in order; a row may lack columns.
        types: Arrow types, by column, as ``_arrow_type`` names them; the others are found from the values.
    """
    import pyarrow as pa

    names = dict.fromkeys(name for row in rows for name in row)
    fields, columns = [], []
    for name in names:
        values = [without_empty_structs(row.get(name)) for row in rows]
        column = pa.array(values, _arrow_type(types[name])) if name in types else _inferred(values)
        fields.append(pa.field(name, pa.string(), metadata=_JSON) if column is None else pa.field(name, column.type))
        columns.append(pa.array(_as_json(values), pa.string()) if column is None else column)
    _replace(path, pa.Table.from_arrays(columns, schema=pa.schema(fields)))


def _replace(path: Path, table: pa.Table) -> None:
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    with appearing(path) as stream:
        pq.write_table(table, stream)


def _arrow_type(name: str) -> pa.DataType:
    import pyarrow as pa

    plain = {"float": pa.float64(), "int": pa.int64(), "str": pa.string()}
    return pa.list_(_arrow_type(name.removeprefix("list "))) if name.startswith("list ") else plain[name]


def _inferred(values: Sequence[Any]) -> pa.Array | None:
    """The values as a column, or None where no type holds them all."""
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return None


def _as_json(values: Iterable[Any]) -> list[str | None]:
    return [None if value is None else json.dumps(value, default=str) for value in values]


def unify_parts(folder: Path) -> None:
    """Give all parts of a folder the same columns in the same order; rewrites those that differ, one at a time."""
    import pyarrow.parquet as pq

    parts = sorted(folder.glob("part-*.parquet"))
    wanted = _common_schema([pq.read_schema(part) for part in parts])
    for part in parts:
        if not pq.read_schema(part).equals(wanted, check_metadata=True):
            _replace(part, _fitted(pq.read_table(part), wanted))


def _common_schema(schemas: Sequence[pa.Schema]) -> pa.Schema:
    import pyarrow as pa

    found: dict[str, list[pa.Field]] = {}
    for field in (field for schema in schemas for field in schema):
        known = found.setdefault(field.name, [])
        if field not in known or not any(field.metadata == other.metadata for other in known):
            known.append(field)
    return pa.schema([_common_field(name, fields) for name, fields in found.items()])


def _common_field(name: str, fields: Sequence[pa.Field]) -> pa.Field:
    import pyarrow as pa

    if not any(field.metadata for field in fields):
        try:
            schemas = [pa.schema([field]) for field in fields]
            return pa.unify_schemas(schemas, promote_options="permissive").field(0)
        except pa.ArrowException:
            pass
    return pa.field(name, pa.string(), metadata=_JSON)


def _fitted(table: pa.Table, wanted: pa.Schema) -> pa.Table:
    import pyarrow as pa

    columns = []
    for field in wanted:
        if field.name not in table.column_names:
            columns.append(pa.nulls(len(table), field.type))
        elif field.metadata == _JSON and table.schema.field(field.name).metadata != _JSON:
            columns.append(pa.array(_as_json(table[field.name].to_pylist()), pa.string()))
        else:
            columns.append(pa.array(table[field.name].to_pylist(), field.type))
    return pa.Table.from_arrays(columns, schema=wanted)


def read_parts(folder: Path) -> Iterable[dict[str, Any]]:
    """Stream the rows of all parts of a folder, in order; none where there are no parts."""
    import pyarrow.parquet as pq

    for part in sorted(folder.glob("part-*.parquet")):
        with pq.ParquetFile(part) as file:
            for batch in file.iter_batches(batch_size=256):
                yield from batch.to_pylist()
