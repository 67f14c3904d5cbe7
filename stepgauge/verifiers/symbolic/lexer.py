"""Text to tokens in one linear pass; every character is accounted for or the text is refused with its position."""

from __future__ import annotations

import re
from typing import NamedTuple

from stepgauge.verifiers.symbolic.tables import COMMANDS, FUNCTIONS, WORDS
from stepgauge.verifiers.symbolic.units import SINGLE_LETTERS, is_unit_name, is_unit_word

MAX_CHARS = 8_000
MAX_TOKENS = 2_000
MAX_DIGITS = 1_200
MAX_EXPONENT = 5_000


class ParseError(ValueError):
    """The text cannot be read; ``position`` is the character where reading stopped."""

    def __init__(self, message: str, position: int, *, malformed: bool = False) -> None:
        super().__init__(message)
        self.position = position
        self.malformed = malformed  # ill-formed for any reader, not only outside the allow-list


class Token(NamedTuple):
    kind: str
    value: str
    start: int
    end: int
    spaced: bool  # white space before it


_new_token = tuple.__new__  # half the cost of the named constructor
_TAKES_GROUP = frozenset(("frac", "sqrt", "fn", "binom", "font"))
_AFTER_GROUP = frozenset(("^", "_", "}"))
_AFTER_NUMBER = frozenset(",\\{ '.")  # a separator may follow: look closer
_SEPARATOR = re.compile(r",?\s?\\[!,;: ]|\s?\{\s*,|[,'. ]\d")  # ... and this is one
_TOKEN = re.compile(
    r"(?P<ws>[\s~]+)|(?P<num>(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?)|(?P<cmd>\\[A-Za-z]+\*?)|(?P<word>[A-Za-z]+)|(?P<esc>\\.)"
    r"|(?P<rel><=|>=|=<|=>|!=|/=|==|<>|:=|[=<>])|(?P<pow>\*\*)|(?P<dots>\.{3,})|(?P<op>[*/!:.])|(?P<quote>\")|(?P<dollar>\$)",
    re.DOTALL,
)
_ALONE = dict.fromkeys("+-^_'|,;&%", "op") | dict.fromkeys("([{", "open") | dict.fromkeys(")]}", "close")
_STRONG = re.compile(r"\d{1,3}(?:(?:,?\s?\\!\s*|\s?\{\s*,\s*\}\s?|\\[,;:]\s?|,\\[,;:]\s?|\\ )\d{3})+(?!\d)(?:\.\d+)?")
_PLAIN = re.compile(r"[1-9]\d{0,2}(?:,\d{3})+(?!\d)(?:\.\d+)?")
_SPACED = re.compile(r"[1-9]\d{0,2}(?: \d{3})+(?!\d)(?!\s*[/_])(?:[.,]\d+)?|[1-9]\d{0,2}(?:'\d{3})+(?!\d)")
_EURO = re.compile(r"[1-9]\d{0,2}(?:\.\d{3})+,\d+(?!\d)|[1-9]\d{0,2}(?:\.\d{3}){2,}(?![\d.])")
_COMMA = re.compile(r"(?<!,)\d+,\d+(?![\d,])")
_NOT_DIGIT = re.compile(r"[^\d.]")
_ROW_GAP = re.compile(r"\s*\[\s*-?[\d.]+\s*(?:pt|em|ex|mm|cm|in)\s*\]")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_JOIN = re.compile(r"[\s,;]*(?:for [^,]{1,20}?)?[\s,;]*\b(and|or)\b[\s,;]*(?:also|else)?\s*$", re.IGNORECASE)
_UNIT_TAIL = re.compile(r"[A-Za-z]{1,4}(?:\^?-?\d|\^\{-?\d\})?(?:[/*][A-Za-z]{1,4}(?:\^?-?\d|\^\{-?\d\})?)+\s*$")
_COMPOUND = re.compile(r"\s*\d+(?:\.\d+)?\s*(?:min(?:ute)?s?|s|cm|mm|m)\s*$")  # ... 30 min
_LETTERS = re.compile("[A-Za-z]+")
_VOWEL = re.compile("[aeiou]")
_ENDS_VALUE = frozenset(("num", "close", "const", "unit"))
_COMMON_GLUED = frozenset(
    [
        "cm",
        "mm",
        "km",
        "kg",
        "ml",
        "mL",
        "ft",
        "lb",
        "lbs",
        "oz",
        "Hz",
        "mi",
        "yd",
        "kW",
        "kJ",
        "min",
        "hr",
        "hrs",
        "sec",
        "mph",
        "kph",
        "cents",
        "eV",
        "mol",
        "kPa",
        "MHz",
        "kHz",
    ]
)
_HANDLED = frozenset(("skip", "lr", "text", "opname", "bb", "begin", "end", "open", "close"))
_FN_PREFIXES = ("sin", "cos", "tan", "ln", "log", "cot", "sec", "csc")
_SPACE_ESCAPES = frozenset(" ,;:!>/\n\t&-")


