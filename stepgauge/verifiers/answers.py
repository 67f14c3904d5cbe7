"""Is a predicted answer the gold answer? One verdict with its reason, never an exception, never a guess."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from stepgauge.verifiers.extraction import extract_answer, extract_choice, visible
from stepgauge.verifiers.reading import Reading, layout_free, read
from stepgauge.verifiers.symbolic.compare import compare
from stepgauge.verifiers.symbolic.lexer import MAX_CHARS
from stepgauge.verifiers.symbolic.nodes import Sym, Text
from stepgauge.verifiers.symbolic.outcome import Outcome, different, equal, undecided
from stepgauge.verifiers.symbolic.parser import Invalid
from stepgauge.verifiers.symbolic.policy import Policy, resolve

_LETTER = re.compile(r"\s*\$?\s*(?:\\text(?:bf)?\{)?\(?([A-Z])\)?\}?\s*\$?\s*")
_COMMA = re.compile(r"\d,\d")
_WORDS = (Invalid, Text)
_CONTENT = re.compile(r"[^\W_]")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was decided, why, by which rung of the ladder, and in how many milliseconds of wall time."""

    verdict: Literal["equal", "different", "undecided", "invalid"]
    reason: str
    rung: str
    ms: float

    @property
    def equal(self) -> bool:
        """Whether the answers are the same."""
        return self.verdict == "equal"


def verify(gold: str, prediction: str, *, policy: Policy | str = "default") -> Verdict:
    """Whether a prediction is the gold answer: ``equal``, ``different``, ``undecided`` or ``invalid``;
    symmetric in its arguments.

    Raises ValueError for an unknown policy and TypeError for anything but text.

    >>> verify("1/2", "0.5").verdict
    'equal'
    """
    rules = resolve(policy)
    if not isinstance(gold, str) or not isinstance(prediction, str):
        raise TypeError(f"verify compares two strings, got {type(gold).__name__} and {type(prediction).__name__}")
    start = time.perf_counter()
    outcome = _decide(gold, prediction, rules)
    return Verdict(outcome.verdict, outcome.reason, outcome.rung, (time.perf_counter() - start) * 1e3)


def _decide(gold: str, prediction: str, policy: Policy) -> Outcome:
    try:
        if gold.strip() == prediction.strip() and _CONTENT.search(gold[:10_000]):
            return equal("text", "same text")
        left, right = read(gold), read(prediction)
        found = _compare(left, right, policy)
        if found.verdict == "equal" or not (_COMMA.search(gold[:2000]) or _COMMA.search(prediction[:2000])):
            return found
        return _other_commas(gold, prediction, policy) or found
    except RecursionError:
        return undecided("structure", "nested too deeply")
    except Exception as error:  # our own failure is never a verdict on the answer
        return undecided("internal", f"{type(error).__name__}: {error}"[:200])


def _other_commas(gold: str, prediction: str, policy: Policy) -> Outcome | None:
    """A plain comma may also list items or mark decimals; the reading both sides agree on counts."""
    for mode in ("list", "decimal"):
        for left_mode, right_mode in ((mode, "thousands"), ("thousands", mode)):
            found = _compare(read(gold, left_mode), read(prediction, right_mode), policy)
            if found.verdict == "equal":
                return found
    return None


def _compare(left: Reading, right: Reading, policy: Policy) -> Outcome:
    if left.source == right.source and _CONTENT.search(left.source[:10_000]):
        return equal("text", "same text")
    if isinstance(left.node, _WORDS) or isinstance(right.node, _WORDS):
        found = _compare_texts(left, right, policy)
        if found is not None:
            return found
    assert not isinstance(left.node, Invalid)
    assert not isinstance(right.node, Invalid)
    readings: tuple[str, ...] = ()
    if ("I" in left.source) != ("I" in right.source):
        readings = ("i",)
    if "log" in left.source or "log" in right.source:
        readings = (*readings, "log")
    return compare(left.node, right.node, policy, readings=readings)


def _compare_texts(left: Reading, right: Reading, policy: Policy) -> Outcome | None:
    """What can be said where a side is words or could not be read; None where both sides are to be compared."""
    unread = isinstance(left.node, Invalid), isinstance(right.node, Invalid)
    long = max(len(left.source), len(right.source)) > 4 * MAX_CHARS
    if not long:
        words, other = layout_free(left.source), layout_free(right.source)
        if words == other and _CONTENT.search(words[:10_000]):
            return equal("text", "same text")
        if not any(unread) and policy.fold_case and words.casefold() == other.casefold():
            return equal("text", "same words")
    broken = [
        (side, node) for side, node in (("gold", left.node), ("prediction", right.node)) if isinstance(node, Invalid)
    ]
    if broken:
        side, node = min(broken, key=lambda item: item[1].malformed)
        where = f"{side}: {node.reason} at {node.position}"
        return different("parse", f"malformed {where}") if node.malformed else Outcome("invalid", "parse", where)
    return None


