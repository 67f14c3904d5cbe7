"""Walking a token list: the cursor, and the small pieces every part of the parser needs (subscripts, units, digits)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stepgauge.verifiers.symbolic.lexer import MAX_EXPONENT, ParseError, Token
from stepgauge.verifiers.symbolic.nodes import Dec, Div, Int, Mul, Neg, Node, Sym
from stepgauge.verifiers.symbolic.units import parse_unit

MAX_DEPTH = 40
_MALFORMED = (
    "an operand",
    "an argument",
    "unclosed",
    "empty",
    "brackets",
    "unexpected",
    "expected",
    "sign out",
    "ragged",
)
END = Token("end", "", -1, -1, False)
_SUBSCRIPT = re.compile(r"\\(?:text|mathrm|mathbf|mathit|rm|textrm|mathsf|,|;|!|operatorname)|[{}\s]|\\(?=[A-Za-z])")
_WORD = re.compile(r"[~\s]*([A-Za-z][A-Za-z/ ~^.*\d{}-]*)[~\s]*")
_INDEX_I = re.compile(r"(?:_\s*\{?\s*i\s*=|\bd\s*i\b)")


@dataclass(frozen=True, slots=True)
class Invalid:
    """The text cannot be read: why, at which character, and whether it is ill-formed for any reader (or only
    outside our allow-list).
    """

    reason: str
    position: int
    malformed: bool = False


def number(text: str) -> Node:
    """The node of a plain numeral.

    >>> number("1.50e3")
    Dec(digits=150, scale=-1)
    """
    if text.isdigit():
        return Int(int(text))
    mantissa, _, exponent = text.lower().partition("e")
    whole, _, decimals = mantissa.partition(".")
    power = int(exponent) if exponent else 0
    if abs(power) > MAX_EXPONENT:
        raise ParseError("exponent too large", 0)
    return Dec(int((whole + decimals) or "0"), len(decimals) - power)


def product(factors: list[Node]) -> Node:
    """One factor as it is, several as a product."""
    return factors[0] if len(factors) == 1 else Mul(tuple(factors))


def quotient(nums: list[Node], dens: list[Node]) -> Node:
    """Factors above and below a fraction bar."""
    return Div(product(nums), product(dens)) if dens else product(nums)


class Cursor:
    """A position in a token list; the grammar's entry points are filled in by the classes below it."""

    depth = 0  # of brackets, signs and arguments
    bars = 0  # open |...|
    integrals = 0  # around
    in_set = False

    def __init__(self, text: str, tokens: list[Token], open_bars: bool) -> None:
        self.text = text
        self.tokens = tokens
        self.size = len(tokens)
        self.pos = 0
        self.tok = tokens[0]
        self.bar_tokens = (
            [index for index, token in enumerate(tokens) if token.value == "|"] if "|" in text or "ver" in text else []
        )
        self.open_bars = open_bars
        self.builders = "|" in text or ":" in text or "\\mid" in text  # may hold {x | ...}
        self.index_i = "i" in text and _INDEX_I.search(text) is not None

    def move(self, pos: int) -> None:
        self.pos = pos
        self.tok = self.tokens[pos] if pos < self.size else END

    def advance(self) -> None:
        pos = self.pos = self.pos + 1
        self.tok = self.tokens[pos] if pos < self.size else END

    def at(self, offset: int) -> Token:
        index = self.pos + offset
        return self.tokens[index] if index < len(self.tokens) else END

    def fail(self, message: str) -> ParseError:
        token = self.tok
        return ParseError(
            message, token.start if token.start >= 0 else len(self.text), malformed=message.startswith(_MALFORMED)
        )

    def take(self, value: str) -> bool:
        if self.tok.value == value:
            self.advance()
            return True
        return False

    def expect(self, value: str) -> None:
        if not self.take(value):
            raise self.fail(f"expected {value!r}")

    def enter(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.fail("nested too deeply")

    def digit(self) -> str:
        """One digit of a number token, as LaTeX takes an argument without braces; the rest stays."""
        token = self.tok
        if len(token.value) == 1 or not token.value.isdigit() or "\\" not in self.text:
            self.advance()
            return token.value
        self.tok = self.tokens[self.pos] = Token("num", token.value[1:], token.start + 1, token.end, False)
        return token.value[0]

    def subscript(self) -> str:
        """The text of a subscript, without fonts, braces and spaces."""
        self.expect("_")
        token = self.tok
        if token.kind == "open" and token.value == "{":
            start, level = self.pos, 0
            while self.pos < self.size:
                value = self.tok.value
                level += (value in ("{", "\\{")) - (value in ("}", "\\}"))
                self.advance()
                if level == 0:
                    raw = self.text[self.tokens[start].end : self.tokens[self.pos - 1].start]
                    return "_" + _SUBSCRIPT.sub("", raw)
            raise self.fail("unclosed subscript")
        if token.kind in ("font", "text"):
            self.advance()
            if token.kind == "text":
                return "_" + token.value.strip()
            self.move(self.pos - 1)
            return "_" + (self.font_word() or "?")
        if token.kind not in ("id", "const", "num"):
            raise self.fail("bad subscript")
        if token.kind == "num":
            return "_" + self.digit()
        self.advance()
        return "_" + token.value

    def font_word(self) -> str | None:
        """The letters inside a font command, consumed; None where it holds a formula (nothing consumed)."""
        start = self.pos
        self.advance()
        if self.tok.value != "{":
            token = self.tok
            self.advance()
            return token.value if token.kind in ("id", "const", "num") else None
        level, index = 0, self.pos
        while index < len(self.tokens):
            level += (self.tokens[index].value == "{") - (self.tokens[index].value == "}")
            if level == 0:
                break
            index += 1
        raw = self.text[self.tok.end : self.tokens[index].start] if index < len(self.tokens) else ""
        match = _WORD.fullmatch(raw.replace("\\,", " ").replace("\\cdot", "*"))
        if match is None:
            self.move(start)
            return None
        self.move(index + 1)
        return match[1].strip()

    def unit_font(self) -> bool:
        """Whether the font command here sets a unit (upright letters after a value)."""
        if self.tok.value not in ("mathrm", "rm"):
            return False
        start = self.pos
        word = self.font_word()
        self.move(start)
        return word is not None and word not in ("e", "i", "d") and parse_unit(word) is not None

    def unit(self) -> tuple[tuple[str, int], ...] | None:
        """Words after a value, as a unit."""
        parts: list[str] = []
        start = self.pos
        while True:
            token = self.tok
            if token.kind in ("text", "unit", "cur"):
                parts.append(token.value)
                self.advance()
            elif token.kind == "font" and parts:
                word = self.font_word()
                if word is None:
                    break
                parts.append(word)
            elif token.kind == "font":
                parts.append(self.font_word() or "")
            elif token.value == "^" and self.at(1).kind in ("num", "open", "op"):
                begin = self.pos
                self.advance()
                exponent = self.exponent()
                value = (
                    -exponent.arg.value
                    if isinstance(exponent, Neg) and isinstance(exponent.arg, Int)
                    else getattr(exponent, "value", None)
                )
                if not isinstance(value, int):
                    self.move(begin)
                    break
                parts.append(f"^{value}")
            elif token.value in ("/", "*") and (
                self.at(1).kind in ("text", "unit", "font", "id") or self.at(1).value == "("
            ):
                parts.append(token.value)
                self.advance()
                if self.tok.kind == "id":
                    parts.append(self.tok.value)
                    self.advance()
            elif token.kind == "join" and self.at(1).kind in ("text", "unit"):
                break
            else:
                break
        return parse_unit(" ".join(parts)) if self.pos > start else None

    def differential(self) -> Sym | None:
        """``dx`` right here, not consumed."""
        following = self.at(1)
        if self.tok.value == "d" and following.kind in ("id", "const"):
            return Sym(following.value)
        return None

    # the grammar, from the top
    def statement(self) -> Node:
        raise NotImplementedError

    def additive(self) -> Node:
        raise NotImplementedError

    def multiplicative(self) -> Node:
        raise NotImplementedError

    def sign(self) -> str:
        raise NotImplementedError

    def unary(self) -> Node:
        raise NotImplementedError

    def power(self) -> Node:
        raise NotImplementedError

    def exponent(self) -> Node:
        raise NotImplementedError

    def primary(self) -> Node:
        raise NotImplementedError

    def argument(self, *, single: bool = False) -> Node:
        raise NotImplementedError

    def fraction(self) -> Node:
        raise NotImplementedError
