"""Notations that stand outside the grammar, rewritten to ones inside it before the tokens are cut."""

from __future__ import annotations

import re

_REPEATING = re.compile(r"(?<=\.)(\d*)\\dot\s*\{?(\d)\}?(?:(\d*)\\dot\s*\{?(\d)\}?)?")
_BRACKETED = re.compile(r"(\s*[-+]?\d{1,30}\.\d{0,30})\((\d{1,30})\)\s*")
_INDEX = r"(?:\{\s*(\w{1,9})\s*\}|(\w))"
_PICKED = re.compile(r"(?:\{\s*\}\s*|(?<![\w})\]]))[\^_]" + _INDEX + r"\s*(?:\\mathrm\s*)?\{?([CP])\}?_" + _INDEX)
_MINUTES = re.compile(
    r"(\d{1,9})\s*(?:\^\s*\{?\s*\\(?:circ|degree)\s*\}?|\\(?:circ|degree))\s*(\d{1,2})\s*(?:\^\s*\{?\s*\\prime\s*\}?|'(?!'))"
    r"(?:\s*(\d{1,2})\s*(?:''|\"|\^\s*\{\s*\\prime\s*\\prime\s*\}))?"
)
_TAIL = 100  # characters at the end where a parameter is looked for: linear time whatever the text
_SLOPE = re.compile(r"\\[dt]?frac\s*\{\s*d\s*y\s*\}\s*\{\s*d\s*x\s*\}|(?<![A-Za-z\\])dy/dx(?![A-Za-z])")

_WHOLE = re.compile(
    r"(?:\\q?quad|\\[,;: ]|[\s,;]){0,6}(?:\(\s?([A-Za-z])\s?\\in\s?\\mathbb\s?\{?Z\}?\s?\)"
    r"|(?:\\text\s?\{)?\s?(?:where|for|with)?\s?\}?\s?\$?([A-Za-z])\$?\s?(?:\\text\s?\{)?\s?"
    r"(?:is\s)?(?:an\s|any\s)?integers?\s?\}?)\s?$"
)


def respell(text: str) -> str:
    r"""The text with periods, prescripts, minutes of arc, ``dy/dx`` and whole parameters as the parser writes them.

    >>> respell("0.8(3)"), respell("{}_7P_3")
    ('0.8\\overline{3}', '\\frac{(7)!}{(7-3)!}')
    """
    if "\\dot" in text:
        text = _REPEATING.sub(r"\1\\overline{\2\3\4}", text)
    if text.endswith(")") and (match := _BRACKETED.fullmatch(text)):
        return f"{match[1]}\\overline{{{match[2]}}}"
    if ("C" in text or "P" in text) and "_" in text:
        text = _PICKED.sub(_picked, text)
    if "circ" in text or "degree" in text:
        text = _MINUTES.sub(_degrees, text)
    if "Z" in text or "integer" in text:
        head, tail = text[:-_TAIL], text[-_TAIL:]
        text = head + _WHOLE.sub(lambda match: f", {match[1] or match[2]}\\in\\mathbb{{Z}}", tail)
    if "dy" in text:
        text = _SLOPE.sub("y'", text)
    return text


def _picked(match: re.Match[str]) -> str:
    total, chosen = match[1] or match[2], match[4] or match[5]
    if match[3] == "C":
        return f"\\binom{{{total}}}{{{chosen}}}"
    return f"\\frac{{({total})!}}{{({total}-{chosen})!}}"


def _degrees(match: re.Match[str]) -> str:
    whole, minutes, seconds = match[1], int(match[2]), int(match[3] or 0)
    if minutes >= 60 or seconds >= 60:
        return match[0]
    return f"({whole}+\\frac{{{60 * minutes + seconds}}}{{3600}})^\\circ"