def matching_braces(text: str) -> dict[int, int]:
    """Position of each ``{`` to the position of its ``}``; unbalanced ones are absent."""
    pairs: dict[int, int] = {}
    stack: list[int] = []
    for match in _BRACE.finditer(text):
        char = match[0]
        if char == "{":
            stack.append(match.start())
        elif char == "}" and stack:
            pairs[stack.pop()] = match.start()
    return pairs


class _Lexer:
    """One pass over one text."""

    def __init__(self, text: str, comma: str) -> None:
        self.text = text
        self.comma = comma
        self.tokens: list[Token] = []
        self.depth: list[bool] = []  # for each open bracket: does a plain comma separate items here
        self.pos = 0
        self.spaced = False
        self.braces: dict[int, int] | None = None
        self.plain = "\\" not in text

    def run(self) -> list[Token]:
        text, tokens = self.text, self.tokens
        size = len(text)
        while self.pos < size:
            start = self.pos
            alone = _ALONE.get(text[start])  # a token whatever follows
            if alone is not None:
                if alone != "op":
                    self._bracket(alone, text[start], start)
                    continue
                tokens.append(_new_token(Token, (alone, text[start], start, start + 1, self.spaced)))
                self.spaced = False
                self.pos = start + 1
                continue
            match = _TOKEN.match(text, start)
            if match is None:
                raise ParseError(f"unexpected character {text[start]!r}", start)
            kind = match.lastgroup
            if kind == "ws":
                self.spaced = True
                self.pos = match.end()
            elif kind == "op" or kind == "rel":
                end = match.end()
                tokens.append(_new_token(Token, (kind, match[0], start, end, self.spaced)))
                self.spaced = False
                self.pos = end
            elif kind == "num":
                end = match.end()
                if end - start < 9 and text[end : end + 1] not in _AFTER_NUMBER and match[0].isdigit():
                    tokens.append(_new_token(Token, ("num", match[0], start, end, self.spaced)))
                    self.spaced = False
                    self.pos = end
                else:
                    self._number(match)
            elif kind == "word":
                self._word(match[0], start, match.end())
            elif kind == "cmd":
                self._command(match[0][1:], start, match.end())
            elif kind == "esc":
                self._escape(match[0][1], start, match.end())
            elif kind == "pow":
                self._push("op", "^", start, match.end())
            elif kind == "quote":
                self.pos = match.end()
                self.spaced = True
            else:
                self._push("cur" if kind == "dollar" else "dots", match[0], start, match.end())
            if len(tokens) > MAX_TOKENS:
                raise ParseError("too many tokens", self.pos)
        if len(tokens) > MAX_TOKENS:
            raise ParseError("too many tokens", size)
        return tokens

    def _bracket(self, kind: str, value: str, start: int) -> None:
        if kind == "open":
            last = self.tokens[-1] if self.tokens else None
            self.depth.append(
                value != "{" or last is None or not (last.kind in _TAKES_GROUP or last.value in _AFTER_GROUP)
            )
        elif self.depth:
            self.depth.pop()
        self._push(kind, value, start, start + 1)

    def _push(self, kind: str, value: str, start: int, end: int) -> None:
        self.tokens.append(_new_token(Token, (kind, value, start, end, self.spaced)))
        self.spaced = False
        self.pos = end

    def _number(self, match: re.Match[str]) -> None:
        text, start, end = self.text, match.start(), match.end()
        value = match[0]
        if _SEPARATOR.match(text, end):
            grouped = self._grouped(start)
            if grouped is not None:
                value, end = grouped
        if len(value) > MAX_DIGITS:
            raise ParseError("number too long", start)
        mantissa, _, exponent = value.lower().partition("e")
        if exponent and len(exponent.lstrip("+-0")) > 4:
            raise ParseError("exponent too large", start)
        if "." in mantissa and text[end : end + 1] == "." and text[end + 1 : end + 2].isdigit():
            raise ParseError("two decimal points", end)
        self._push("num", value, start, end)

    def _grouped(self, start: int) -> tuple[str, int] | None:
        """A number with separators at ``start``: its plain digits and end."""
        text = self.text
        if (
            self.comma == "decimal"
            and not any(self.depth)
            and (found := _COMMA.match(text, start))
            and not _PLAIN.match(text, start)
        ):
            return found[0].replace(",", "."), found.end()
        for pattern in (_STRONG, _SPACED):
            if (found := pattern.match(text, start)) and not self._after_dot(start):
                digits = found[0]
                if pattern is _SPACED:
                    digits = digits.replace(",", ".")
                return _NOT_DIGIT.sub("", digits), found.end()
        if found := _EURO.match(text, start):
            return found[0].replace(".", "").replace(",", "."), found.end()
        if self.comma != "list" and not any(self.depth) and (found := _PLAIN.match(text, start)):
            return found[0].replace(",", ""), found.end()
        return None

    def _after_dot(self, start: int) -> bool:
        return self.text[start - 1 : start] == "."

    def _word(self, word: str, start: int, end: int) -> None:
        last = self.tokens[-1] if self.tokens else None
        if last is not None and last.value == "_" and last.kind == "op":
            self._push("id", word[0], start, start + 1)
            if len(word) > 1:
                self.tokens[-1] = self.tokens[-1]._replace(value=word, end=end) if self.plain else self.tokens[-1]
                self.pos = end if self.plain else start + 1
            return
        known = WORDS.get(word)
        if known is not None:
            minutes = (
                word == "min" and last is not None and last.kind == "num" and self.text[end : end + 1] not in ("(", "{")
            )
            self._push(*(("unit", word) if minutes else known), start, end)
            return
        after_value = last is not None and (last.kind in _ENDS_VALUE or last.value in ("!", "%", "°"))
        if self._unit_tail(last, start):
            return
        if len(word) == 1:
            if (
                word in SINGLE_LETTERS
                and self.plain
                and self.spaced
                and last is not None
                and last.kind == "num"
                and not self.text[end:].strip()
            ):
                self._push("unit", word, start, end)
                return
            if (
                word in "hm"
                and self.plain
                and last is not None
                and last.kind == "num"
                and _COMPOUND.match(self.text, end)
            ):
                self._push("unit", word, start, end)
                return
            if word == "x" and after_value and self.text[end : end + 4].lstrip().startswith("10"):
                self._push("op", "*", start, end)
                return
            self._push("const" if word in "ei" else "id", word, start, end)
            return
        if word == "in" and last is not None and last.kind == "id":
            self._push("rel", "in", start, end)
            return
        if after_value and self._is_unit(word, start):
            self._push("unit", word, start, end)
            return
        if last is not None and last.kind == "unit" and (self.spaced or is_unit_word(word)) and len(word) > 1:
            self._push("unit", word, start, end)
            return
        for name in _FN_PREFIXES:
            if word.startswith(name) and len(word) - len(name) <= 2:
                self._push("fn", name, start, start + len(name))
                return
        if word in ("oo", "Inf"):
            self._push("const", "oo", start, end)
            return
        if len(word) > 40 or (self.plain and len(word) >= 4 and _VOWEL.search(word, 1) and not word.isupper()):
            raise ParseError("a word that is no formula", start)
        for offset, char in enumerate(word):
            self._push("const" if char in "ei" else "id", char, start + offset, start + offset + 1)

    def _unit_tail(self, last: Token | None, start: int) -> bool:
        """Take ``m/s`` or ``kg/m^3`` at the end of a plain text, after a number."""
        if last is None or last.kind != "num" or not self.plain or "/" not in self.text:
            return False
        tail = _UNIT_TAIL.match(self.text, start)
        if tail is None or not (self.spaced or tail[0] in ("m/s", "km/h")):
            return False
        if not all(is_unit_name(name) for name in _LETTERS.findall(tail[0])):
            return False
        self._push("unit", tail[0].rstrip(), start, tail.end())
        return True

    def _is_unit(self, word: str, start: int) -> bool:
        if word in ("in", "I", "A") and self.text[start + len(word) :].lstrip()[:1] in ("[", "{", "("):
            return False
        if is_unit_word(word):
            return word in _COMMON_GLUED or len(word) > 3 or self.spaced
        return self.plain and len(word) >= 3 and (self.spaced or len(word) >= 4) and word[1:].islower()

    def _command(self, name: str, start: int, end: int) -> None:
        known = COMMANDS.get(name)
        if known is None and name.startswith(("quad", "qquad")):
            end = start + 1 + name.index("quad") + 4
            known = COMMANDS["quad"]
        if known is None:
            raise ParseError(f"unknown command \\{name}", start)
        kind, value = known
        if kind not in _HANDLED:
            self._push(kind, value, start, end)
        elif kind == "skip":
            self.spaced = True
            self.pos = end
        elif kind == "lr":
            self._left_right(value, start, end)
        elif kind == "text":
            self._text(start, end)
        elif kind in ("opname", "bb", "begin", "end"):
            self._braced_name(kind, start, end)
        else:
            if kind == "open":
                self.depth.append(True)
            elif kind == "close" and self.depth:
                self.depth.pop()
            self._push(kind, value, start, end)

    def _left_right(self, side: str, start: int, end: int) -> None:
        rest = self.text[end : end + 1]
        if rest == "|":
            self._push("op", "|" + (side if side != "|" else ""), start, end + 1)
        elif rest == ".":
            self.pos = end + 1
        else:
            self.pos = end

    def _escape(self, char: str, start: int, end: int) -> None:
        if char in "{}":
            if char == "{":
                self.depth.append(True)
            elif self.depth:
                self.depth.pop()
            self._push("open" if char == "{" else "close", "\\" + char, start, end)
        elif char == "\\":
            gap = _ROW_GAP.match(self.text, end)
            self._push("op", "\\\\", start, gap.end() if gap else end)
        elif char == "%":
            self._push("op", "%", start, end)
        elif char == "$":
            self._push("cur", "$", start, end)
        elif char == "|":
            self._push("op", "|", start, end)
        elif char in _SPACE_ESCAPES:
            self.spaced = True
            self.pos = end
        else:
            raise ParseError(f"unknown command \\{char}", start)

    def _content(self, end: int) -> tuple[str, int]:
        """The braced group at ``end`` (spaces skipped): its text and the position after it."""
        if self.braces is None:
            self.braces = matching_braces(self.text)
        while self.text[end : end + 1] == " ":
            end += 1
        close = self.braces.get(end)
        if close is None:
            raise ParseError("missing {...} after a command", end, malformed=True)
        return self.text[end + 1 : close], close + 1

    def _text(self, start: int, end: int) -> None:
        content, after = self._content(end)
        word = content.strip(" ~")
        if word in ("mod", "percent", "pct", "degrees", "infinity"):
            self._push(*WORDS[word], start, after)
        elif word == "cis":
            self._push("fn", word, start, after)
        elif (joined := _JOIN.match(content)) and self.tokens:
            self._push("join", joined[1].lower(), start, after)
        elif not content.strip(" ~,;:."):
            if "," in content and self.tokens:
                self._push("op", ",", start, after)
            self.spaced = True
            self.pos = after
        else:
            self._push("text", content, start, after)

    def _braced_name(self, kind: str, start: int, end: int) -> None:
        while kind == "bb" and self.text[end : end + 1] == " ":
            end += 1
        if kind == "bb" and self.text[end : end + 1].strip() and self.text[end] != "{":
            self._push("bb", self.text[end], start, end + 1)
            return
        content, after = self._content(end)
        name = content.strip()
        if kind == "opname":
            if name in FUNCTIONS or name in COMMANDS:
                known = COMMANDS.get(name, ("fn", name))
                self._push(*known, start, after)
            else:
                self._push("apply", re.sub(r"[\\{}\s]", "", name), start, after)
        else:
            self._push(kind, name, start, after)


def tokenize(text: str, comma: str = "thousands") -> list[Token]:
    """Tokens of an ASCII text; ``comma`` says what a plain comma between digits is: ``thousands``, ``list``
    or ``decimal``.

    Raises ParseError (with ``position``) where the text leaves the allow-list or its budgets.

    >>> [token.value for token in tokenize("1,000x^2")]
    ['1000', 'x', '^', '2']
    """
    if len(text) > MAX_CHARS:
        raise ParseError("too long", MAX_CHARS)
    return _Lexer(text, comma).run()
