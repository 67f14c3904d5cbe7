"""The final answer of a response: where it stands, and which rule found it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from stepgauge.verifiers.symbolic.lexer import matching_braces

MAX_RESPONSE = 200_000  # characters from the end that are searched


@dataclass(frozen=True, slots=True)
class ExtractedAnswer:
    """The answer's text, its span in the response (``response[start:end]``), and the rule that found it."""

    text: str
    span: tuple[int, int]
    rule: str


_STOP = re.compile(r"<\|(?:im_start|im_end|endoftext|eot_id|end)\|>")
_BOX = re.compile(r"\\(?:boxed|fbox)\s*(?=\{)")
_OPEN_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_TAG = re.compile(r"<answer>(.*?)</answer>", re.DOTALL | re.IGNORECASE)
_HASHES = re.compile(r"^[ \t]*####[ \t]*(.+?)[ \t]*$", re.MULTILINE)
_STRONG = re.compile(
    r"(?:final answer|the answer|correct answer|answer|réponse|respuesta|risposta|antwort|ответ|答案|最终答案|答|"
    r"उत्तर|الإجابة)"
    r"(?:\s*(?:\*\*)?\s*(?:is|should be|would be|must be|est|es|ist|为|是))?\s*(?:\*\*)?\s*"
    r"(?:[:：=]|\bis\b|\best\b|\bes\b|\bist\b|为|是|\bshould be\b|\\\[|(?=\\\(|\$))",
    re.IGNORECASE,
)
_NEGATED = re.compile(r"^\s*(?:not|n't|pas|nicht|no)\b", re.IGNORECASE)
_SENTENCE_END = re.compile(
    r"(?<!\d)[.。!?](?:\s|$)|(?<=\d)[.。](?=\s+[A-Z(]|\s*$)|\n\s*\n|。|(?i:\bi hope it is correct)"
)
_MATH = re.compile(r"\$\$(.+?)\$\$|\\\[(.+?)\\\]|\\\((.+?)\\\)|(?<!\\)\$([^$]+?)(?<!\\)\$", re.DOTALL)
_NUMBER = re.compile(
    r"(?<![A-Za-z0-9^_{.\\])(?<![+*/^]\s)(?<![+/])(?<![^*]\*)(?:[-−–]\s?)?(?:[$€£]\s?)?(?:[-−–]\s?)?"
    r"(?:\\[dt]?frac\s*\{[^{}]{1,40}\}\s*\{[^{}]{1,40}\}|\d+(?:[.,]\d+)*(?:\s?/\s?\d+(?!\d|\.\d))?|\.\d+)"
    r"(?:\s?(?:\\?%|percent\b|[$€£](?![\d\w])))?(?!\s?[*^+/=<>(_])"
)
# What stands between two dollar amounts is prose: "pays $7. The cars cost $5". Words within \\text{...} are not.
_COMMANDS = re.compile(r"\\(?:text|mathrm|mbox|textbf)\s*\{[^{}]*\}|\\[A-Za-z]+")
_BETWEEN_AMOUNTS = re.compile(r"\s*\d[\d.,]*(?:[.!?;]\s+[A-Za-z]{2,}|\s+[A-Za-z]+[,;.]?\s+[A-Za-z]{2,}).*", re.DOTALL)
_HEDGE = re.compile(r"\b(?:or|either|maybe|perhaps|oder|ou|或)\b", re.IGNORECASE)
_JUNK = re.compile(r"\\(?:quad|qquad|left|right|[,;:!()\[\]])|[\s$.,;:()\[\]&~*]|\\\\")
_TEXT = re.compile(r"\\(?:text|textrm|mbox)\s*\{([^{}]*)\}")
_GAP = re.compile(r"(?:for(?:part)?\w{1,12})?(?:and|or|so)?(?:[A-Za-z]_?\{?\w?\}?=)?")
_BOLD = re.compile(r"\*\*([^*\n]{1,200})\*\*")
_PERCENT = re.compile(r"[\s$]*(?:\\?%|(?:pct|percent|percentage)\b)")
QUALIFIED = re.compile(  # what stands right before a number that is not the answer
    r"\b(?:at (?:least|most)|(?:more|less|fewer|greater|larger|smaller) than|not|never|over|under|above|below|almost"
    r"|nearly|except)\s*$|[<>]=?\s*$",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W\d_]{2,}|[\u3040-\uffff]")
