"""An answer as typed (``$…$``, boxes, options, prose, thousands separators) to the trees it can be read as."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from stepgauge.verifiers.extraction import QUALIFIED, extract_answer, last_boxes
from stepgauge.verifiers.numerals import plain_numeral, tailed_numeral
from stepgauge.verifiers.symbolic.lexer import MAX_CHARS
from stepgauge.verifiers.symbolic.nodes import Node, Sym, Text
from stepgauge.verifiers.symbolic.parser import Invalid, parse
from stepgauge.verifiers.symbolic.shapes import expand_signs, gather
from stepgauge.verifiers.symbolic.tables import COMMANDS, WORDS

_DELIMITER = re.compile(r"(?<!\\)\\[\[\]()]|\$\$")
_DOLLAR = re.compile(r"(?<!\\)\$")
_ONE_FORMULA = re.compile(r"\$(?:[^$\\]|\\(?!boxed|fbox|[\[\]()$])[^$])+\$")
_OPTION = re.compile(r"\(([A-Z])\)[.:]?\s*(?=[^\W\d_]|\$|\\|\d)|([A-H])[.:)]\s+\S|([A-E])\s+(?=[A-Z][a-z]+)")
_OPTION_WORD = re.compile(r"(?:[Oo]ption|[Cc]hoice|[Aa]nswer)\s*:?\s*\(?([A-Z])\)?\.?$")
_OPTION_STARTS = frozenset("(\\ABCDEFGHOoCcAa")
_OPTION_TEXT = re.compile(r"\\(?:text|textbf|mathrm|textrm)\s*\{\s*\(?([A-Z])\)?[.:]?\s*\}\s*(?=\S)")
_PERCENT = re.compile(r"[\s$]*(?:\\?%|(?:pct|percent|percentage)\b)")
_CLOSING = re.compile(r"[\s.,;:。]+$")
_WORDS_ONLY = re.compile(r"[^\W\d_][^\W\d_'’.,\- \n]*(?:[ \n,.\-'’/]+[^\W\d_]+)*[.!?]?")
_FONT = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox|textnormal|emph)\s*\{([^{}]*)\}")
_PROSE = re.compile(r"[^\W\d_]{2,}")
_SHORT_WORDS = frozenset(
    [
        "yes",
        "no",
        "odd",
        "all",
        "one",
        "none",
        "dne",
        "nan",
        "red",
        "blue",
        "any",
        "tie",
        "sat",
        "sun",
        "mon",
        "tue",
        "wed",
        "thu",
        "fri",
        "east",
        "west",
        "even",
        "true",
        "false",
    ]
)
_CONNECT = re.compile(r"[\s.,;:]*(?:\b(?:and|or)\b[\s,]*)?")
_UNITLIKE = re.compile(r"\s*(?:[A-Za-z°/^{}\d\s.\\%]{1,40})\s*")
_GROUPED = re.compile(r"\d,\d")
_COUNTED = re.compile(r"([^\u3040-\uffff]*[\d})])\s*([\u4e00-\u9fff]{1,4})")  # a number and its measure word
_SIGNS = re.compile(r"\\pm|\\mp|[±∓]")
_ESCAPED = re.compile(r"\\\\(?=[A-Za-z]{2})")
_SPOKEN = [
    (re.compile(rf"\s*(?:\bis\s+)?\b(?:{words})\b\s*", re.IGNORECASE), f" {sign} ")
    for words, sign in (
        ("(?:greater|more|larger|bigger) than or equal to|at least|no less than", ">="),
        ("(?:less|fewer|smaller) than or equal to|at most|no more than", "<="),
        ("(?:greater|more|larger|bigger) than", ">"),
        ("(?:less|fewer|smaller) than", "<"),
    )
]
_HALF_DAY = re.compile(r"(?<=[\d ])([ap])\.m\b\.?", re.IGNORECASE)
_KIND = re.compile(
    r"(?:the\s+)?(?:(?:ordered\s+)?(?:pair|triple)|point|interval|set|vector)\s+(?=\$?\\?[(\[{]|\\l)", re.IGNORECASE
)
_CODE = re.compile(r"__|\w\([\"']|\bimport\b|\blambda\b|[`{}\[\]]\s*[\"']|</?\w+>")
_VOWEL = re.compile(r"[aeiouy]", re.IGNORECASE)


class Reading(NamedTuple):
    """What a text says: its tree (or why there is none), and the text it was read from."""

    node: Node | Invalid
    source: str


def layout_free(text: str) -> str:
    """The text without dollars, boxes, fonts and spaces that carry no meaning.

    >>> layout_free("$ x + 1 $")
    'x+1'
    """
    text = _DOLLAR.sub("", _DELIMITER.sub("", text))
    text = _FONT.sub(r"\1", text.replace("\\left", "").replace("\\right", ""))
    return re.sub(r"(?<![A-Za-z0-9])\s+|\s+(?![A-Za-z0-9])", "", text).strip(" .")


def _unwrap(text: str, depth: int = 0) -> str:
    """Take boxes and math delimiters off; prose around one formula leaves the formula."""
    text = text.strip()
    if "\\" not in text and "$" not in text:
        return text
    if text[0] == text[-1] == "$" and _ONE_FORMULA.fullmatch(text) and (inner := text[1:-1].strip()):
        return inner
    group = last_boxes(text) if "boxed" in text or "fbox" in text else []
    if group and depth < 4:
        content = ", ".join(text[start:end] for _, _, start, end in group)
        after = text[group[-1][1] :]
        if percent := _PERCENT.match(after):
            content += percent[0].replace("$", "").replace("\\]", "")
        return _unwrap(content, depth + 1)
    text = _DELIMITER.sub("$", text)
    if "$" not in text:
        return text
    marks = [match.start() for match in _DOLLAR.finditer(text)]
    if not marks:
        return text
    if len(marks) == 1:
        alone = text[: marks[0]] + text[marks[0] + 1 :]
        return alone if "\\" in alone and not text[marks[0] + 1 : marks[0] + 2].isdigit() else text
    if len(marks) % 2:
        return text
    inside = [text[a + 1 : b] for a, b in zip(marks[::2], marks[1::2], strict=True)]
    outside = [text[a + 1 : b] for a, b in zip([-1, *marks[1::2]], [*marks[::2], len(text)], strict=True)]
    if all(_CONNECT.fullmatch(part) for part in outside):
        return text.replace("$", " ").strip() if all(part.strip() for part in inside) else text
    if (
        all(_CONNECT.fullmatch(part) for part in outside[:-1])
        and _UNITLIKE.fullmatch(outside[-1])
        and len(outside[-1].split()) <= 3
    ):
        return text.replace("$", " ").strip()
    if any(_PROSE.search(part) for part in outside):
        return (
            inside[-1].strip()
            if not outside[-1].strip(" .") or not any(char.isdigit() for char in outside[-1])
            else text
        )
    return text.replace("$", " ").strip()


def _option(text: str) -> str | None:
    """The letter of ``(B) 12``, ``B. twelve`` or ``\\text{(B) } 12``."""
    match = _OPTION.match(text) or _OPTION_TEXT.match(text) or _OPTION_WORD.match(text)
    if match is None:
        return None
    letter = next(group for group in match.groups() if group)
    if match.re is _OPTION_TEXT and text[match.end() : match.end() + 1] in "+-*/^_=<>!&,":
        return None
    return letter


def _is_words(text: str) -> bool:
    """Whether a text is words, not a product of letters."""
    if not _WORDS_ONLY.fullmatch(text) or len(text) > 400:
        return False
    words = re.findall(r"[^\W\d_]+", text)
    if all(word in WORDS or "\\" + word in COMMANDS for word in words):
        return False
    if not text.isascii():
        return any(not char.isascii() and char.isalpha() and not 0x370 <= ord(char) < 0x400 for char in text)
    if len(words) == 1:
        word = words[0]
        if word.isupper():
            return len(word) >= 2
        return word.lower() in _SHORT_WORDS or (
            len(word) >= 4 and word[1:].islower() and _VOWEL.search(word) is not None and word not in WORDS
        )
    return any(len(word) >= 4 or word.lower() in _SHORT_WORDS for word in words if word not in WORDS)


@lru_cache(maxsize=8192)
def read(text: str, comma: str = "thousands") -> Reading:
    """Read one side of a comparison."""
    if (fast := plain_numeral(text)) is not None:
        return Reading(fast, text)
    if len(text) > 4 * MAX_CHARS:
        return Reading(Invalid("too long", 4 * MAX_CHARS), _long_core(text))
    core = _core(text)
    if not core:
        return Reading(Invalid("empty", 0), core)
    if core is not text and (fast := plain_numeral(core)) is not None:
        return Reading(fast, core)
    if (fast := tailed_numeral(core, comma)) is not None:
        return Reading(fast, core)
    if core[0] in _OPTION_STARTS and (letter := _option(core)) is not None:
        return Reading(Sym(letter), letter)
    if "than" in core or "at least" in core or "at most" in core:
        core = _spoken(core)
    plain = _FONT.sub(r"\1", core) if "{" in core and ("\\text" in core or "\\m" in core or "\\emph" in core) else core
    if "\\" not in plain and _PROSE.search(plain) and _is_words(plain.strip()):
        return Reading(Text(plain), core)
    node = parse(core, comma=comma)
    if isinstance(node, Invalid):
        node = _second_try(text, core, comma) or node
    if isinstance(node, Invalid):
        return Reading(node, core)
    if "\\" in core or not core.isascii():
        node = expand_signs(node) if _SIGNS.search(core) else node
    return Reading(gather(node), core)


def _spoken(text: str) -> str:
    """Relations said in words: ``x is at least 2``."""
    for pattern, sign in _SPOKEN:
        text = pattern.sub(sign, text)
    return text


def _long_core(text: str) -> str:
    """What a text too long to read has inside its dollars and box, for a comparison as text."""
    core = text.strip(" \n$")
    if core.startswith("\\boxed{") and core.endswith("}"):
        core = core[len("\\boxed{") : -1]
    return core


def _core(text: str) -> str:
    """The text without wrapping, layout at its ends and the full stop of its sentence."""
    core = _unwrap(text)
    core = core.strip(" \t\n\r*")
    if core.endswith((".", ",", ";", ":", "。")) and not core.endswith("..."):
        core = _CLOSING.sub("", core)
    core = core.rstrip("\\ ")
    if core[:1] in '"“' and core[-1:] in '"”' and len(core) > 2:
        core = core[1:-1]
    if ".m" in core:
        core = _HALF_DAY.sub(r"\1m", core)
    if (kind := _KIND.match(core)) is not None:
        core = core[kind.end() :]
    if not core.isascii() and (counted := _COUNTED.fullmatch(core)):
        core = f"{counted[1]}\\text{{{counted[2]}}}"
    return core


def _second_try(text: str, core: str, comma: str) -> Node | None:
    """LaTeX whose backslashes were escaped twice, or a sentence around an answer."""
    if _ESCAPED.search(core):
        node = parse(_ESCAPED.sub(r"\\", core), comma=comma)
        if not isinstance(node, Invalid):
            return node
    return _from_prose(text, core, comma)


def _from_prose(text: str, core: str, comma: str) -> Node | None:
    """A sentence around an answer is read by the extraction rules; a formula that could not be read never is."""
    if _CODE.search(core):
        return None
    outside = re.sub(r"\$[^$]*\$|\\[A-Za-z]+(?:\{[^{}]*\})?", " ", core)
    if len(_PROSE.findall(outside)) < 2 and not re.match(r"\s*[^\W\d_]{3,}\s*:", outside):
        return None
    found = extract_answer(text)
    if found is None or found.text.strip() == core.strip():
        return Text(core) if _is_words(_FONT.sub(r"\1", core)) else None
    if QUALIFIED.search(text[max(0, found.span[0] - 24) : found.span[0]]):
        return None
    inner = _CLOSING.sub("", _unwrap(found.text))
    node = parse(inner, comma=comma)
    if isinstance(node, Invalid) and "\\" not in inner and (again := extract_answer(inner)) is not None:
        node = parse(again.text, comma=comma)
    return None if isinstance(node, Invalid) else node
