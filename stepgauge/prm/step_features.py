"""What a step of a worked word problem shows on its face: its sums, where its numbers come from, what is left unused.

Every feature of step k is made of the problem and steps 0 … k alone, so a rollout that grows keeps its scores.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from stepgauge.verifiers.step_arithmetic import MAX_STEP_CHARS, step_claims

__all__ = ["FEATURES", "step_features"]

_NUMBER = re.compile(r"(?<![\w.])(?:\d{1,3}(?:,\d{3})+|\d{1,15})(?:\.\d{1,9})?(?![\d])|(?<![\w.])\.\d{1,9}(?!\d)")
_PERCENT = re.compile(r"(?<![\w.])(\d{1,9}(?:\.\d{1,9})?)\s?(?:%|percent)")
_WORD = re.compile(r"[a-z]+")
_ANSWER = re.compile(r"(?i)answer\s{0,3}(?:is|:)|\\boxed|####")
_CODE = re.compile(r"```|print\(|\bdef |\bimport |\breturn\b")
_LABEL = re.compile(r"\s*(?:[Ss]tep\s*)?\d{1,3}\s?[:.)]\s")
_UNKNOWN = re.compile(r"(?<![A-Za-z])[xyznTA]\s?[=+\-*]")
_EQUALS = re.compile("[=≈]")
_CAP = 5.0  # counts above it say nothing new

_TEENS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
_TEENS += " seventeen eighteen nineteen twenty"
_SPELLED = {word: float(value) for value, word in enumerate(_TEENS.split())} | {
    word: value
    for value, words in {
        **{10.0 * ten: word for ten, word in enumerate("thirty forty fifty sixty seventy eighty ninety".split(), 3)},
        100.0: "hundred",
        1000.0: "thousand",
        12.0: "twelve dozen dozens",
        0.5: "half halves",
        1 / 3: "third thirds",
        0.25: "quarter quarters fourth",
        0.2: "fifth",
        2.0: "two twice double doubled doubles both pair pairs couple",
        3.0: "three thrice triple tripled",
        4.0: "four quadruple",
    }.items()
    for word in words.split()
}
_VAGUE = frozenset(("zero", "one", "both"))  # spelled numbers that a solution need not use
_CONVERSIONS = {
    **dict.fromkeys(("week", "weeks", "weekly", "days", "daily"), (7.0,)),
    **dict.fromkeys(("year", "years", "yearly", "annual"), (12.0, 52.0, 365.0, 4.0)),
    **dict.fromkeys(("month", "months", "monthly"), (12.0, 30.0, 4.0)),
    **dict.fromkeys(("hour", "hours", "minute", "minutes", "second", "seconds"), (60.0,)),
    **dict.fromkeys(("day",), (24.0, 7.0)),
    **dict.fromkeys(("foot", "feet", "inch", "inches"), (12.0, 3.0)),
    **dict.fromkeys(("yard", "yards"), (3.0, 36.0)),
    **dict.fromkeys(("pound", "pounds", "ounce", "ounces"), (16.0,)),
    **dict.fromkeys(("dozen", "dozens"), (12.0,)),
}
_ALWAYS = frozenset((0.0, 1.0, 2.0, 10.0, 100.0))
_CUES = {
    "cue_each": frozenset(("each", "per", "every")),
    "cue_more": frozenset(("more",)),
    "cue_less": frozenset(("less", "fewer")),
    "cue_left": frozenset(("left", "remaining", "remain", "rest")),
    "cue_total": frozenset(("total", "altogether", "together")),
    "cue_times": frozenset(("times", "twice", "double", "triple")),
    "cue_half": frozenset(("half",)),
}


def _numbers(text: str) -> list[float]:
    return [round(float(match.group().replace(",", "")), 3) for match in _NUMBER.finditer(text)]


def _value(fraction: str) -> list[float]:
    """The number that a claim's side comes to; nothing where it is none or too large."""
    try:
        return [round(float(Fraction(fraction)), 3)]
    except (ValueError, OverflowError):
        return []


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _size(number: float, largest: float) -> float:
    """Decimal magnitude of a number beside the problem's largest, within [-3, 4]."""
    return max(-3.0, min(4.0, math.log10(max(abs(number), 1e-3) / largest)))


@dataclass(frozen=True, slots=True)
class _Problem:
    given: frozenset[float]  # numbers in digits
    stated: frozenset[float]  # those and the spelled ones
    implied: frozenset[float]  # what follows from them or from their units: 20 % gives 0.2, a week 7
    largest: float
    whole: bool  # no fraction and no percentage
    spelled: int
    percent: bool
    words: frozenset[str]
    length: int