_COMMAND = re.compile(r"\\[A-Za-z]+")
_EITHER = re.compile(r"\beither\b.*\bor\b|\bor (?:maybe|perhaps|possibly)\b", re.IGNORECASE)
_CJK = re.compile("[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")
_CHOICE_PHRASE = re.compile(
    r"(?:answer|réponse|答案|choice|option|antwort|respuesta|故选|应选|选择|选)(?:\s+(?:is|est|es|ist))?\s*[:：]?\s*"
    r"(?:for sure|definitely|clearly|therefore)?\s*\**[(\[]?"
    r"(?-i:([A-Z]))(?![A-Za-z'])",
    re.IGNORECASE,
)
_CHOICE_RIGHT = re.compile(
    r"(?:\bit'?s|\bit is|\bis|\bfinali[sz]e|\bchoose|\bpick|\bselect)\s+\**[(\[]?([A-Z])(?![A-Za-z'])[)\]]?"
)
_CHOICE_VALID = re.compile(r"(?<![A-Za-z'])[(\[]?([A-Z])[)\]]?\s+is\s+(?:correct|right|valid|true|the)\b")
_CHOICE_START = re.compile(r"^\s*\**[(\[]?([A-Z])(?![A-Za-z'0-9])[)\]]?\s*(?:[.。:：)]|不|$|\s)")
_CHOICE_ALONE = re.compile(r"(?<![A-Za-z'])\(?([A-Z])\)?(?![A-Za-z'])")


def visible(response: str) -> tuple[int, int] | None:
    """Span of the part a reader takes as the answer: after the last ``</think>``, before any chat marker;
    None inside open thinking.
    """
    start = 0
    closed = response.rfind("</think>")
    if closed >= 0:
        start = closed + len("</think>")
    if response.find("<think>", start) >= 0:
        return None
    stop = _STOP.search(response, start)
    end = stop.start() if stop else len(response)
    return max(start, end - MAX_RESPONSE), end


def boxes(text: str) -> list[tuple[int, int, int, int]]:
    """Outermost boxes in order: start and end of the command, start and end of its content."""
    matches = list(_BOX.finditer(text))
    if not matches:
        return []
    pairs = matching_braces(text)
    found: list[tuple[int, int, int, int]] = []
    for match in matches:
        close = pairs.get(match.end())
        if close is None or (found and match.start() < found[-1][1]):
            continue
        found.append((match.start(), close + 1, match.end() + 1, close))
    return found


def _joined(gap: str) -> bool:
    """Whether the text between two boxes only joins them."""
    if len(gap) > 120:
        return False
    plain = _JUNK.sub("", _TEXT.sub(r"\1", gap)).replace("\\", "")
    return _GAP.fullmatch(plain) is not None


def last_boxes(text: str) -> list[tuple[int, int, int, int]]:
    """The last box with those before it that only ``and``, ``or`` or a comma part from it."""
    found = boxes(text)
    if not found:
        return []
    first = len(found) - 1
    while first > 0 and len(found) - first < 64 and _joined(text[found[first - 1][1] : found[first][0]]):
        first -= 1
    return found[first:]


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and (text[start] in " \t\n\r*:：\"'“”" or text.startswith('\\"', start)):
        start += 1
    while end > start and (text[end - 1] in " \t\n\r*.,;:\"'“”。" or text.endswith("\\", start, end)):
        end -= 1
    return start, end


