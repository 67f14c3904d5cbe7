"""Common numerals read by one regular expression each, to the very trees the parser gives: the parser's cost is for
formulas.
"""

from __future__ import annotations

import re

from stepgauge.verifiers.symbolic.nodes import Add, Dec, Div, Int, Mul, Neg, Node, Percent, Pow

_PLAIN = re.compile(
    r"\s*([-+]?)(?:(\d{1,200})(?:\.(\d{1,200})|/([1-9]\d{0,200}))?|\\[dt]?frac\{(\d{1,200})\}\{([1-9]\d{0,200})\})\s*",
    re.ASCII,
)
_TAILED = re.compile(
    r"([-+]?)(?:([1-9]\d{0,2}(?:,\d{3}){1,20}|\d{1,200}|\d{1,3}(?:\{,\}\d{3}){1,20})(?:\.(\d{1,200}))?)"
    r"(?:\s*(\\?%)|\s*(?:\\times|\\cdot|\*)\s*10\^(?:\{([-+]?\d{1,3})\}|(-?\d{1,3}))"
    r"|\s*\\[dt]?frac\{(\d{1,9})\}\{(\d{1,9})\}|\s(\d{1,2})/(\d{1,9}))?",
    re.ASCII,
)
_STARTS = frozenset("0123456789+-")


def plain_numeral(text: str) -> Node | None:
    """A numeral or a fraction of two; None for all else.

    >>> plain_numeral("-0.5")
    Neg(arg=Dec(digits=5, scale=1))
    """
    match = _PLAIN.fullmatch(text)
    if match is None:
        return None
    sign, whole, decimals, below, top, under = match.groups()
    if top is not None:
        node: Node = Div(Int(int(top)), Int(int(under)))
    elif below is not None:
        node = Div(Int(int(whole)), Int(int(below)))
    elif decimals is not None:
        node = Dec(int(whole + decimals), len(decimals))
    else:
        node = Int(int(whole))
    return Neg(node) if sign == "-" else node


def tailed_numeral(text: str, comma: str) -> Node | None:
    """A numeral with separators, a percent sign, a power of ten or a proper fraction behind it; None for all else.

    >>> tailed_numeral("1,250%", "thousands")
    Percent(value=Int(value=1250))
    """
    if text[0] not in _STARTS:
        return None
    match = _TAILED.fullmatch(text)
    if match is None:
        return None
    sign, whole, decimals, percent, braced, bare, *fraction = match.groups()
    if "," in whole:
        if comma != "thousands" and "{" not in whole:
            return None
        whole = whole.replace("{,}", "").replace(",", "")
    node: Node = Int(int(whole)) if decimals is None else Dec(int(whole + decimals), len(decimals))
    if percent:
        node = Percent(node)
    elif power := braced or bare:
        digits = Int(int(power.lstrip("+-")))
        node = Mul((node, Pow(Int(10), Neg(digits) if power[0] == "-" else digits)))
    elif any(fraction):
        top, below = (int(part) for part in fraction if part)
        if decimals is not None or not 0 < top < below:
            return None
        node = Add((node, Div(Int(top), Int(below))))
    return Neg(node) if sign == "-" else node