def _read_problem(text: str) -> _Problem:
    text = text[:MAX_STEP_CHARS]
    words = _WORD.findall(text.lower())
    given = frozenset(_numbers(text))
    percents = [float(share) for share in _PERCENT.findall(text)]
    spelled = [round(_SPELLED[word], 3) for word in words if word in _SPELLED and word not in _VAGUE]
    stated = given | frozenset(spelled)
    implied = set(_ALWAYS)
    for share in percents:
        implied |= {share / 100, 1 - share / 100, 1 + share / 100, 100 - share, 100 + share}
    for number in stated:
        implied |= {1 - number, 1 + number} if 0 < number < 1 else {1 / number} if number > 1 else set()
    for word in words:
        implied |= set(_CONVERSIONS.get(word, ()))
    return _Problem(
        given,
        stated,
        frozenset(round(number, 3) for number in implied),
        max(given, default=1.0) or 1.0,
        all(number.is_integer() for number in given) and not percents and not any(0 < n < 1 for n in spelled),
        len(spelled),
        bool(percents),
        frozenset(words),
        len(text),
    )


@dataclass(slots=True)
class _Past:
    """What the steps so far have shown."""

    known: set[float] = field(default_factory=set)  # every number written
    results: set[float] = field(default_factory=set)
    last: float | None = None
    computed: int = 0
    used: set[float] = field(default_factory=set)  # numbers of the problem that were computed with
    idle: set[float] = field(default_factory=set)  # results that nothing was computed with
    lines: set[str] = field(default_factory=set)
    answers: int = 0
    totals: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Step:
    text: str
    false: int
    true: int
    numbers: list[float]
    operands: list[float]
    results: list[float]
    operations: dict[str, int]
    answer: float | None
    marked: bool

    @property
    def claims(self) -> int:
        return self.false + self.true


def _read_step(text: str) -> _Step:
    claims = step_claims(text)
    operands: list[float] = []
    results: list[float] = []
    operations = dict.fromkeys("+-*/", 0)
    for claim in claims:
        left, right = (*_EQUALS.split(claim.text, maxsplit=1), "")[:2]
        computed = left if len(_numbers(left)) >= len(_numbers(right)) else right
        operands += _numbers(computed)
        results += _value(claim.right if computed is left else claim.left)
        for sign in operations:
            operations[sign] += computed.count(sign)
    label = _LABEL.match(text)
    numbers = _numbers(text[label.end() :] if label else text)
    marked = _ANSWER.search(text) is not None
    answer = None
    if marked:
        after = _ANSWER.split(text)[-1]
        found = _NUMBER.search(after)
        answer = numbers[-1] if numbers else None
        if found is not None:
            answer = _numbers(found.group())[0] * (-1 if after[: found.start()].rstrip("$ ").endswith("-") else 1)
    false = sum(claim.holds is False for claim in claims)
    true = sum(claim.holds is True for claim in claims)
    return _Step(text, false, true, numbers, operands, results, operations, answer, marked)


def _sums(step: _Step, problem: _Problem, past: _Past) -> dict[str, float]:
    """The equalities stated in the step."""
    results = set(step.results)
    fractions = any(not number.is_integer() for number in results)
    found = {
        "false": step.false,
        "true": step.true,
        "no_claim": float(not step.claims),
        "operations": sum(step.operations.values()),
        "adds": step.operations["+"],
        "subtracts": step.operations["-"],
        "multiplies": step.operations["*"],
        "divides": step.operations["/"],
        "fraction": float(fractions),
        "fraction_of_wholes": float(fractions and problem.whole),
        "negative": float(any(number < 0 for number in results)),
        "result_again": len(results & past.results),
        "result_given": len(results & problem.stated),
    }
    capped = {name: min(value, _CAP) for name, value in found.items()}
    capped["result_size"] = _size(step.results[-1], problem.largest) if step.results else 0.0
    return capped


def _provenance(step: _Step, problem: _Problem, past: _Past) -> dict[str, float]:
    """Where the step's numbers come from; updates what has been used."""
    results, operands = set(step.results), set(step.operands)
    sources = problem.stated | problem.implied | results

    def from_nowhere(numbers: Sequence[float]) -> int:
        return sum(number not in sources and number not in past.known for number in numbers)

    fresh = operands & problem.stated - past.used
    before = _share(len(past.used & problem.given), len(problem.given))
    past.used |= operands & problem.stated
    past.idle -= operands
    past.idle |= results
    return {
        "numbers": min(len(step.numbers), 8.0),
        "operands_from_nowhere": min(from_nowhere(step.operands), _CAP),
        "numbers_from_nowhere": min(from_nowhere(step.numbers), _CAP),
        "operands_given": _share(sum(number in problem.stated for number in step.operands), len(step.operands)),
        "operands_known": _share(sum(number in past.known for number in step.operands), len(step.operands)),
        "uses_last_result": float(past.last in operands),
        "newly_used": min(len(fresh), _CAP),
        "used": _share(len(past.used & problem.given), len(problem.given)),
        "used_before": before,
        "unused": min(len(problem.given - past.used), _CAP),
        "idle": min(len(past.idle), _CAP),
    }


