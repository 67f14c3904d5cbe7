"""The ``arithmetic`` scorer: is every equality that a step states true?

A claim is an ``=`` (or ``≈``) between two numeric expressions, at least one of which computes something. Units and
currency signs are skipped. An expression with an unknown (``x``, a function, a factorial) is no claim, and where a
claim has several usual readings (``80 - 20%``) it is false only if all of them are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from stepgauge.scoring import Progress, Reason, Rollout, Scorer, StepScores, score_each
from stepgauge.verifiers.claim_tokens import PROSE, Token, converts, is_fraction, is_unit, left_starts, tokenize
from stepgauge.verifiers.claim_values import MAX_CLAIM_TOKENS, NoClaim, Parser, Reading, TooLarge
from stepgauge.verifiers.step_symbols import symbol_claims

__all__ = ["ArithmeticScorer", "Claim", "step_claims"]

MAX_STEP_CHARS = 20_000


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


@dataclass(frozen=True, slots=True)
class _Side:
    value: _Value
    operations: int
    unit: bool
    end: int

    @property
    def computed(self) -> bool:
        return self.operations > 0


def _side(tokens: Sequence[Token], reading: Reading, *, whole: bool) -> _Side:
    parser = Parser(tokens, reading)
    number = parser.sum()
    following, after = parser.peek(), parser.peek(1)
    if following is not None:
        unread = following.kind in ("operator", "open") or (
            following.kind == "stop" and following.glued and (following.text not in PROSE or following.text == "!")
        )
        unread = unread or (following.kind == "number" and not parser.had_unit)
        rest = tokens[parser.at + (following.text == "and") :]
        unread = unread or (following.text == "and" and is_fraction(rest))
        unread = unread or (len(rest) > 1 and rest[0].kind == "number" and is_unit(rest[1]))  # 2 hours and 5 minutes
        split = following.kind == "stop" and following.glued and after is not None and after.glued
        if whole or unread or (split and after is not None and after.kind == "number"):
            raise NoClaim  # the expression goes on in a way that was not read
    literal = tokens[0] if parser.operations == 0 else None
    if literal is not None and literal.text == "-":
        literal = tokens[1]
    digits = literal.digits if literal is not None else None
    if parser.operations == 1 and tokens[0].percent and parser.at == 1:
        digits = tokens[0].digits + (0 if reading.percent == "plain" else 2)
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


def _claim(tokens: Sequence[Token], equals: int) -> Claim | None:
    """The claim around the equals sign at index ``equals``, or None."""
    after = tokens[equals + 1 : equals + 1 + MAX_CLAIM_TOKENS]
    stop = next((at for at, token in enumerate(after) if token.kind in ("equals", "stop")), len(after))
    stop += 2  # two more, so that a right side that goes on (8:00, 7!) is seen to
    around = tokens[max(0, equals - MAX_CLAIM_TOKENS) : equals + 1 + stop]
    readings = _readings(around)
    outcomes: list[tuple[str, str, bool, str]] = []
    for start in left_starts(tokens, equals, MAX_CLAIM_TOKENS):
        for reading in readings:
            try:
                left = _side(tokens[start:equals], reading, whole=True)
                right = _side(after[:stop], reading, whole=False)
            except NoClaim:
                continue
            text = _shown(tokens[start : equals + 1 + right.end])
            agree = _agree(left.value, right.value, tokens[equals].text == "≈")
            conversion = not left.computed or (is_fraction(tokens[start:]) and left.operations == 1)
            if (not left.computed and not right.computed) or (conversion and left.unit and not agree):
                continue  # "2 hours = 120 minutes", "1/2 a cup = 4 ounces"
            if not agree and converts(tokens[start : equals + 1 + right.end]):
                continue  # "3 hours + 30 minutes = 210 minutes"
            agree = agree or _runs_on(left.value.number, after[:stop], reading)
            outcomes.append((str(left.value.number), str(right.value.number), agree, text))
        if outcomes and (tokens[start].text != "-" or any(agree for _, _, agree, _ in outcomes)):
            break  # a leading dash may be a bullet: then the next start is read too
    if not outcomes:
        return None
    left_text, right_text, holds, text = next((o for o in outcomes if o[2]), outcomes[0])
    return Claim(text, holds, left_text, right_text)


def _readings(tokens: Sequence[Token]) -> list[Reading]:
    tight = (False, True) if any(t.text == "/" for t in tokens) and any(t.kind == "open" for t in tokens) else (False,)
    percents: tuple[Literal["share", "plain", "change"], ...] = ("share", "plain", "change")
    shown = percents if any(token.percent for token in tokens) else percents[:1]
    return [Reading(percent, is_tight) for is_tight in tight for percent in shown]


def _runs_on(left: Fraction, after: Sequence[Token], reading: Reading) -> bool:
    """Whether the right side begins with the left value and the chain goes on: 100 * 1.1 = 110 * 1.1 = 121."""
    if not any(token.kind == "equals" for token in after):
        return False
    parser = Parser(after, reading)
    try:
        return parser.power(0) == left
    except (NoClaim, TooLarge):
        return False


def _shown(tokens: Sequence[Token]) -> str:
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
    tokens = tokenize(step)
    claims = []
    for at, token in enumerate(tokens):
        if token.kind != "equals":
            continue
        try:
            claim = _claim(tokens, at)
        except TooLarge:
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
        known: dict[str, Any] = {}
        judged = [_judge_step(step, known) for step in rollout.steps]
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


def _judge_step(step: str, known: dict[str, Any]) -> tuple[float | None, Reason | None, list[dict[str, Any]]]:
    if len(step) > MAX_STEP_CHARS:
        return None, "too_large", []
    claims = [*step_claims(step), *(Claim(*claim) for claim in symbol_claims(step, known))]
    shown = [{"text": c.text, "holds": c.holds, "left": c.left, "right": c.right} for c in claims]
    verdicts = [claim.holds for claim in claims]
    if False in verdicts:
        return 0.0, None, shown
    if None in verdicts:
        return None, "too_large", shown
    return (1.0, None, shown) if verdicts else (None, "no_claim", shown)
