"""The value of a numeric expression in running text, by exact rationals, within a budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from stepgauge.verifiers.claim_tokens import COMPUTING_WORDS, CONJUNCTIONS, FUNCTIONS, ONE_LETTER_UNITS, Token

__all__ = ["NoClaim", "Parser", "Reading", "TooLarge"]

MAX_CLAIM_TOKENS = 64
MAX_UNIT_WORDS = 4
MAX_BITS = 4096


class NoClaim(Exception):
    """The text around an equals sign is not a numeric claim."""


class TooLarge(Exception):
    """A number outgrew the budget."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How to read what has several usual readings.

    ``percent``: 20% is 0.2 ("share"), 20 ("plain"), or a change of what it is added to ("change"). ``tight``: in
    ``a/b(c)``, b(c) is divided by.
    """

    percent: Literal["share", "plain", "change"]
    tight: bool


class Parser:
    """Precedence climbing over tokens: ``+ -`` < ``* /`` < unary minus < ``^``; unit words are skipped."""

    def __init__(self, tokens: Sequence[Token], reading: Reading) -> None:
        self.tokens = tokens
        self.percent = reading.percent
        self.tight = reading.tight
        self.at = 0
        self.operations = 0
        self.had_unit = False

    def peek(self, ahead: int = 0) -> Token | None:
        at = self.at + ahead
        return self.tokens[at] if at < len(self.tokens) else None

    def operator(self, *texts: str) -> str | None:
        token = self.peek()
        if token is not None and token.kind == "operator" and token.text in texts:
            self.at += 1
            return token.text
        return None

    def sum(self, depth: int = 0) -> Fraction:
        value = self.product(depth)
        while sign := self.operator("+", "-"):
            first = self.peek()
            term = self.product(depth)
            if self.percent == "change" and first is not None and first.percent:
                term *= value
            value = self.count(value + term if sign == "+" else value - term)
        return value

    def product(self, depth: int) -> Fraction:
        value = self.power(depth)
        while True:
            if self.juxtaposed():
                value = self.count(value * self.power(depth))  # 3(4 + 5)
                continue
            sign = self.operator("*", "/")
            if sign is None:
                return value
            factor = self.power(depth)
            while self.tight and self.juxtaposed():
                factor = self.count(factor * self.power(depth))
            if sign == "/" and factor == 0:
                raise NoClaim
            value = self.count(value * factor if sign == "*" else value / factor)

    def juxtaposed(self) -> bool:
        token = self.peek()
        return token is not None and token.kind == "open" and token.glued

    def power(self, depth: int) -> Fraction:
        if self.operator("-"):
            return -self.power(depth + 1)
        base = self.atom(depth)
        if self.operator("^"):
            exponent = self.power(depth + 1)
            if exponent.denominator != 1 or (base == 0 and exponent < 0):
                raise NoClaim
            bits = max(base.numerator.bit_length(), base.denominator.bit_length())
            if bits * abs(exponent) > MAX_BITS:
                raise TooLarge
            return self.count(base ** int(exponent))
        return base

    def atom(self, depth: int) -> Fraction:
        token = self.peek()
        if token is None or depth > MAX_CLAIM_TOKENS:
            raise NoClaim
        self.at += 1
        if token.kind == "open":
            value = self.sum(depth + 1)
            closing = self.peek()
            if closing is None or closing.kind != "close":
                raise NoClaim
            self.at += 1
        elif token.kind == "number":
            if len(token.text) > MAX_BITS // 8:
                raise TooLarge
            if token.text[0] == "0" and token.text[1:2].isdigit():
                raise NoClaim  # 0130 hours, a date
            value = Fraction(token.text)
            if token.percent:
                self.operations += 1
                value = value if self.percent == "plain" else value / 100
        else:
            raise NoClaim
        self.unit()
        return value

    def unit(self) -> None:
        """Skip unit words; another single letter, a function or a word that computes makes the expression no claim."""
        words = 0
        while (token := self.peek()) is not None and token.kind == "word" and words < MAX_UNIT_WORDS:
            unknown = len(token.text) == 1 and (token.glued or token.text not in ONE_LETTER_UNITS)
            following = self.peek(1)
            call = following is not None and following.kind == "open" and following.glued
            if token.text.lower() in CONJUNCTIONS:
                break
            if unknown or call or token.text.lower() in COMPUTING_WORDS | FUNCTIONS:
                raise NoClaim
            self.at += 1
            words += 1
            if following is not None and following.text == "^" and following.glued:
                exponent = self.peek(1)
                if exponent is None or exponent.kind != "number":
                    raise NoClaim
                self.at += 2  # cm^2
        self.had_unit = self.had_unit or words > 0

    def count(self, value: Fraction) -> Fraction:
        self.operations += 1
        if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
            raise TooLarge
        return value
