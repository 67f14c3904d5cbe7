"""Find the final answer in a response, and say where it stands."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["ExtractedAnswer", "extract_answer"]

_PHRASE = re.compile(r"answer\s+is\s*:?\s*", re.IGNORECASE)
_NUMBER = re.compile(r"[-+]?\$?\d[\d,]*(?:\.\d+)?(?:/\d+)?%?")
_TRAILING = " \t.*$,;:"


@dataclass(frozen=True, slots=True)
class ExtractedAnswer:
    """A final answer: its text, where it stands in the response (``response[start:end]`` holds it), and the rule."""

    text: str
    span: tuple[int, int]
    rule: str


def _closing_brace(text: str, start: int) -> int | None:
    depth = 1
    for at in range(start, len(text)):
        if text[at] == "{":
            depth += 1
        elif text[at] == "}":
            depth -= 1
            if depth == 0:
                return at
    return None


def extract_answer(text: str) -> ExtractedAnswer | None:
    r"""Extract the final answer: the last ``\boxed{}``, else after ``####`` or "answer is", else the last number.

    Looks behind the last ``</think>``; where a ``<think>`` never closes there is no answer (None).

    Example:
        >>> extract_answer("So we get 12. The answer is 14.").text
        '14'
    """
    if text.rfind("<think>") > text.rfind("</think>"):
        return None
    begin = text.rfind("</think>") + len("</think>") if "</think>" in text else 0
    boxed = text.rfind("\\boxed{")
    if boxed >= begin:
        start = boxed + len("\\boxed{")
        end = _closing_brace(text, start)
        if end is not None:
            return ExtractedAnswer(text[start:end].strip(), (start, end), "boxed")
    hashes = text.rfind("####")
    if hashes >= begin:
        return _line_from(text, hashes + 4, "hashes")
    phrases = list(_PHRASE.finditer(text, begin))
    if phrases:
        start = phrases[-1].end()
        number = _NUMBER.search(text, start, start + 200)
        if number and "\n" not in text[start : number.start()]:
            return ExtractedAnswer(number.group(), number.span(), "phrase")
        return _line_from(text, start, "phrase")
    numbers = list(_NUMBER.finditer(text, begin))
    if numbers:
        return ExtractedAnswer(numbers[-1].group(), numbers[-1].span(), "last_number")
    return None


def _line_from(text: str, start: int, rule: str) -> ExtractedAnswer | None:
    end = text.find("\n", start)
    end = len(text) if end < 0 else end
    answer = text[start:end].strip(_TRAILING)
    return ExtractedAnswer(answer, (start, end), rule) if answer else None
