"""The formulas of a step: where each stands in the text, chains split into links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Formula", "extract_formulas"]

MAX_FORMULAS = 200
MAX_CHARS = 10_000  # of one display; a longer one is a formula that nobody can read
_OPEN = re.compile(
    r"\$\$|\\\[|\\\(|\\begin\{(equation|align|aligned|gather|gathered|eqnarray|multline)(\*?)\}|(?<![\\$])\$"
)
_CLOSERS = {"$$": "$$", "\\[": "\\]", "\\(": "\\)"}
_LINE_OR_DOLLAR = re.compile(r"[$\n]")
_INNER = re.compile(
    r"\\(?:begin|end)\{(?:equation|align|aligned|alignat|gather|gathered|split|eqnarray|array)\*?\}(?:\{[^{}]*\})?"
)
_TAG = re.compile(r"\\(?:tag|label)\*?\{[^{}]*\}|\\(?:nonumber|notag)\b")
_RELATION = re.compile(
    r"=|\\approx|\\simeq|\\leq?(?![a-z])|\\geq?(?![a-z])|<|>|\\equiv|\\neq?(?![a-z])|\\propto|\\ll\b|\\gg\b"
)
_COMMA = re.compile(
    r",(?:\\[,;: ]|\\quad|\\qquad|~|\s){0,20}[^=,]{1,30}?(?:=|\\leq?|\\geq?|<|>|\\approx)|,[\s~]{0,20}[^=,]{1,12}$"
)
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_ENV = re.compile(r"\\(begin|end)\{(?:d?cases|[pbvB]?matrix|array)\}")
_JOINED = re.compile(
    r"\\(?:qquad|quad)(?:\s|\\(?:qquad|quad))*(?:\\text\{[^{}]*\})?|\\(?:Rightarrow|implies|Longrightarrow|therefore|because|Leftrightarrow|iff)(?![a-z])|,\s*\\(?:quad|qquad)|;"
)


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula as written; ``step[span[0]:span[1]]`` holds it, and links of one chain share a ``chain`` number."""

    latex: str
    span: tuple[int, int]
    step: int = 0
    chain: int = 0


def extract_formulas(step: str, index: int = 0) -> list[Formula]:
    """Formulas with a relation in the math of a step, in order.

    A chain ``a = b = c`` gives ``a = b`` and ``a = c``; rows of align and parts joined by a quad or an arrow are
    formulas of their own. Text outside math delimiters is not read.

    Example:
        >>> [formula.latex for formula in extract_formulas("So $$v = a t = 2 t$$ with $t > 0$.")]
        ['v = a t', 'v = 2 t', 't > 0']
    """
    found: list[Formula] = []
    for chain, (span, body) in enumerate(_displays(step)):
        if len(body) > MAX_CHARS:
            found.append(Formula(body, span, index, chain))
            continue
        previous = ""
        for part in _parts(_TAG.sub("", body)):
            sides = _sides(part)
            if sides is None:
                continue
            if not sides[0][0] and previous:
                sides[0] = (previous, sides[0][1])  # a row that goes on: "= c"
            links, previous = _chain(sides)
            found += [Formula(link, span, index, chain) for link in links]
            if len(found) >= MAX_FORMULAS:
                return found
    return found


def _displays(step: str) -> Iterator[tuple[tuple[int, int], str]]:
    """Span and content of each piece of math, in time linear in the text: a closer that is missing is missed once."""
    missing: set[str] = set()
    pos = 0
    while (opened := _OPEN.search(step, pos)) is not None:
        pos = begin = opened.end()
        if opened[0] == "$":
            stop = _LINE_OR_DOLLAR.search(step, begin)
            if stop is None or stop[0] == "\n":
                continue
            end, closer = stop.start(), "$"
        else:
            closer = _CLOSERS.get(opened[0]) or f"\\end{{{opened[1]}{opened[2]}}}"
            end = -1 if closer in missing else step.find(closer, begin + 1)
            if end < 0:
                missing.add(closer)
                continue
        pos = end + len(closer)
        yield (opened.start(), pos), step[begin:end]


def _parts(body: str) -> list[str]:
    boxed = _BOX.match(stripped := body.strip().rstrip(".,; \t\n"))
    if boxed is not None and stripped.endswith("}"):
        body = stripped[boxed.end() : -1]
    body = _INNER.sub(" ", body)
    parts, begin, level, pos = [], 0, 0, 0
    while pos < len(body):
        environment = _ENV.match(body, pos)
        joined = None if level else _JOINED.match(body, pos)
        if environment:
            level += 1 if environment[1] == "begin" else -1
            pos = environment.end()
        elif body[pos] == "{":
            level, pos = level + 1, pos + 1
        elif body[pos] == "}":
            level, pos = level - 1, pos + 1
        elif body[pos] in "([":
            level, pos = level + 1, pos + 1
        elif body[pos] in ")]":
            level, pos = max(0, level - 1), pos + 1
        elif not level and body[pos] == "," and body[pos - 1 : pos] != "\\" and _COMMA.match(body, pos):
            parts.append(body[begin:pos])
            begin = pos = pos + 1
        elif not level and body.startswith("\\\\", pos):
            parts.append(body[begin:pos])
            begin = pos = pos + 2
        elif joined:
            parts.append(body[begin:pos])
            begin = pos = joined.end()
        else:
            pos += 2 if body[pos] == "\\" else 1
    return [*parts, body[begin:]]


def _sides(part: str) -> list[tuple[str, str]] | None:
    """``(side, relation after it)`` of a chain; None where there is no relation outside braces and environments."""
    part = part.replace("&", " ") if not _ENV.search(part) else part
    sides, begin, level, pos = [], 0, 0, 0
    while pos < len(part):
        environment = _ENV.match(part, pos)
        relation = None if level else _RELATION.match(part, pos)
        if environment:
            level += 1 if environment[1] == "begin" else -1
            pos = environment.end()
        elif relation:
            sides.append((part[begin:pos].strip(), relation[0]))
            begin = pos = relation.end()
        else:
            char = part[pos]
            level += (char == "{") - (char == "}")
            pos += 1
    last = part[begin:].strip(" \n\t.,;")
    if not sides or not last:
        return None
    return [*sides, (last, "")]


def _chain(sides: list[tuple[str, str]]) -> tuple[list[str], str]:
    head = sides[0][0]
    if not head:
        return [], ""
    links = [f"{head} {sides[0][1]} {sides[1][0]}"]
    for k in range(2, len(sides)):
        same = all(op in ("=", "\\approx", "\\equiv", "\\simeq") for _, op in sides[:k])
        links.append(
            f"{head} {'=' if same else sides[k - 1][1]} {sides[k][0]}"
            if same
            else f"{sides[k - 1][0]} {sides[k - 1][1]} {sides[k][0]}"
        )
    return links, head
