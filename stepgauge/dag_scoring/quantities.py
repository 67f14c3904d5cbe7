"""Units: a number with a unit is the number times the unit's SI value times its base units."""

from __future__ import annotations

import math
import re
from functools import cache, lru_cache
from typing import Any

from stepgauge.verifiers.symbolic.nodes import Add, Dec, Int, Mul, Node, Pow, Sym

_PRODUCT = re.compile(r"\s*(?:\\cdot|\\,|\\times|·|~)\s*|\s+")
_POWER = re.compile(r"\^\{?(-?\d+)\}?")
# Names with small powers, multiplied and divided, at most one level of brackets: nothing that pint would have to raise
# to a power but a unit.
_NAME = r"(?:1|[A-Za-z]{1,20}(?:\*\*-?\d{1,2})?)"
_GROUP = rf"(?:{_NAME}|\({_NAME}(?:[*/]{_NAME})*\))"
_ALLOWED = re.compile(rf"{_GROUP}(?:[*/]{_GROUP})*")
_MAX_CHARS = 60
_OFFSETS = {"degC": (1.0, 273.15), "degF": (5 / 9, 459.67 * 5 / 9)}
_RENAMED = {"\\Omega": "ohm", "Ω": "ohm", "\\mu": "u", "µ": "u", "Å": "angstrom"}
UNIT = "unit:"


@cache
def _registry() -> Any:
    import pint

    return pint.UnitRegistry()


@lru_cache(maxsize=4096)
def _si(text: str) -> tuple[float, tuple[tuple[str, int], ...]] | None:
    """Factor to SI base units and their powers; None where the text is no unit."""
    if len(text) > _MAX_CHARS:
        return None
    for old, new in _RENAMED.items():
        text = text.replace(old, new)
    text = _POWER.sub(r"**\1", _PRODUCT.sub("*", text.strip()).strip("*"))
    if not _ALLOWED.fullmatch(text) or not re.search("[A-Za-z]", text):
        return None
    try:
        base = _registry().Quantity(1.0, _registry().parse_units(text)).to_base_units()
    except Exception:  # whatever pint makes of a text that is no unit
        return None
    if not math.isfinite(base.magnitude) or base.magnitude == 0:
        return None
    powers = tuple(sorted((name, int(power)) for name, power in dict(base.unit_items()).items() if name != "radian"))
    return float(base.magnitude), powers


def _decimal(value: float) -> Node:
    if value == int(value) and abs(value) < 1e15:
        return Int(int(value))
    digits, _, exponent = f"{value:.15e}".partition("e")
    return Dec(int(digits.replace(".", "")), 15 - int(exponent))


def unit_node(number: Node, text: str) -> Node | None:
    """``number`` with a unit, in SI; None where ``text`` is not a unit.

    Example:
        >>> unit_node(Int(72), "km/h") is not None, unit_node(Int(72), "velocity of it")
        (True, None)
    """
    if text in _OFFSETS:
        scale, offset = _OFFSETS[text]
        return Mul((Add((Mul((number, _decimal(scale))), _decimal(offset))), Sym(UNIT + "kelvin")))
    found = _si(text)
    if found is None:
        return None
    factor, powers = found
    return Mul((number, _decimal(factor), *(Pow(Sym(UNIT + name), Int(power)) for name, power in powers)))
