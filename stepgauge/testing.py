"""The interface as a test suite, for every scorer of this library and for yours.

from stepgauge.testing import SCORER_CHECKS, check_scorer

def test_my_scorer():
    check_scorer(MyScorer())
"""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from types import MappingProxyType

from stepgauge.scoring import KINDS, Rollout, Scorer, StepScores

__all__ = ["SCORER_CHECKS", "check_scorer", "sample_rollouts"]

TOLERANCE = 1e-5  # alone, in a batch, again: the same score, in the unit of the scorer


def sample_rollouts() -> list[Rollout]:
    """Rollouts that every scorer must take: right, wrong, empty, odd and hostile ones."""
    right = ("Each pig needs 10 pounds, so 42 pigs need 42 * 10 = 420.", "420 + 224 = 644.", "The answer is 644.")
    wrong = ("42 * 10 = 402.", "402 + 224 = 626.", "The answer is 626.")
    return [
        Rollout("How many pounds?", right, gold="644", id="right"),
        Rollout("How many pounds?", wrong, gold="644", id="wrong"),
        Rollout("How many pounds?", right, id="no gold"),
        Rollout("", ("2 + 2 = 4",), id="no problem"),
        Rollout("What?", ("", "1 + 1 = 2", "   "), gold="2", id="empty steps"),
        Rollout("What?", (), gold="2", id="no steps"),
        Rollout("变量是多少？", ("所以 3 × 4 = 12 🎉", "答案是 ١٢", "x\u0000y\u202e"), gold="12", id="unicode"),
        Rollout("Go", ("Step 1: 1 + 1 = 2\n\nStep 2: 2 + 2 = 4", "so\n1. a\n2. b"), gold="4", id="looks splittable"),
        Rollout("Go", ("__import__('os').system('false')", "\\boxed{9^{9^{9^{9}}}}"), gold="1", id="hostile"),
    ]


def _require(condition: bool, scorer: Scorer, message: str) -> None:
    if not condition:
        raise AssertionError(f"{scorer!r}: {message}")


def _close(left: StepScores, right: StepScores) -> bool:
    if (left.status, left.reasons, left.error_step) != (right.status, right.reasons, right.error_step):
        return False
    pairs = zip(left.values, right.values, strict=True)
    return all(a is b or (a is not None and b is not None and abs(a - b) <= TOLERANCE) for a, b in pairs)


def _same(scorer: Scorer, got: Sequence[StepScores], expected: Sequence[StepScores], what: str) -> None:
    _require(len(got) == len(expected), scorer, f"{what}: {len(got)} results, expected {len(expected)}")
    for index, (left, right) in enumerate(zip(got, expected, strict=True)):
        _require(_close(left, right), scorer, f"{what}: result {index} is {left!r}, expected {right!r}")


def check_names(scorer: Scorer, rollouts: Sequence[Rollout]) -> None:
    """It names itself, its kind is known, its fingerprint is a stable string."""
    _require(bool(scorer.name) and isinstance(scorer.name, str), scorer, f"name must be a word, got {scorer.name!r}")
    _require(scorer.kind in KINDS, scorer, f"kind must be one of {', '.join(KINDS)}, got {scorer.kind!r}")
    _require(isinstance(scorer.fingerprint, str), scorer, "fingerprint must be a string")
    _require(scorer.fingerprint == scorer.fingerprint, scorer, "fingerprint changes between two reads")


def check_lengths(scorer: Scorer, rollouts: Sequence[Rollout]) -> None:
    """One StepScores a rollout, one value, reason and detail a step: steps are never re-split."""
    results = scorer.score_batch(rollouts)
    _require(len(results) == len(rollouts), scorer, f"{len(results)} results for {len(rollouts)} rollouts")
    for rollout, scores in zip(rollouts, results, strict=True):
        _require(isinstance(scores, StepScores), scorer, f"a result is a {type(scores).__name__}, not StepScores")
        _require(
            len(scores.values) == len(rollout.steps),
            scorer,
            f"{len(scores.values)} values for the {len(rollout.steps)} steps of {rollout!r}",
        )
        _require(scores.kind == scorer.kind, scorer, f"result kind {scores.kind!r} is not the scorer's {scorer.kind!r}")