_OF_THE_ANSWER = "latest computed given new fraction size unused used idle computations".split()


def _ending(step: _Step, problem: _Problem, past: _Past) -> dict[str, float]:
    """The final answer, where the step states one; zeros elsewhere."""
    answer, results = step.answer, set(step.results)
    latest = step.results[-1] if step.results else past.last
    found = dict.fromkeys((f"answer_{name}" for name in _OF_THE_ANSWER), 0.0)
    found |= {"marked": float(step.marked), "no_answer": float(step.marked and answer is None)}
    if answer is not None:
        found |= {
            "answer_latest": float(answer == latest),
            "answer_computed": float(answer in past.results or answer in results),
            "answer_given": float(answer in problem.stated),
            "answer_new": float(answer not in past.known and answer not in results and answer not in problem.stated),
            "answer_fraction": float(not answer.is_integer()),
            "answer_size": _size(answer, problem.largest),
            "answer_unused": min(len(problem.given - past.used), _CAP),
            "answer_used": _share(len(past.used & problem.given), len(problem.given)),
            "answer_idle": min(len(past.idle - {answer}), _CAP),
            "answer_computations": min(past.computed + len(step.results), 8.0),
        }
    return found


def _form(step: _Step, index: int, past: _Past) -> dict[str, float]:
    return {
        "repeats": float(" ".join(step.text.lower().split()) in past.lines),
        "code": float(_CODE.search(step.text) is not None),
        "after_answer": min(past.answers, 2.0),
        "unknown": float(_UNKNOWN.search(step.text) is not None),
        "length": math.log1p(len(step.text)),
        "index": min(index, 12.0),
        "results_before": min(past.computed, 8.0),
    }


def _setting(problem: _Problem) -> dict[str, float]:
    found = {
        "problem_numbers": min(len(problem.given), 10.0),
        "problem_spelled": min(problem.spelled, 6.0),
        "problem_length": math.log1p(problem.length),
        "problem_percent": float(problem.percent),
        "problem_whole": float(problem.whole),
    }
    return found | {name: float(bool(words & problem.words)) for name, words in _CUES.items()}


_SUMMED = ("false", "numbers_from_nowhere", "operands_from_nowhere", "result_again", "fraction", "negative", "repeats")


def _features(problem: _Problem, text: str, index: int, past: _Past) -> dict[str, float]:
    step = _read_step(text)
    found = _sums(step, problem, past) | _provenance(step, problem, past) | _ending(step, problem, past)
    found |= _form(step, index, past) | _setting(problem)
    for name in _SUMMED:
        past.totals[name] = past.totals.get(name, 0.0) + found[name]
        found[f"{name}_so_far"] = min(past.totals[name], _CAP)
    past.known.update(step.numbers, step.results, map(abs, step.results))
    past.results.update(step.results)
    past.last = step.results[-1] if step.results else past.last
    past.computed += len(step.results)
    past.lines.add(" ".join(text.lower().split()))
    past.answers += step.answer is not None
    return found


FEATURES = tuple(_features(_read_problem(""), "", 0, _Past()))


def step_features(problem: str, steps: Sequence[str]) -> list[list[float] | None]:
    """The numbers ``FEATURES`` names for each step; None for a step longer than ``MAX_STEP_CHARS``.

    Linear in the length of the text; raises nothing on any text. Counts are capped, so one step cannot drown the rest.

    Args:
        problem: the word problem; "" leaves most numbers without a source.
        steps: of one rollout, in order.

    Example:
        >>> row = step_features("Ann has 3 bags of 4 nuts.", ["3 * 4 = 13 nuts."])[0]
        >>> dict(zip(FEATURES, row))["false"], dict(zip(FEATURES, row))["unused"]
        (1.0, 0.0)
    """
    read, past = _read_problem(problem), _Past()
    rows: list[list[float] | None] = []
    for index, text in enumerate(steps):
        if len(text) > MAX_STEP_CHARS:
            rows.append(None)
            continue
        found = _features(read, text, index, past)
        rows.append([float(found[name]) for name in FEATURES])
    return rows