def verify_response(gold: str, response: str, *, policy: Policy | str = "default") -> Verdict:
    """Whether the final answer of a response is the gold answer; ``invalid`` where the response has none.

    >>> verify_response("42", "We get 40 + 2. The answer is 42.").verdict
    'equal'
    """
    rules = resolve(policy)
    start = time.perf_counter()
    outcome = _decide_response(gold, response, rules)
    return Verdict(outcome.verdict, outcome.reason, outcome.rung, (time.perf_counter() - start) * 1e3)


def _decide_response(gold: str, response: str, policy: Policy) -> Outcome:
    letter = _LETTER.fullmatch(gold)
    found = extract_choice(response) if letter else None
    if found is None:
        found = extract_answer(response)
    span = visible(response)
    if span is None:
        return Outcome("invalid", "extraction", "the response ends inside its thinking")
    outcome = _decide(gold, found.text if found is not None else response[slice(*span)], policy)
    if outcome.verdict == "different" and isinstance(unread := read(gold).node, Invalid):
        return Outcome("invalid", "parse", f"gold: {unread.reason} at {unread.position}")
    return outcome


def verify_many(pairs: Iterable[tuple[str, str]], *, policy: Policy | str = "default") -> list[Verdict]:
    """Verdicts of many (gold, prediction) pairs in order; equal pairs are decided once, and one bad pair
    never hurts another.

    >>> [verdict.equal for verdict in verify_many([("2", "4/2"), ("2", "3")])]
    [True, False]
    """
    rules = resolve(policy)
    known: dict[tuple[str, str], Verdict] = {}
    out = []
    for pair in pairs:
        if pair not in known:
            known[pair] = verify(*pair, policy=rules)
        out.append(known[pair])
    return out


def answer_classes(answers: Sequence[str | None], *, policy: Policy | str = "default") -> list[int | None]:
    """A class number for each answer, numbered as first seen; None stays None.

    Same text and same canonical key decide first; only one member of each class is compared otherwise.

    >>> answer_classes(["1/2", "0.5", None, "2"])
    [0, 0, None, 1]
    """
    rules = resolve(policy)
    by_text: dict[str, int] = {}
    by_key: dict[Any, int] = {}
    members: list[str] = []
    keys: list[Any] = []
    out: list[int | None] = []
    for answer in answers:
        if answer is None:
            out.append(None)
            continue
        text = answer.strip()
        found = by_text.get(text)
        if found is None:
            key = canonical_key(text)
            found = by_key.get(key) if key is not None else None
            if found is None:
                found = _class_of(text, key, members, keys, rules)
            if key is not None:
                by_key.setdefault(key, found)
            by_text[text] = found
        out.append(found)
    return out


def _class_of(text: str, key: Any, members: list[str], keys: list[Any], policy: Policy) -> int:
    for index, member in enumerate(members):
        if key is not None and keys[index] is not None and key[0] == keys[index][0] == "exact":
            continue  # two exact rationals with other keys differ
        if verify(member, text, policy=policy).equal:
            return index
    members.append(text)
    keys.append(key)
    return len(members) - 1


def canonical_key(text: str) -> Any:
    """A key that equal plain numbers and formulas share: ``("exact", p, q)`` or ``("print", value)``; None
    for all else.
    """
    from stepgauge.verifiers.symbolic import cost
    from stepgauge.verifiers.symbolic.exact import rational
    from stepgauge.verifiers.symbolic.modular import fingerprint
    from stepgauge.verifiers.symbolic.nodes import Add, BaseNum, Dec, Div, Fn, Int, Mul, Neg, Percent, Pow, walk

    node = read(text).node
    if isinstance(node, Invalid) or not isinstance(node, (Add, Dec, Div, Fn, Int, Mul, Neg, Pow, Sym)):
        return None
    if "," in text or any(isinstance(part, (Dec, Percent, BaseNum)) for part in walk(node)):
        return None
    try:
        value = rational(node)
        if value is not None:
            return ("exact", int(value.p), int(value.q))
        return ("print", fingerprint(node).value)
    except (cost.Undefined, cost.TooLarge):
        return None