def check_batch_equals_loop(scorer: Scorer, rollouts: Sequence[Rollout]) -> None:
    """A score does not depend on what else is in the batch, on order, or on duplicates."""
    together = scorer.score_batch(rollouts)
    _same(scorer, [scorer.score_batch([rollout])[0] for rollout in rollouts], together, "one by one")
    _same(scorer, scorer.score_batch(list(reversed(rollouts)))[::-1], together, "in reverse order")
    _same(scorer, scorer.score_batch([*rollouts, *rollouts]), [*together, *together], "every rollout twice")


def check_deterministic(scorer: Scorer, rollouts: Sequence[Rollout]) -> None:
    """Scoring again gives the same scores."""
    _same(scorer, scorer.score_batch(rollouts), scorer.score_batch(rollouts), "again")


def check_score_equals_batch(scorer: Scorer, rollouts: Sequence[Rollout]) -> None:
    """``score(steps)``, ``score_iter`` and ``ascore_batch`` agree with ``score_batch``."""
    plain = [replace(r, text=None, spans=(), token_ids=None) for r in rollouts]
    expected = scorer.score_batch(plain)
    one_call = [scorer.score(r.steps, problem=r.problem, gold=r.gold, reference=r.reference) for r in plain]
    _same(scorer, one_call, expected, "score(steps)")
    _same(scorer, list(scorer.score_iter(iter(plain), batch_size=2)), expected, "score_iter")
    _same(scorer, asyncio.run(scorer.ascore_batch(plain)), expected, "ascore_batch")


def check_empty(scorer: Scorer, rollouts: Sequence[Rollout]) -> None:
    """No rollouts give no results; no steps abstain, and never aggregate to a number."""
    _require(scorer.score_batch([]) == [], scorer, "an empty batch must give an empty list")
    scores = scorer.score([], problem="What?", gold="1")
    _require(scores.status == "abstain", scorer, f"a rollout without steps must abstain, got {scores!r}")
    _require(scores.aggregate() is None, scorer, "a rollout without steps must have no aggregate")


def check_no_silent_zero(scorer: Scorer, rollouts: Sequence[Rollout]) -> None:
    """With no time to judge, nothing is scored 0: a step has its usual score, or None and a reason."""
    usual = scorer.score_batch(rollouts)
    for scores, full in zip(scorer.score_batch(rollouts, deadline_s=0.0), usual, strict=True):
        hurried = scores.status == "error" and set(scores.reasons) <= {"timeout"}
        _require(hurried or _close(scores, full), scorer, f"deadline_s=0 gave {scores!r}; expected an error 'timeout'")


def check_long(scorer: Scorer, rollouts: Sequence[Rollout]) -> None:
    """200 steps, and one long step among short ones."""
    steps = [f"{i} + 1 = {i + 1}" for i in range(200)]
    _require(len(scorer.score(steps, problem="Count.").values) == 200, scorer, "200 steps must give 200 values")
    steps[1] = "and so on " * 2_000
    _require(len(scorer.score(steps[:3], problem="Count.").values) == 3, scorer, "a long step must keep its place")


def check_rejects_one_string(scorer: Scorer, rollouts: Sequence[Rollout]) -> None:
    """``score("text")`` is refused: splitting is the caller's decision."""
    try:
        scorer.score("1 + 1 = 2")
    except TypeError:
        return
    raise AssertionError(f"{scorer!r}: score(str) must raise TypeError")


def check_progress(scorer: Scorer, rollouts: Sequence[Rollout]) -> None:
    """``progress`` counts every rollout once."""
    seen: list[int] = []
    scorer.score_batch(rollouts, progress=seen.append)
    _require(sum(seen) == len(rollouts), scorer, f"progress counted {sum(seen)} of {len(rollouts)} rollouts")


