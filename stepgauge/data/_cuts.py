"""Where each splitter cuts: ascending character offsets, none inside fenced code or LaTeX."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

Span = tuple[int, int]

_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})([^\n]*)", re.MULTILINE)
_MATH = re.compile(r"\\[\\$()\[\]]|\$\$?")
_MATH_CLOSER = {"$": "$", "$$": "$$", r"\(": r"\)", r"\[": r"\]"}

_LINES = re.compile(r"\n\s*")
_BLANK_LINES = re.compile(r"\n[^\S\n]*\n\s*")
_LABEL = re.compile(
    r"^[ \t]{0,3}(?:"
    r"\#{1,6}[ \t]{1,3}[*_]{0,3}step[ \t]{1,3}\#?\d{1,4}\b"  # ### Step 3
    r"|[*_]{1,3}step[ \t]{1,3}\#?\d{1,4}[ \t]?[:.)]?[*_]{1,3}"  # **Step 2.** or **Step 2**
    r"|(?:[-*>][ \t]{1,3})?[*_]{0,3}step[ \t]{1,3}\#?\d{1,4}[ \t]?(?:[:.)\-–—]|[ \t]*\r?$)"  # Step 1:
    r")[:.)*_]{0,6}",
    re.IGNORECASE | re.MULTILINE,
)
_NUMBER = re.compile(r"^[ \t]{0,3}[*_]{0,3}(?:\d{1,3}[.)]|\(\d{1,3}\))[*_]{0,3}(?=\s)", re.MULTILINE)

# the lookbehind lets a run of marks be tried once only, which keeps the search linear
_SENTENCE_END = re.compile(r"(?<![.!?…])[.!?…]+[\"'”’)\]}*_]*(?=\s)|[。！？]+[\"'”’」』）]*")
_ABBREVIATIONS = frozenset(["e.g", "i.e", "mr", "mrs", "ms", "dr", "prof", "vs", "cf", "al", "st", "approx", "resp"])
_BEFORE_NUMBERS = frozenset(["no", "nr", "fig", "figs", "eq", "eqs", "sec", "ch", "p", "pp"])


def newline_cuts(text: str) -> list[int]:
    """After each newline."""
    return _outside((m.start() + 1 for m in _LINES.finditer(text)), whole_blocks(text))


def blank_line_cuts(text: str) -> list[int]:
    """At each blank line."""
    return _outside((m.start() + 1 for m in _BLANK_LINES.finditer(text)), whole_blocks(text))


def label_cuts(text: str) -> list[int]:
    """Before each line that begins with a step label."""
    return _outside((m.start() for m in _LABEL.finditer(text)), whole_blocks(text))


def numbered_cuts(text: str) -> list[int]:
    """Before each line that begins with a number and a point or bracket."""
    return _outside((m.start() for m in _NUMBER.finditer(text)), whole_blocks(text))


def sentence_cuts(text: str) -> list[int]:
    """After each sentence, at each blank line, before and after fenced code."""
    fences = list(_fences(text))
    ends = (m.end() for m in _SENTENCE_END.finditer(text) if _ends_sentence(text, m))
    blank_lines = (m.start() + 1 for m in _BLANK_LINES.finditer(text))
    markers = [(m.start(), m.end() + 1) for pattern in (_LABEL, _NUMBER) for m in pattern.finditer(text)]
    cuts = sorted({*ends, *blank_lines, *(edge for fence in fences for edge in fence)})
    return _outside(cuts, _union([*whole_blocks(text), *markers]))


def _ends_sentence(text: str, mark: re.Match[str]) -> bool:
    if mark[0][0] != ".":
        return True
    before = text[max(0, mark.start() - 12) : mark.start()].split()
    word = before[-1].lstrip("([{\"'“‘*_$").lower() if before and text[mark.start() - 1 : mark.start()].strip() else ""
    after = text[mark.end() : mark.end() + 8].lstrip()[:1]
    if word in _ABBREVIATIONS or after.islower():
        return False
    return not (word in _BEFORE_NUMBERS and after.isdigit())


def whole_blocks(text: str) -> list[Span]:
    """Spans that no cut may enter: fenced code and LaTeX; ordered and disjoint."""
    blocks: list[Span] = []
    at = 0
    for start, end in [*_fences(text), (len(text), len(text))]:
        blocks += _math(text, at, start)
        blocks.append((start, end))
        at = end
    return blocks


def _fences(text: str) -> Iterator[Span]:
    """Fenced code, from the start of the opening line to the end of the closing one (or of the text)."""
    opened: re.Match[str] | None = None
    for line in _FENCE.finditer(text):
        marks, rest = line[1], line[2]
        if opened is None:
            if "`" not in rest:
                opened = line
        elif marks.startswith(opened[1]) and not rest.strip():
            yield opened.start(), line.end()
            opened = None
    if opened is not None:
        yield opened.start(), len(text)


def _math(text: str, start: int, end: int) -> Iterator[Span]:
    """LaTeX in ``text[start:end]``.

    A single dollar follows pandoc's rule, so that prices are not formulas: it opens before a non-space; the next
    dollar must close it on the same line, after a non-space and not before a digit. The others may span lines, but
    no blank line.
    """
    opened: re.Match[str] | None = None
    for mark in _MATH.finditer(text, start, end):
        if opened is not None and mark[0] == _MATH_CLOSER[opened[0]]:
            inner = text[opened.end() : mark.start()]
            if _is_inline(inner, text[mark.end() : mark.end() + 1]) if mark[0] == "$" else "\n\n" not in inner:
                yield opened.start(), mark.end()
                opened = None
                continue
        if mark[0] in _MATH_CLOSER:
            opened = mark
        elif mark[0] not in (r"\\", r"\$"):
            opened = None


def _is_inline(inner: str, after: str) -> bool:
    return "\n" not in inner and inner == inner.strip() and inner != "" and not after.isdigit()


def _union(spans: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _outside(cuts: Iterable[int], blocks: list[Span]) -> list[int]:
    """The ascending ``cuts`` that do not fall inside one of the ordered ``blocks``."""
    kept, index = [], 0
    for cut in cuts:
        while index < len(blocks) and blocks[index][1] <= cut:
            index += 1
        if index == len(blocks) or cut <= blocks[index][0]:
            kept.append(cut)
    return kept
