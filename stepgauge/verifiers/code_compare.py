"""Compare what a program returned or printed with what was expected, without trusting the data.

Values arrive as tagged JSON (``sandbox.plain``) from a hostile process. They become one canonical text each, and texts
are compared: no hostile value is hashed, compared by its own methods, or converted to decimal digits.
"""

from __future__ import annotations

import json
import math
from decimal import Decimal, InvalidOperation
from typing import Any

from stepgauge.verifiers.sandbox.plain import encode

__all__ = ["encode_plain", "same_output", "same_value"]

MAX_DEPTH = 200
MAX_NUMBER_CHARS = 100
_NEVER_EQUAL = "nan"


def encode_plain(value: Any) -> Any:
    """A trusted value as tagged JSON.

    Raises:
        TypeError: the value holds something that is not plain data.

    Example:
        >>> encode_plain((1, {2}))
        {'$tuple': [1, {'$set': [2]}]}
    """

    def refuse(other: Any) -> Any:
        raise TypeError(
            f"a test value must be plain data (None, bool, numbers, str, bytes, list, tuple, set, dict), "
            f"got {type(other).__name__}"
        )

    return encode(value, refuse)


def same_value(got: Any, expected: Any, *, tuples_as_lists: bool) -> bool:
    """Whether two tagged values are equal in Python's sense (1 == 1.0 == True, a tuple is not a list, NaN never is).

    ``tuples_as_lists`` lets a tuple equal a list, for tests that come from JSON. Malformed data is equal to nothing.

    Example:
        >>> same_value({"$set": [1.0, 2]}, {"$set": [2, 1]}, tuples_as_lists=False)
        True
        >>> same_value({"$tuple": [1]}, [1], tuples_as_lists=False)
        False
    """
    try:
        left = _canonical(got, tuples_as_lists, MAX_DEPTH)
        right = _canonical(expected, tuples_as_lists, MAX_DEPTH)
    except (ValueError, TypeError, KeyError, OverflowError):
        return False
    return left == right and f'"{_NEVER_EQUAL}"' not in right


def _canonical(data: Any, loose: bool, depth: int) -> str:
    if depth == 0:
        raise ValueError("nested too deeply")

    def inner(item: Any) -> str:
        return _canonical(item, loose, depth - 1)

    if data is None:
        return '"none"'
    if isinstance(data, (bool, int, float)):
        return _number(data)
    if isinstance(data, str):
        return json.dumps("s" + data)
    if isinstance(data, list):
        return "[" + ",".join(map(inner, data)) + "]"
    tag = next(iter(data), "")
    if not tag.startswith("$"):
        return _mapping(((json.dumps("s" + key), inner(item)) for key, item in data.items()))
    body = data[tag]
    if tag == "$int":
        return _number(int(body, 16))
    if tag == "$float":
        return _number(float(body))
    if tag == "$bytes":
        return json.dumps("b" + bytes.fromhex(body).hex())
    if tag == "$complex":
        real, imaginary = map(inner, body)
        return real if imaginary == _number(0) else f'{{"complex":[{real},{imaginary}]}}'
    if tag == "$tuple":
        items = ",".join(map(inner, body))
        return f"[{items}]" if loose else f'{{"tuple":[{items}]}}'
    if tag in ("$set", "$frozenset"):
        return '{"set":[' + ",".join(sorted(set(map(inner, body)))) + "]}"
    if tag == "$dict":
        return _mapping((inner(key), inner(item)) for key, item in body)
    raise ValueError(f"an object of the program, or an unknown tag {tag[:20]!r}")


def _number(value: float) -> str:
    if isinstance(value, float):
        if math.isnan(value):
            return f'"{_NEVER_EQUAL}"'
        if not value.is_integer():  # an infinity is none either
            return f'"f{value.hex()}"'
    return f'"i{hex(int(value))}"'


def _mapping(items: Any) -> str:
    return '{"dict":[' + ",".join(sorted(f"[{key},{value}]" for key, value in items)) + "]}"


def same_output(got: str, expected: str) -> bool:
    """Whether a program printed what was expected, as judges of programming contests see it.

    Lines are compared without trailing white space, trailing empty lines do not count, and a line also matches where
    all its words are numbers of equal value ("1.50" is "1.5").

    Example:
        >>> same_output("3 \\n1.0\\n\\n", "3\\n1"), same_output("3 1", "3\\n1")
        (True, False)
    """
    left, right = _lines(got), _lines(expected)
    return len(left) == len(right) and all(a == b or _same_numbers(a, b) for a, b in zip(left, right, strict=True))


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().split("\n")]


def _same_numbers(left: str, right: str) -> bool:
    mine, other = left.split(), right.split()
    if len(mine) != len(other):
        return False
    try:
        return all(a == b or _decimal(a) == _decimal(b) for a, b in zip(mine, other, strict=True))
    except InvalidOperation:
        return False


def _decimal(word: str) -> Decimal:
    if len(word) > MAX_NUMBER_CHARS or not word.isascii() or "_" in word:
        raise InvalidOperation
    number = Decimal(word)
    if not number.is_finite():
        raise InvalidOperation
    return number