def check_threads(scorer: Scorer, rollouts: Sequence[Rollout]) -> None:
    """It works off the main thread, from several threads at once."""
    expected = scorer.score_batch(rollouts)
    found: list[list[StepScores]] = []
    threads = [threading.Thread(target=lambda: found.append(scorer.score_batch(rollouts))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _require(len(found) == len(threads), scorer, f"{len(threads) - len(found)} of {len(threads)} threads raised")
    for results in found:
        _same(scorer, results, expected, "in a thread")


def check_session(scorer: Scorer, rollouts: Sequence[Rollout]) -> None:
    """A session gives the scores of the whole rollout so far; a fork goes its own way."""
    rollout = next(r for r in rollouts if len(r.steps) > 1)
    start = replace(rollout, steps=(), text=None, spans=(), token_ids=None)
    whole = replace(start, steps=rollout.steps)
    session = scorer.open(start)
    for step in rollout.steps[:-1]:
        session.extend(step)
    fork = session.fork()
    _same(scorer, [session.extend(rollout.steps[-1])], scorer.score_batch([whole]), "session")
    other = replace(start, steps=(*rollout.steps[:-1], "Or perhaps 7."))
    _same(scorer, [fork.extend("Or perhaps 7.")], scorer.score_batch([other]), "forked session")
    session.close()
    fork.close()


def check_pickle_and_spawn(scorer: Scorer, rollouts: Sequence[Rollout]) -> None:
    """It pickles after use, small (its parameters, no weights), and works in a spawned process."""
    expected = scorer.score_batch(rollouts)
    data = pickle.dumps(scorer)
    _require(len(data) < 100_000, scorer, f"pickles to {len(data)} bytes; weights and pools must stay out")
    copy: Scorer = pickle.loads(data)  # noqa: S301  # our own bytes
    _require(copy.fingerprint == scorer.fingerprint, scorer, "a pickled copy has another fingerprint")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        _same(
            scorer, pool.submit(copy.score_batch, list(rollouts)).result(timeout=300), expected, "in a spawned process"
        )


def check_close(scorer: Scorer, rollouts: Sequence[Rollout]) -> None:
    """``close`` may be called twice, and the scorer loads again when used after it."""
    expected = scorer.score_batch(rollouts)
    scorer.close()
    scorer.close()
    _same(scorer, scorer.score_batch(rollouts), expected, "after close")


SCORER_CHECKS: MappingProxyType[str, Callable[[Scorer, Sequence[Rollout]], None]] = MappingProxyType(
    {
        check.__name__.removeprefix("check_"): check
        for check in (
            check_names,
            check_lengths,
            check_batch_equals_loop,
            check_deterministic,
            check_score_equals_batch,
            check_empty,
            check_no_silent_zero,
            check_long,
            check_rejects_one_string,
            check_progress,
            check_threads,
            check_session,
            check_pickle_and_spawn,
            check_close,
        )
    }
)


def check_scorer(scorer: Scorer, rollouts: Sequence[Rollout] | None = None) -> None:
    """Run every check of ``SCORER_CHECKS`` on a scorer.

    Args:
        scorer: an instance; it must be importable in a spawned process (defined in a module, not in a notebook cell).
        rollouts: rollouts to use besides ``sample_rollouts()``, for scorers that need a reference of their own.

    Raises:
        AssertionError: names the scorer, the check, and what came instead of what was expected.

    Example:
        >>> from stepgauge import load
        >>> check_scorer(load("math"))
    """
    if not isinstance(scorer, Scorer):
        raise TypeError(f"check_scorer takes a Scorer instance, got {scorer!r:.80}; pass MyScorer(), not MyScorer")
    cases = [*sample_rollouts(), *(rollouts or ())]
    for check in SCORER_CHECKS.values():
        check(scorer, cases)
