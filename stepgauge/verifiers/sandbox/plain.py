"""Plain data as JSON, exactly: what may cross between the program under test, its tests and this library.

None, bool, int, float, complex, str, bytes, list, tuple, set, frozenset and dict keep their meaning. A JSON object
whose only key starts with ``$`` is a tag (``{"$tuple": [1, 2]}``); lists and dicts with text keys stay as they are.
Runs inside the sandbox too, so it imports the standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

EXACT_INT = 2**53  # larger integers travel as hexadecimal text, which is read in linear time


def encode(value: Any, keep: Callable[[Any], Any]) -> Any:
    """A value as JSON: plain data keeps its meaning, everything else is what ``keep`` returns for it."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        number = int(value)
        return number if -EXACT_INT <= number <= EXACT_INT else {"$int": hex(number)}
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"$float": repr(float(value))}
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, (bytes, bytearray)):
        return {"$bytes": bytes(value).hex()}
    if isinstance(value, complex):
        return {"$complex": [encode(value.real, keep), encode(value.imag, keep)]}
    if isinstance(value, dict):
        if all(type(key) is str and not key.startswith("$") for key in value):
            return {key: encode(item, keep) for key, item in value.items()}
        return {"$dict": [[encode(key, keep), encode(item, keep)] for key, item in value.items()]}
    for kind, tag in ((tuple, "$tuple"), (frozenset, "$frozenset"), (set, "$set")):
        if isinstance(value, kind):
            return {tag: [encode(item, keep) for item in value]}
    if isinstance(value, list):
        return [encode(item, keep) for item in value]
    return keep(value)


def decode(data: Any, fetch: Callable[[dict[str, Any]], Any]) -> Any:
    """The value that ``encode`` wrote; ``fetch`` gives the object for what is not plain data."""
    if isinstance(data, list):
        return [decode(item, fetch) for item in data]
    if not isinstance(data, dict):
        return data
    tag = next(iter(data), "")
    if not tag.startswith("$"):
        return {key: decode(item, fetch) for key, item in data.items()}
    if tag == "$ref":
        return fetch(data)
    body = data[tag]
    if tag == "$int":
        return int(body, 16)
    if tag == "$float":
        return float(body)
    if tag == "$bytes":
        return bytes.fromhex(body)
    if tag == "$dict":
        return {decode(key, fetch): decode(item, fetch) for key, item in body}
    items = [decode(item, fetch) for item in body]
    if tag == "$complex":
        return complex(items[0], items[1])
    return {"$tuple": tuple, "$set": set, "$frozenset": frozenset}[tag](items)