def _phrases(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of what follows each final-answer phrase, in order."""
    for match in _STRONG.finditer(text):
        begin = match.end()
        if match[0].endswith("\\["):
            begin -= 2
        if _NEGATED.match(text, begin) or _NEGATED.match(text[begin : begin + 12]):
            continue
        window = text[begin : begin + 1500].lstrip("\n")
        begin += len(text[begin : begin + 1500]) - len(window)
        stop = _SENTENCE_END.search(window, 1)
        line = window.find("\n", 1)
        end = stop.start() if stop else len(window)
        if 0 <= line < end and not window.lstrip().startswith(("\\[", "$$", "$", "\\(")):
            end = line
        yield begin, begin + end


def _answer_in(text: str, start: int, end: int) -> tuple[int, int] | None:
    """The answer inside a phrase's region: the formula it consists of, or the value in its sentence."""
    region = text[start:end]
    stripped = region.strip(" \t\n*\"\\'")
    if not stripped:
        return None
    math = [match for match in _MATH.finditer(text, start, min(len(text), end + 400)) if match.start() < end]
    if math:
        first = math[0]
        lead = text[start : first.start()].strip(" \t\n*\"\\'(")
        if not lead:
            tail = text[first.end() : end]
            return (
                (start, end) if re.match(r"\s*(?:%|percent|,?\s*(?:and|or)\b)", tail) else (first.start(), first.end())
            )
    if _EITHER.search(region):
        return None
    words = re.findall(r"[^\W\d_]{2,}", stripped)
    if len(words) <= 2 and len(stripped) <= 60 and not _CJK.search(stripped):
        return start, end
    verbs = list(re.finditer(r"\b(?:is|are|est|equals)\b|[=：:]|为|是", region))
    if verbs:
        found = _last_value(text, start + verbs[-1].end(), end)
        if found:
            return found
    values = [(match.start(), match.end()) for match in _NUMBER.finditer(text, start, end)]
    if math and math[-1].start() >= start and (not values or math[-1].end() >= values[-1][1]):
        return math[-1].start(), math[-1].end()
    return values[0] if values else None


def _last_value(text: str, start: int, end: int) -> tuple[int, int] | None:
    """The last formula with a digit or relation, or the last number outside formulas."""
    best: tuple[int, int] | None = None
    math_spans = []
    for match in _MATH.finditer(text, start, end):
        inner = next(group for group in match.groups() if group is not None)
        if match[4] is not None and _BETWEEN_AMOUNTS.fullmatch(_COMMANDS.sub("", inner)):
            continue
        math_spans.append(match.span())
        if any(char.isdigit() for char in inner) or re.search(r"[<>=^\\]", inner) or len(inner.strip()) > 3:
            best = match.span()
    number, formula = None, 0
    for match in _NUMBER.finditer(text, start, end):
        while formula < len(math_spans) and math_spans[formula][1] <= match.start():
            formula += 1
        if formula == len(math_spans) or match.start() < math_spans[formula][0]:
            number = match.span()
    if number and (best is None or number[0] > best[1]):
        return number
    return best


def extract_choice(text: str) -> ExtractedAnswer | None:
    """The letter a response to a multiple-choice question settles on.

    >>> extract_choice("It's not A, therefore I think it's B").text
    'B'
    """
    span = visible(text)
    if span is None:
        return None
    start, end = span
    body = text[start:end]
    found = last_boxes(body)
    if found:
        a, b = found[-1][2], found[-1][3]
        return ExtractedAnswer(body[a:b], (start + a, start + b), "boxed")
    for pattern, rule in (
        (_CHOICE_PHRASE, "phrase"),
        (_CHOICE_RIGHT, "choice"),
        (_CHOICE_VALID, "choice"),
        (_CHOICE_START, "choice"),
    ):
        matches = [
            match
            for match in pattern.finditer(body)
            if not re.search(r"\bnot\b", body[max(0, match.start(1) - 6) : match.start(1)])
        ]
        if matches:
            match = matches[-1]
            return ExtractedAnswer(match[1], (start + match.start(1), start + match.end(1)), rule)
    letters = [
        match
        for match in _CHOICE_ALONE.finditer(body)
        if match[1] not in "AI" or body[match.end(1) : match.end(1) + 1] in (")", ".", "")
    ]
    if len({match[1] for match in letters}) == 1:
        match = letters[-1]
        return ExtractedAnswer(match[1], (start + match.start(1), start + match.end(1)), "choice")
    return None


def extract_answer(text: str) -> ExtractedAnswer | None:
    """The final answer of a response; None where there is none or where several compete.

    Order: ``<answer>`` tags; the last of boxes and final-answer phrases; ``####`` lines; bold text; the last
    formula or number. Text before the
    last ``</think>`` is not read, and an unclosed ``<think>`` means no answer.

    >>> extract_answer("So x = 2. The answer is 42.")
    ExtractedAnswer(text='42', span=(24, 26), rule='phrase')
    """
    span = visible(text)
    if span is None:
        return None
    offset, stop = span
    body = text[offset:stop]
    found = _find(body)
    if found is None:
        return None
    start, end, rule = found
    start, end = _trim(body, start, end)
    if start >= end and rule != "boxed":
        return None
    return ExtractedAnswer(body[start:end], (offset + start, offset + end), rule)


def _find(body: str) -> tuple[int, int, str] | None:
    tags = list(_TAG.finditer(body))
    if tags:
        start, end = tags[-1].span(1)
        inner = last_boxes(body[start:end])
        return (start + inner[0][0], start + inner[-1][1], "tag") if inner else (start, end, "tag")
    group = last_boxes(body)
    phrase = None
    for start, end in _phrases(body):
        if group and start <= group[-1][1] and not start > group[-1][1]:
            continue
        answer = _answer_in(body, start, end)
        if answer is not None:
            phrase = answer
    hashes = list(_HASHES.finditer(body))
    candidates: list[tuple[int, int, str]] = []
    if group:
        inside = len(group) == 1 and not _PERCENT.match(body, group[0][1])
        candidates.append((*(group[0][2:4] if inside else (group[0][0], group[-1][1])), "boxed"))
    if phrase:
        candidates.append((*phrase, "phrase"))
    if hashes:
        candidates.append((*hashes[-1].span(1), "hashes"))
    if candidates:
        return max(candidates, key=lambda item: item[0])
    if len(body) <= 200 and "\n" not in body.strip() and not _WORD.search(_COMMAND.sub(" ", body)):
        return 0, len(body), "whole"
    if re.search(r"</?[a-zA-Z][^<>]{0,80}>", body):
        return None
    bold = [
        match
        for match in _BOLD.finditer(body)
        if any(char.isdigit() for char in match[1]) and len(match[1].split()) <= 6
    ]
    value = _last_value(body, 0, len(body))
    if bold and (value is None or value[0] <= bold[-1].end()):
        match = bold[-1]
        number = list(_NUMBER.finditer(body, *match.span(1)))
        if len(number) == 1:
            return number[0].start(), number[0].end(), "bold"
        return match.start(1), match.end(1), "bold"
    if value is None:
        return None
    before = body[max(0, value[0] - 40) : value[0]]
    if QUALIFIED.search(before):
        return None
    if _HEDGE.search(before) and _NUMBER.search(before) and "\n" not in before:
        return None
    return (*value, "last_value")
