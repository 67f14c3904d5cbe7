"""Text to steps: splitters that return character spans of the text, so that nothing is lost and nothing is guessed.

Every splitter only chooses where to cut. Between two cuts lies one step, less the whitespace around it; what remains
between the steps is whitespace and ``<think>`` tags. All of it runs in time linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from stepgauge.data._cuts import Span, blank_line_cuts, label_cuts, newline_cuts, numbered_cuts, sentence_cuts
from stepgauge.scoring import Rollout

__all__ = ["SPLITTERS", "answer_start", "locate", "rollout_from_text", "split", "think_is_open", "thinking_spans"]

_TAG = re.compile(r"</?think>")


def _auto_cuts(text: str) -> list[int]:
    labels = label_cuts(text)
    if len(labels) >= 2:
        return labels
    blank_lines = blank_line_cuts(text)
    return blank_lines if len(_pieces(text, blank_lines)) >= 2 else newline_cuts(text)


SPLITTERS: Mapping[str, Callable[[str], list[int]]] = {
    "auto": _auto_cuts,
    "blank_line": blank_line_cuts,
    "newline": newline_cuts,
    "step_label": label_cuts,
    "numbered": numbered_cuts,
    "sentence": sentence_cuts,
}


def split(text: str, how: str = "auto") -> list[Span]:
    r"""Character spans (a, b) of the steps in ``text``: ordered, disjoint, non-blank, ``text[a:b]`` is the step.

    What lies between the spans is whitespace and ``<think>``/``</think>`` tags, nothing else. The thinking and the
    answer are split separately. Fenced code and LaTeX (``$...$``, ``$$...$$``, ``\(...\)``, ``\[...\]``) are never cut;
    a code fence that is not closed runs to the end.

    Args:
        text: a response.
        how: where a step begins.
            "blank_line": after each blank line. "newline": at each line. "step_label": at each line that begins with
            "Step k:", "**Step 2.**" or "### Step 3". "numbered": at each line that begins with "1." or "2)".
            "sentence": after each sentence (decimals and abbreviations do not end one) and blank line.
            "auto": two or more step labels -> "step_label"; else blank lines that separate something -> "blank_line";
            else "newline".

    Raises:
        ValueError: an unknown ``how``. TypeError: ``text`` is not a string.

    Example:
        >>> text = "Step 1: 2 + 2 = 4.\nStep 2: 4 * 2 = 8."
        >>> [text[a:b] for a, b in split(text)]
        ['Step 1: 2 + 2 = 4.', 'Step 2: 4 * 2 = 8.']
    """
    if not isinstance(text, str):
        raise TypeError(f"split(text) takes a string, got {type(text).__name__}; steps need no split")
    if how not in SPLITTERS:
        raise ValueError(f"split(how) must be one of {', '.join(SPLITTERS)}; got {how!r}")
    spans = []
    for start, end in _regions(text):
        region = text[start:end]
        if region.isspace():
            continue
        spans += [(start + a, start + b) for a, b in _pieces(region, SPLITTERS[how](region))]
    return spans


def _regions(text: str) -> Iterator[Span]:
    """What lies between the think tags."""
    start = 0
    for tag in _TAG.finditer(text):
        yield start, tag.start()
        start = tag.end()
    yield start, len(text)


def _pieces(text: str, cuts: Sequence[int]) -> list[Span]:
    """Non-blank spans between ascending ``cuts``, without the whitespace around them."""
    pieces = []
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        piece = text[start:end]
        body = piece.strip()
        if body:
            first = start + len(piece) - len(piece.lstrip())
            pieces.append((first, first + len(body)))
    return pieces


def locate(text: str, steps: Sequence[str]) -> list[Span]:
    """Character spans of steps that the caller split: ``text[a:b] == step``, in order.

    Raises:
        ValueError: a step that does not follow the earlier ones in ``text``; the message names the first.

    Example:
        >>> locate("a; b; a", ["a", "a"])
        [(0, 1), (6, 7)]
    """
    spans, at = [], 0
    for index, step in enumerate(steps):
        start = text.find(step, at)
        if start < 0:
            raise ValueError(
                f"locate(steps): steps[{index}] = {step!r:.60} is not in the text after character {at}; "
                "give the steps verbatim and in order, or split the text with stepgauge.data.split"
            )
        at = start + len(step)
        spans.append((start, at))
    return spans


def thinking_spans(text: str) -> list[Span]:
    """Character spans of the thinking: what stands between ``<think>`` and ``</think>``, without the tags.

    A ``</think>`` without ``<think>`` closes thinking that the prompt opened, so it began where the last one ended; a
    ``<think>`` without ``</think>`` runs to the end.

    Example:
        >>> thinking_spans("<think>2+2</think>4"), thinking_spans("2+2</think>4"), thinking_spans("4")
        ([(7, 10)], [(0, 3)], [])
    """
    spans: list[Span] = []
    start, is_open = 0, False
    for tag in _TAG.finditer(text):
        if tag[0] == "</think>":
            spans.append((start, tag.start()))
            start, is_open = tag.end(), False
        elif not is_open:
            start, is_open = tag.end(), True
    return [*spans, (start, len(text))] if is_open else spans


def answer_start(text: str) -> int:
    """Offset at which the answer begins: after the last ``</think>``, 0 where there is no thinking.

    ``len(text)`` where thinking is still open: then there is no answer.

    Example:
        >>> text = "<think>is it 5? no</think>The answer is 4."
        >>> text[answer_start(text):]
        'The answer is 4.'
    """
    if think_is_open(text):
        return len(text)
    last = text.rfind("</think>")
    return 0 if last < 0 else last + len("</think>")


def think_is_open(text: str) -> bool:
    """Whether a ``<think>`` is never closed: the response was cut off before its answer.

    Example:
        >>> think_is_open("<think>hm"), think_is_open("<think>hm</think>")
        (True, False)
    """
    return text.rfind("<think>") > text.rfind("</think>")


def rollout_from_text(
    problem: str,
    text: str,
    *,
    how: str = "auto",
    gold: str | None = None,
    id: str = "",
    meta: Mapping[str, Any] | None = None,
) -> Rollout:
    r"""A ``Rollout`` from a raw response: split by ``how``, with ``text`` and ``spans`` set.

    ``meta["truncated"]`` is True where the thinking is never closed. Raises as ``split`` does.

    Example:
        >>> rollout_from_text("1+1?", "1+1 = 2.\nThe answer is 2.").steps
        ('1+1 = 2.', 'The answer is 2.')
    """
    spans = split(text, how)
    truncated = {"truncated": True} if think_is_open(text) else {}
    return Rollout(
        problem,
        tuple(text[a:b] for a, b in spans),
        gold=gold,
        text=text,
        spans=tuple(spans),
        id=id,
        meta={**(meta or {}), **truncated},
    )
