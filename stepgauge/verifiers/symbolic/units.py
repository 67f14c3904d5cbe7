"""Units: names to SI factors and dimensions, and reading a unit out of words such as ``km/h`` or ``square metres``."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

Unit = tuple[tuple[str, int], ...]
_PREFIX = {"n": -9, "μ": -6, "u": -6, "m": -3, "c": -2, "d": -1, "k": 3, "M": 6, "G": 9}
# symbol: (factor, dimension); a dimension is a tuple of (base, power)
_BASE: dict[str, tuple[Fraction, Unit]] = {
    "m": (Fraction(1), (("L", 1),)),
    "g": (Fraction(1, 1000), (("M", 1),)),
    "s": (Fraction(1), (("T", 1),)),
    "A": (Fraction(1), (("I", 1),)),
    "K": (Fraction(1), (("K", 1),)),
    "mol": (Fraction(1), (("N", 1),)),
    "Hz": (Fraction(1), (("T", -1),)),
    "N": (Fraction(1), (("L", 1), ("M", 1), ("T", -2))),
    "J": (Fraction(1), (("L", 2), ("M", 1), ("T", -2))),
    "W": (Fraction(1), (("L", 2), ("M", 1), ("T", -3))),
    "Pa": (Fraction(1), (("L", -1), ("M", 1), ("T", -2))),
    "V": (Fraction(1), (("I", -1), ("L", 2), ("M", 1), ("T", -3))),
    "C": (Fraction(1), (("I", 1), ("T", 1))),
    "F": (Fraction(1), (("I", 2), ("L", -2), ("M", -1), ("T", 4))),
    "T": (Fraction(1), (("I", -1), ("M", 1), ("T", -2))),
    "Ω": (Fraction(1), (("I", -2), ("L", 2), ("M", 1), ("T", -3))),
    "L": (Fraction(1, 1000), (("L", 3),)),
    "eV": (Fraction(1602176634, 10**28), (("L", 2), ("M", 1), ("T", -2))),
    "Wb": (Fraction(1), (("I", -1), ("L", 2), ("M", 1), ("T", -2))),
    "H": (Fraction(1), (("I", -2), ("L", 2), ("M", 1), ("T", -2))),
}
_PLAIN: dict[str, tuple[Fraction, Unit]] = {
    "min": (Fraction(60), (("T", 1),)),
    "h": (Fraction(3600), (("T", 1),)),
    "day": (Fraction(86400), (("T", 1),)),
    "week": (Fraction(604800), (("T", 1),)),
    "inch": (Fraction(254, 10000), (("L", 1),)),
    "ft": (Fraction(3048, 10000), (("L", 1),)),
    "yd": (Fraction(9144, 10000), (("L", 1),)),
    "mile": (Fraction(1609344, 1000), (("L", 1),)),
    "lb": (Fraction(45359237, 10**8), (("M", 1),)),
    "oz": (Fraction(28349523125, 10**12), (("M", 1),)),
    "t": (Fraction(1000), (("M", 1),)),
    "ha": (Fraction(10000), (("L", 2),)),
    "atm": (Fraction(101325), (("L", -1), ("M", 1), ("T", -2))),
    "bar": (Fraction(100000), (("L", -1), ("M", 1), ("T", -2))),
    "cal": (Fraction(4184, 1000), (("L", 2), ("M", 1), ("T", -2))),
    "$": (Fraction(1), (("USD", 1),)),
    "cent": (Fraction(1, 100), (("USD", 1),)),
    "€": (Fraction(1), (("EUR", 1),)),
    "£": (Fraction(1), (("GBP", 1),)),
    "¥": (Fraction(1), (("CNY", 1),)),
    "deg": (Fraction(1), (("deg", 1),)),
    "degC": (Fraction(1), (("degC", 1),)),
    "degF": (Fraction(1), (("degF", 1),)),
    "dozen": (Fraction(12), ()),
}
_ALIASES = {
    "metre meter": "m", "kilometre kilometer": "km", "centimetre centimeter": "cm", "millimetre millimeter": "mm",
    "gram gramme": "g",
    "kilogram kilo kgs": "kg", "milligram": "mg", "second sec": "s", "minute mins": "min", "hour hr hrs": "h",
    "days d": "day",
    "weeks wk": "week", "inches in": "inch", "foot feet": "ft", "yard": "yd", "miles mi": "mile", "pound lbs": "lb",
    "ounce": "oz",
    "tonne ton tons": "t", "hectare": "ha", "litre liter l": "L", "millilitre milliliter ml": "mL", "newton": "N",
    "joule": "J", "watt": "W",
    "volt": "V", "ampere amp": "A", "kelvin": "K", "pascal": "Pa", "hertz": "Hz", "coulomb": "C", "farad": "F",
    "tesla": "T", "ohm omega": "Ω",
    "mole": "mol", "dollar usd": "$", "cents ¢": "cent", "euro eur": "€",
    "gbp": "£", "yuan rmb yen": "¥", "degree degrees": "deg",
    "kmh kph": "km/h", "mph": "mile/h", "kilowatt": "kW", "calorie": "cal", "celsius": "degC", "fahrenheit": "degF",
    "electronvolt": "eV",
}  # fmt: skip
_WORDS = {alias: name for aliases, name in _ALIASES.items() for alias in aliases.split()}
_NEUTRAL = {"unit", "units", "of", "the", "in", "a", "total", "about", "approximately", "rounded"}
_HEDGES = frozenset(("or", "any", "other", "not", "either", "else", "maybe", "possibly", "perhaps"))
_POWER_WORDS = {"square": 2, "sq": 2, "squared": 2, "cubic": 3, "cu": 3, "cubed": 3}
SINGLE_LETTERS = frozenset("mgsNJWVLK")  # read as units in plain text, spaced, at the end
_TOKEN = re.compile(r"\s*(per\b|[A-Za-zμΩ$€£¥¢°]+|\^\{?\s*-?\d+\s*\}?|[-/*·.()]|-?\d+|\S)")


def _known(word: str) -> str | None:
    """The canonical symbol of one unit word; None where it is not a unit."""
    if word in _BASE or word in _PLAIN:
        return word
    if word in _WORDS:
        return _WORDS[word]
    if len(word) > 1 and word[0] in _PREFIX and word[1:] in _BASE:
        return word
    low = word.lower()
    for form in (low, low[:-1] if low.endswith("s") else low):
        if form in _WORDS:
            return _WORDS[form]
        if len(form) > 1 and form in _PLAIN:
            return form
    return None


@lru_cache(maxsize=4096)
def is_unit_word(word: str) -> bool:
    """Whether a word of at least two letters names a unit.

    >>> is_unit_word("km"), is_unit_word("hours"), is_unit_word("xy")
    (True, True, False)
    """
    return len(word) > 1 and _known(word) is not None


def is_unit_name(word: str) -> bool:
    """Whether a word, of one letter too, names a unit."""
    return _known(word) is not None


@lru_cache(maxsize=4096)
def parse_unit(text: str, power: int = 1) -> Unit | None:
    """Read a unit from words; unknown words are kept as names of their own; None where it is not a unit at all.

    >>> parse_unit("km/h")
    (('h', -1), ('km', 1))
    """
    powers: dict[str, int] = {}
    sign, pending, last, used = 1, 1, "", False
    for token in _TOKEN.findall(text):
        low = token.lower()
        if low in ("per", "/"):
            sign, used = -1, True
        elif token[0] == "^" or token.lstrip("-").isdigit():
            if not last:
                return None
            value = int(token.strip("^{} ") or "1")
            if abs(value) > 9:
                return None
            powers[last] = (abs(powers[last]) // powers[last]) * value if powers[last] else value
        elif low in _POWER_WORDS:
            if low.endswith("ed") and last:
                powers[last] *= _POWER_WORDS[low]
            else:
                pending = _POWER_WORDS[low]
        elif token in "*·.-()":
            continue
        elif low in _HEDGES or (not token[0].isalpha() and token[0] not in "$€£¥¢°"):
            return None
        elif low in _NEUTRAL:
            used = True
            pending = 1
        else:
            for name, step in _names(token):
                last = name
                powers[last] = powers.get(last, 0) + sign * step * pending
            pending, used = 1, True
    if not used:
        return None
    if power != 1 and last:
        powers[last] *= power
    return tuple(sorted((name, value) for name, value in powers.items() if value))


def _names(word: str) -> list[tuple[str, int]]:
    known = _known(word)
    if known is None:
        return [(word.lower().rstrip("s") or word, 1)]
    top, _, below = known.partition("/")
    return [(top, 1), (below, -1)] if below else [(top, 1)]


@lru_cache(maxsize=4096)
def si(unit: Unit) -> tuple[Fraction, Unit]:
    """Factor and dimension of a unit; an unknown name is a dimension of its own.

    >>> si((("km", 1), ("h", -1)))
    (Fraction(5, 18), (('L', 1), ('T', -1)))
    """
    factor = Fraction(1)
    dims: dict[str, int] = {}
    for name, power in unit:
        scale, base = _si_name(name)
        factor *= scale**power
        for dim, exponent in base:
            dims[dim] = dims.get(dim, 0) + exponent * power
    return factor, tuple(sorted((dim, power) for dim, power in dims.items() if power))


def _si_name(name: str) -> tuple[Fraction, Unit]:
    if name in _BASE:
        return _BASE[name]
    if name in _PLAIN:
        return _PLAIN[name]
    if len(name) > 1 and name[0] in _PREFIX and name[1:] in _BASE:
        factor, dims = _BASE[name[1:]]
        return factor * Fraction(10) ** _PREFIX[name[0]], dims
    return Fraction(1), ((name, 1),)
