"""Fields of a row, checked: each error names the field, what was expected and what came."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["boolean", "integer", "items", "label", "optional_text", "others", "row_of", "text", "texts"]


def row_of(value: object, name: str = "a row") -> Mapping[str, Any]:
    """A mapping with string keys."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be an object with named fields, got {_shown(value)}")
    return value


def _field(row: Mapping[str, Any], name: str) -> Any:
    if name not in row:
        raise ValueError(f"no field {name!r}; the row has {', '.join(map(str, row)) or 'nothing'}")
    return row[name]


def text(row: Mapping[str, Any], name: str) -> str:
    """A string that can be written as UTF-8."""
    return _text(_field(row, name), name)


def optional_text(row: Mapping[str, Any], name: str) -> str | None:
    """A string, or None where the field is null or missing."""
    value = row.get(name)
    return None if value is None else _text(value, name)


def texts(row: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """A list of strings."""
    return tuple(_text(item, f"{name}[{index}]") for index, item in enumerate(items(row, name)))


def items(row: Mapping[str, Any], name: str) -> list[Any]:
    """A list."""
    value = _field(row, name)
    if not isinstance(value, list | tuple):
        raise TypeError(f"{name} must be a list, got {_shown(value)}")
    return list(value)


def integer(value: object, name: str) -> int:
    """An integer, no bool."""
    if type(value) is not int:
        raise TypeError(f"{name} must be an integer, got {_shown(value)}")
    return value


def boolean(value: object, name: str) -> bool:
    """true or false, or the numbers 1 and 0."""
    if isinstance(value, bool | int | float) and value in (0, 1):
        return bool(value)
    raise TypeError(f"{name} must be true or false, got {_shown(value)}")


def label(value: object, name: str, *, nullable: bool = False) -> float | None:
    """A number in [0, 1], true or false; None where ``nullable``."""
    if value is None and nullable:
        return None
    if not isinstance(value, bool | int | float):
        raise TypeError(f"{name} must be a number in [0, 1], true or false; got {_shown(value)}")
    if not 0 <= value <= 1:  # NaN too
        raise ValueError(f"{name} must lie in [0, 1], got {value}")
    return float(value)


def others(row: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The fields besides ``names``."""
    return {name: value for name, value in row.items() if name not in names}


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, got {_shown(value)}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{name} has a lone surrogate at character {error.start}, which no encoding can write; it comes from text "
            "that was cut inside a character"
        ) from None
    return value


def _shown(value: object) -> str:
    return f"{type(value).__name__} {value!r:.60}"
