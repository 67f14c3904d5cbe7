"""Is a final answer the gold answer? A small exact core: numbers as rationals, everything else as normalised text."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from stepgauge.verifiers.extraction import extract_answer

__all__ = ["Verdict", "answer_classes", "verify", "verify_many", "verify_response"]

MAX_CHARS = 2000
_NUMBER = re.compile(r"([-+]?)(?:(\d{1,3}(?:,\d{3})+|\d+)(\.\d*)?|(\.\d+))(?:/(\d+))?(%?)")
_FRAC = re.compile(r"\\[dt]?frac\{(\d+)\}\{(\d+)\}")


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a prediction compares with the gold answer; ``rung`` names the rule that decided, ``ms`` what it took."""

    verdict: Literal["equal", "different", "undecided", "invalid"]
    reason: str
    rung: str
    ms: float

    @property
    def equal(self) -> bool:
        """True only for the verdict ``equal``."""
        return self.verdict == "equal"


def _normalise(answer: str) -> str:
    text = _FRAC.sub(r"\1/\2", answer).replace("\\%", "%").replace("\\$", "").replace("$", "")
    for noise in ("\\left", "\\right", "\\!", "\\,", "\\ "):
        text = text.replace(noise, "")
    return " ".join(text.split()).rstrip(".").strip()


def _number(text: str) -> Fraction | None:
    match = _NUMBER.fullmatch(text.replace(" ", ""))
    if match is None:
        return None
    sign, whole, decimals, bare, denominator, percent = match.groups()
    value = Fraction(bare if bare else whole.replace(",", "") + (decimals or "").rstrip("."))
    if denominator is not None:
        if int(denominator) == 0:
            return None
        value /= int(denominator)
    if percent:
        value /= 100
    return -value if sign == "-" else value


def _key(answer: str) -> Fraction | str:
    text = _normalise(answer)
    number = _number(text)
    return number if number is not None else text


def verify(gold: str, prediction: str) -> Verdict:
    """Compare a prediction with the gold answer, both bare.

    Returns ``equal``, ``different`` (both are numbers), ``undecided`` (text that differs) or ``invalid`` (nothing to
    compare, or over 2,000 characters). Never raises on any text.

    Example:
        >>> verify("1/2", "0.50").verdict, verify("12", "13").verdict
        ('equal', 'different')
    """
    started = time.perf_counter()

    def done(verdict: Literal["equal", "different", "undecided", "invalid"], reason: str, rung: str) -> Verdict:
        return Verdict(verdict, reason, rung, (time.perf_counter() - started) * 1000)

    for name, answer in (("gold", gold), ("prediction", prediction)):
        if len(answer) > MAX_CHARS:
            return done("invalid", f"{name} has {len(answer)} characters, more than {MAX_CHARS}", "budget")
    left, right = _key(gold), _key(prediction)
    if left == "" or right == "":
        return done("invalid", f"{'gold' if left == '' else 'prediction'} is empty", "text")
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        return done("equal" if left == right else "different", "exact rationals", "rational")
    if left == right:
        return done("equal", "same text", "text")
    return done("undecided", "texts differ and are not both numbers", "text")


def verify_many(pairs: Iterable[tuple[str, str]]) -> list[Verdict]:
    """``verify`` for many (gold, prediction) pairs, in order; equal pairs are judged once."""
    known: dict[tuple[str, str], Verdict] = {}
    verdicts = []
    for gold, prediction in pairs:
        pair = (gold, prediction)
        if pair not in known:
            known[pair] = verify(gold, prediction)
        verdicts.append(known[pair])
    return verdicts


def verify_response(gold: str, response: str) -> Verdict:
    """Extract the final answer of a response, else take the whole text, and compare it with the gold answer."""
    answer = extract_answer(response)
    return verify(gold, answer.text if answer is not None else response)


def answer_classes(answers: Sequence[str | None]) -> list[int | None]:
    """Group equal answers: the same number = the same class, numbered by first appearance; None stays None.

    Example:
        >>> answer_classes(["1/2", None, "3", "0.5"])
        [0, None, 1, 0]
    """
    known: dict[Fraction | str, int] = {}
    return [
        None if answer is None or len(answer) > MAX_CHARS else known.setdefault(_key(answer), len(known))
        for answer in answers
    ]
