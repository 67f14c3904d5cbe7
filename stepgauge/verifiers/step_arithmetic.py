"""The ``arithmetic`` scorer: is every equality that a step states true?

A claim is an ``=`` (or ``≈``) between two numeric expressions, at least one of which computes something. Units and
currency signs are skipped. An expression with an unknown (``x``, a function, a factorial) is no claim, and where a
claim has several usual readings (``80 - 20%``) it is false only if all of them are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

from stepgauge.scoring import Progress, Reason, Rollout, Scorer, StepScores, score_each

__all__ = ["ArithmeticScorer", "Claim", "step_claims"]

MAX_STEP_CHARS = 20_000
MAX_CLAIM_TOKENS = 64
MAX_UNIT_WORDS = 4
MAX_BITS = 4096

_LATEX = {
    r"\\(?:times|cdot|ast)(?![a-zA-Z])": "*",
    r"\\div(?![a-zA-Z])": "/",
    r"\\(?:approx|simeq)(?![a-zA-Z])": "≈",
    r"\\(?:left|right|quad|qquad|displaystyle)(?![a-zA-Z])|\\[!,;:> ]|\\[()\[\]]|\$|&": " ",
    r"\\([%#])": r"\1",
    r"\\[dt]?frac\s*\{\s*([\d.]{1,40})\s*\}\s*\{\s*([\d.]{1,40})\s*\}": r"((\1)/(\2))",
    r"\\(?:text|mathrm|mbox)\s*\{([^{}\n]{0,80})\}": r" \1 ",
}
_LATEX_RULES = [(re.compile(pattern), to) for pattern, to in _LATEX.items()]
_BOLD = re.compile(r"\*\*(?=\s*\D)|(?<=\D)\*\*")

_TOKEN = re.compile(
    r"(?P<number>\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)(?P<percent>\s?%)?"
    r"|(?P<equals>≈|(?<![=<>!:+\-*/])=(?![=>]))"
    r"|(?P<operator>\*\*|[-+*/^×·÷−–∗⋅]|\\[a-zA-Z]+)"
    r"|(?P<open>[(\[{])|(?P<close>[)\]}])"
    r"|(?P<word>[^\W\d_]+(?:['’][^\W\d_]+)*)"
    r"|(?P<space>[^\S\n]+)"
    r"|(?P<stop>.|\n)",
    re.DOTALL,
)
_SAME_OPERATOR = {"×": "*", "·": "*", "∗": "*", "⋅": "*", "÷": "/", "−": "-", "–": "-", "**": "^"}
_CURRENCY = frozenset("€£¥₹¢")
_SPOKEN = {"times": "*", "x": "*", "X": "*", "plus": "+", "minus": "-"}
_COMPUTING_WORDS = frozenset(
    "squared|cubed|dozen|half|twice|double|triple|hundred|thousand|million|billion|over|mod|divided|choose|power|"
    "remainder".split("|")
)
_FUNCTIONS = frozenset(
    "log|ln|lg|exp|sin|cos|tan|cot|sec|csc|sqrt|root|cbrt|gcd|lcm|max|min|abs|floor|ceil|round".split("|")
)
_CONJUNCTIONS = frozenset("and|or|so|then|but|which|where|because|since|as|therefore|hence|thus|while".split("|"))
_ONE_LETTER_UNITS = frozenset("mgshLlNJWVAKCFaA")  # "a" is the article; each only after a space
_PROSE = frozenset(".,;:?!\n\"'“”‘’`<>|#*~…—→⇒&@，。；：？！、")


class _NoClaim(Exception):
    """The text around an equals sign is not a numeric claim."""


class _TooLarge(Exception):
    """A number outgrew the budget."""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: Literal["number", "equals", "operator", "open", "close", "word", "stop"]
    text: str
    glued: bool  # no space before it
    percent: bool = False
    digits: int = 0  # digits after the decimal point


@dataclass(frozen=True, slots=True)
class Claim:
    """One equality stated in a step: its normalised text, whether it holds (None = too large to say), both sides."""

    text: str
    holds: bool | None
    left: str
    right: str


@dataclass(frozen=True, slots=True)
class _Value:
    number: Fraction
    digits: int | None  # digits after the point of a bare literal; None for a computed value


def _tokens(step: str) -> list[_Token]:
    for pattern, to in _LATEX_RULES:
        step = pattern.sub(to, step)
    step = _BOLD.sub(" ", step)
    tokens: list[_Token] = []
    glued = False
    for match in _TOKEN.finditer(step):
        kind, text = match.lastgroup, match.group()
        if kind == "space" or text in _CURRENCY:
            glued = False
            continue
        if kind == "percent":
            kind = "number"
        if kind == "number":
            number = match.group("number").replace(",", "")
            digits = len(number.partition(".")[2])
            tokens.append(_Token("number", number, glued, match.group("percent") is not None, digits))
        else:
            tokens.append(_Token(kind, _SAME_OPERATOR.get(text, text), glued))  # type: ignore[arg-type]
        glued = True
    return _join_words(tokens)


def _join_words(tokens: list[_Token]) -> list[_Token]:
    """Read ``20 percent``, ``3 x 4``, ``3 plus 4`` and ``50% of 80`` as what they say."""
    joined: list[_Token] = []
    for at, token in enumerate(tokens):
        before = joined[-1] if joined else None
        after = tokens[at + 1] if at + 1 < len(tokens) and tokens[at + 1].kind in ("number", "open") else None
        if token.kind == "word" and before is not None and before.kind in ("number", "close"):
            if token.text == "percent" and before.kind == "number":
                joined[-1] = replace(before, percent=True)
                continue
            operator = _SPOKEN.get(token.text)
            if token.text == "of" and (before.percent or (len(joined) > 1 and joined[-2].text == "/")):
                operator = "*"
            if operator and after is not None:
                token = _Token("operator", operator, token.glued)
        elif token.text in ("x", "X") and before is not None and after is not None and not (token.glued or after.glued):
            token = _Token("operator", "*", token.glued)  # 60 students x 2/3
        joined.append(token)
    return joined


class _Parser:
    """Precedence climbing over tokens: ``+ -`` < ``* /`` < unary minus < ``^``; unit words are skipped."""

    def __init__(self, tokens: Sequence[_Token], percent: Literal["share", "plain", "change"]) -> None:
        self.tokens = tokens
        self.percent = percent
        self.at = 0
        self.operations = 0
        self.had_unit = False

    def peek(self, ahead: int = 0) -> _Token | None:
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
        while sign := self.operator("*", "/"):
            factor = self.power(depth)
            if sign == "/" and factor == 0:
                raise _NoClaim
            value = self.count(value * factor if sign == "*" else value / factor)
        return value

    def power(self, depth: int) -> Fraction:
        if self.operator("-"):
            return -self.power(depth + 1)
        base = self.atom(depth)
        if self.operator("^"):
            exponent = self.power(depth + 1)
            if exponent.denominator != 1 or (base == 0 and exponent < 0):
                raise _NoClaim
            bits = max(base.numerator.bit_length(), base.denominator.bit_length())
            if bits * abs(exponent) > MAX_BITS:
                raise _TooLarge
            return self.count(base ** int(exponent))
        return base

    def atom(self, depth: int) -> Fraction:
        token = self.peek()
        if token is None or depth > MAX_CLAIM_TOKENS:
            raise _NoClaim
        self.at += 1
        if token.kind == "open":
            value = self.sum(depth + 1)
            closing = self.peek()
            if closing is None or closing.kind != "close":
                raise _NoClaim
            self.at += 1
        elif token.kind == "number":
            if len(token.text) > MAX_BITS // 8:
                raise _TooLarge
            value = Fraction(token.text)
            if token.percent:
                self.operations += 1
                value = value if self.percent == "plain" else value / 100
        else:
            raise _NoClaim
        self.unit()
        following = self.peek()
        if following is not None and following.kind == "open" and following.glued:
            return self.count(value * self.atom(depth + 1))  # 3(4 + 5)
        return value

    def unit(self) -> None:
        """Skip unit words; another single letter, a function or a word that computes makes the expression no claim."""
        words = 0
        while (token := self.peek()) is not None and token.kind == "word" and words < MAX_UNIT_WORDS:
            unknown = len(token.text) == 1 and (token.glued or token.text not in _ONE_LETTER_UNITS)
            following = self.peek(1)
            call = following is not None and following.kind == "open" and following.glued
            if token.text.lower() in _CONJUNCTIONS:
                break
            if unknown or call or token.text.lower() in _COMPUTING_WORDS | _FUNCTIONS:
                raise _NoClaim
            self.at += 1
            words += 1
            if following is not None and following.text == "^" and following.glued:
                exponent = self.peek(1)
                if exponent is None or exponent.kind != "number":
                    raise _NoClaim
                self.at += 2  # cm^2
        self.had_unit = self.had_unit or words > 0

    def count(self, value: Fraction) -> Fraction:
        self.operations += 1
        if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
            raise _TooLarge
        return value


_Reading = Literal["share", "plain", "change"]


def _left_start(tokens: Sequence[_Token], equals: int) -> Iterator[int]:
    """Starts of candidate left sides, longest first; each begins an expression that nothing before it continues."""
    low = equals
    while low > 0 and equals - low < MAX_CLAIM_TOKENS and tokens[low - 1].kind not in ("equals", "stop"):
        low -= 1
    for start in range(low, equals):
        token = tokens[start]
        dash = token.text == "-" and (start == low or (not token.glued and tokens[start + 1].glued))
        bullet = start == low + 1 and tokens[low].text == "-" and _free(tokens, low)
        if (token.kind in ("number", "open") or dash) and (bullet or _free(tokens, start)):
            yield start


def _free(tokens: Sequence[_Token], start: int) -> bool:
    """Whether an expression may begin at ``start``: what stands before it is not part of it."""
    if start == 0:
        return True
    token, before = tokens[start], tokens[start - 1]
    if before.kind == "stop":
        inside_number = token.glued and before.glued and start > 1 and tokens[start - 2].kind in ("number", "close")
        return before.text in _PROSE and not inside_number  # not 5:00, x_3, √16
    if before.text == "and" and start > 1 and tokens[start - 2].kind == "number" and _fraction(tokens[start:]):
        return False  # 1 and 1/4
    if before.kind == "word":
        return not token.glued and before.text.lower() not in _FUNCTIONS and (token.text != "-" or len(before.text) > 1)
    return before.kind in ("equals", "open") or (before.kind == "close" and not token.glued)


def _fraction(tokens: Sequence[_Token]) -> bool:
    return [token.kind for token in tokens[:3]] == ["number", "operator", "number"] and tokens[1].text == "/"


@dataclass(frozen=True, slots=True)
class _Side:
    value: _Value
    operations: int
    unit: bool
    end: int

    @property
    def computed(self) -> bool:
        return self.operations > 0


def _side(tokens: Sequence[_Token], reading: _Reading, *, whole: bool) -> _Side:
    parser = _Parser(tokens, reading)
    number = parser.sum()
    following, after = parser.peek(), parser.peek(1)
    if following is not None:
        unread = following.kind in ("operator", "open") or (
            following.kind == "stop" and following.glued and (following.text not in _PROSE or following.text == "!")
        )
        unread = unread or (following.kind == "number" and not parser.had_unit)
        unread = unread or (following.text == "and" and _fraction(tokens[parser.at + 1 :]))
        split = following.kind == "stop" and following.glued and after is not None and after.glued
        if whole or unread or (split and after is not None and after.kind == "number"):
            raise _NoClaim  # the expression goes on in a way that was not read
    literal = tokens[0] if parser.operations == 0 else None
    if literal is not None and literal.text == "-":
        literal = tokens[1]
    digits = literal.digits if literal is not None else None
    if parser.operations == 1 and tokens[0].percent and parser.at == 1:
        digits = tokens[0].digits + (0 if reading == "plain" else 2)
    return _Side(_Value(number, digits), parser.operations, parser.had_unit, parser.at)


def _agree(left: _Value, right: _Value, approximate: bool) -> bool:
    difference = abs(left.number - right.number)
    if difference == 0:
        return True
    digits = [value.digits for value in (left, right) if value.digits is not None]
    if approximate:
        unit = Fraction(1, 10 ** max(digits)) if digits else Fraction(0)
        return difference <= max(unit, abs(right.number) / 100)
    decimals = max(digits, default=0)
    return decimals > 0 and difference <= Fraction(1, 2 * 10**decimals)


def _claim(tokens: Sequence[_Token], equals: int) -> Claim | None:
    """The claim around the equals sign at index ``equals``, or None."""
    after = tokens[equals + 1 : equals + 1 + MAX_CLAIM_TOKENS]
    stop = next((at for at, token in enumerate(after) if token.kind in ("equals", "stop")), len(after))
    stop += 2  # two more, so that a right side that goes on (8:00, 7!) is seen to
    around = tokens[max(0, equals - MAX_CLAIM_TOKENS) : equals + 1 + stop]
    readings: tuple[_Reading, ...] = ("share", "plain", "change") if any(t.percent for t in around) else ("share",)
    outcomes: list[tuple[str, str, bool, str]] = []
    for start in _left_start(tokens, equals):
        for reading in readings:
            try:
                left = _side(tokens[start:equals], reading, whole=True)
                right = _side(after[:stop], reading, whole=False)
            except _NoClaim:
                continue
            text = _shown(tokens[start : equals + 1 + right.end])
            agree = _agree(left.value, right.value, tokens[equals].text == "≈")
            conversion = not left.computed or (_fraction(tokens[start:]) and left.operations == 1)
            if (not left.computed and not right.computed) or (conversion and left.unit and not agree):
                continue  # "2 hours = 120 minutes", "1/2 a cup = 4 ounces"
            outcomes.append((str(left.value.number), str(right.value.number), agree, text))
        if outcomes and (tokens[start].text != "-" or any(agree for _, _, agree, _ in outcomes)):
            break  # a leading dash may be a bullet: then the next start is read too
    if not outcomes:
        return None
    left_text, right_text, holds, text = next((o for o in outcomes if o[2]), outcomes[0])
    return Claim(text, holds, left_text, right_text)


def _shown(tokens: Sequence[_Token]) -> str:
    last = max(at for at, token in enumerate(tokens) if token.kind != "word")
    return " ".join(token.text + "%" * token.percent for token in tokens[: last + 1])


def step_claims(step: str) -> list[Claim]:
    """Every numeric equality stated in a step, checked with exact rationals.

    ``=`` holds exactly, or, where a side is a decimal literal, to half a unit of its last digit; ``≈`` to a unit of the
    last digit or 1 %. Linear in the length of the step. Never raises on any text of at most 20,000 characters.

    Raises:
        ValueError: a longer step.

    Example:
        >>> [(claim.text, claim.holds) for claim in step_claims("Each needs 2 * 10 - 4 = 18 pounds, so 14*18 = 252.")]
        [('2 * 10 - 4 = 18', False), ('14 * 18 = 252', True)]
    """
    if len(step) > MAX_STEP_CHARS:
        raise ValueError(f"step has {len(step)} characters; step_claims reads at most {MAX_STEP_CHARS}")
    tokens = _tokens(step)
    claims = []
    for at, token in enumerate(tokens):
        if token.kind != "equals":
            continue
        try:
            claim = _claim(tokens, at)
        except _TooLarge:
            claim = Claim("", None, "", "")
        if claim is not None:
            claims.append(claim)
    return claims


class ArithmeticScorer(Scorer):
    """Rule-based process verifier: 1 where all equalities a step states hold, 0 where one does not, None without any.

    It needs no gold answer and no model. It says nothing about whether the right thing was computed.
    ``details`` list the claims of each step; ``error_step`` is the first step with a false one.

    Example:
        >>> scores = ArithmeticScorer().score(["There are 14.", "14 * 16 = 224", "420 + 224 = 634"])
        >>> scores.values, scores.error_step
        ((None, 1.0, 0.0), 2)
    """

    name = "arithmetic"
    kind = "correctness"

    def score_batch(
        self, rollouts: Sequence[Rollout], *, deadline_s: float | None = None, progress: Progress | None = None
    ) -> list[StepScores]:
        """See ``Scorer.score_batch``."""
        return score_each(self._judge, rollouts, kind="correctness", deadline_s=deadline_s, progress=progress)

    def _judge(self, rollout: Rollout) -> StepScores:
        judged = [_judge_step(step) for step in rollout.steps]
        values = tuple(value for value, _, _ in judged)
        reasons = tuple(reason for _, reason, _ in judged)
        details = tuple({"claims": claims} if claims else {} for _, _, claims in judged)
        if all(value is None for value in values):
            nothing = {"reason": next(iter(reasons), "no_claim")}
            return StepScores(values, "correctness", "abstain", reasons, summary=nothing, details=details)
        false = [index for index, value in enumerate(values) if value == 0.0]
        summary = {"claims": sum(len(claims) for *_, claims in judged), "false_steps": len(false)}
        error_step = false[0] if false else None
        return StepScores(values, "correctness", "ok", reasons, error_step, summary, details)


def _judge_step(step: str) -> tuple[float | None, Reason | None, list[dict[str, Any]]]:
    if len(step) > MAX_STEP_CHARS:
        return None, "too_large", []
    claims = step_claims(step)
    shown = [{"text": c.text, "holds": c.holds, "left": c.left, "right": c.right} for c in claims]
    verdicts = [claim.holds for claim in claims]
    if False in verdicts:
        return 0.0, None, shown
    if None in verdicts:
        return None, "too_large", shown
    return (1.0, None, shown) if verdicts else (None, "no_claim", shown)
