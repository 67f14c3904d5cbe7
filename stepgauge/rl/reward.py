"""One reward a rollout, from scorers: what every adapter of an RL framework calls.

Outcome and process scores become ``outcome + alpha * process``; what was not judged is None with a reason, never 0.
A batch comes back by its deadline even where a scorer hangs: the items that did not finish have reason "timeout".
"""

from __future__ import annotations

import functools
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from stepgauge.data.steps import split
from stepgauge.loading import load
from stepgauge.rl.guards import cap_steps
from stepgauge.scoring import Rollout, Scorer, StepScores

__all__ = ["Reward", "RolloutReward", "shared_scorer"]

MAX_STUCK = 64  # threads a process may lose to scorers that never return


@functools.cache
def shared_scorer(spec: str) -> Scorer:
    """``load(spec)``, once a process: every reward that names the same scorer shares its model and pools.

    Example:
        >>> shared_scorer("arithmetic") is shared_scorer("arithmetic")
        True
    """
    return load(spec)


@dataclass(frozen=True, slots=True)
class Reward:
    """What one rollout earned; None = could not be judged, and ``reason`` says why.

    ``value`` = outcome + alpha * process; ``process_scores`` keeps the step scores for token-level credit.
    """

    value: float | None
    outcome: float | None
    process: float | None
    reason: str | None
    process_scores: StepScores | None = None

    def flat(self, failed: float = 0.0) -> dict[str, float]:
        """The reward as finite floats under fixed keys, for frameworks that log dictionaries.

        ``abstained`` is 1.0 where ``score`` is only the stand-in ``failed``.

        Example:
            >>> Reward(1.5, 1.0, 0.5, None).flat()
            {'score': 1.5, 'outcome': 1.0, 'process': 0.5, 'abstained': 0.0}
        """
        return {
            "score": failed if self.value is None else self.value,
            "outcome": failed if self.outcome is None else self.outcome,
            "process": failed if self.process is None else self.process,
            "abstained": float(self.value is None),
        }


@dataclass(frozen=True)
class RolloutReward:
    """Outcome scorer plus ``alpha`` times a process scorer, in bounded time. Pickles: models load on first use.

    Args:
        outcome: a scorer or its ``load`` spec; judges the final answer. None = process only.
        process: a scorer or its ``load`` spec; judges each step. None = outcome only.
        alpha: weight of the process term; where the process scorer abstains, the term is left out.
        aggregate: how step scores become one number; None = the rule of their kind.
        split_by: how a response is cut into steps, see ``data.split``.
        max_steps: steps past this many are joined to the last, so that more steps never earn more.
        deadline_s: wall seconds a batch may take.
        batch_size: rollouts a scorer gets at once; larger for models, 1 where single items may hang.
        workers: threads at work on one batch.

    Raises:
        ValueError: neither scorer, or a deadline, batch size or number of workers that is not positive.

    Example:
        >>> reward = RolloutReward("math", "arithmetic", alpha=0.5)
        >>> reward.score([reward.rollout("2*7?", "2 * 7 = 14. The answer is 14.", "14")])[0].value
        1.5
    """

    outcome: str | Scorer | None = "math"
    process: str | Scorer | None = None
    alpha: float = 0.5
    aggregate: str | None = None
    split_by: str = "auto"
    max_steps: int = 64
    deadline_s: float = 30.0
    batch_size: int = 1
    workers: int = 4

    def __post_init__(self) -> None:
        if self.outcome is None and self.process is None:
            raise ValueError("RolloutReward needs an outcome or a process scorer, got neither")
        for name in ("deadline_s", "batch_size", "workers", "max_steps"):
            if not getattr(self, name) > 0:
                raise ValueError(f"RolloutReward.{name} must be > 0, got {getattr(self, name)!r}")

    def rollout(
        self, problem: str, text: str, gold: str | None = None, token_ids: Sequence[int] | None = None
    ) -> Rollout:
        """The response as a rollout: split into at most ``max_steps`` steps."""
        spans = cap_steps(split(text, self.split_by), self.max_steps)
        steps = tuple(text[a:b] for a, b in spans)
        ids = None if token_ids is None else tuple(token_ids)
        return Rollout(problem, steps, gold=gold, text=text, spans=tuple(spans), token_ids=ids)

    def score(self, rollouts: Sequence[Rollout]) -> list[Reward]:
        """One reward a rollout, in order, by the deadline."""
        stop = time.monotonic() + self.deadline_s
        chunks = [list(rollouts[i : i + self.batch_size]) for i in range(0, len(rollouts), self.batch_size)]
        results = _run_bounded(functools.partial(self._score_chunk, stop=stop), chunks, stop, self.workers)
        rewards: list[Reward] = []
        for chunk, result in zip(chunks, results, strict=True):
            rewards += result if result is not None else [Reward(None, None, None, "timeout")] * len(chunk)
        return rewards

    def _score_chunk(self, chunk: Sequence[Rollout], stop: float) -> list[Reward]:
        try:
            outcomes = self._scores(self.outcome, chunk, stop)
            processes = self._scores(self.process, chunk, stop)
            return [self._combine(o, p) for o, p in zip(outcomes, processes, strict=True)]
        except Exception as error:  # a scorer that breaks its contract costs its chunk, with a reason
            return [Reward(None, None, None, f"internal: {type(error).__name__}: {error}"[:200])] * len(chunk)

    @staticmethod
    def _scores(scorer: str | Scorer | None, chunk: Sequence[Rollout], stop: float) -> Sequence[StepScores | None]:
        if scorer is None:
            return [None] * len(chunk)
        scorer = shared_scorer(scorer) if isinstance(scorer, str) else scorer
        return scorer.score_batch(chunk, deadline_s=max(0.0, stop - time.monotonic()))

    def _combine(self, outcome: StepScores | None, process: StepScores | None) -> Reward:
        judged = None if outcome is None else outcome.aggregate("last")
        shaped = None if process is None else process.aggregate(self.aggregate)
        needed = process if outcome is None else outcome
        assert needed is not None
        if needed.status != "ok":
            return Reward(None, judged, shaped, str(needed.summary.get("reason") or needed.status), process)
        if outcome is None:
            return Reward(shaped, None, shaped, None, process)
        assert judged is not None
        return Reward(judged + self.alpha * (shaped or 0.0), judged, shaped, None, process)


_stuck: set[threading.Thread] = set()  # threads that outlived the deadline of their batch


def _run_bounded(
    work: Callable[[Any], list[Reward]], chunks: Sequence[Any], stop: float, workers: int
) -> list[list[Reward] | None]:
    """``work`` of each chunk in daemon threads; None for what is not done by ``stop``.

    A thread whose chunk takes over an eighth of the time left is given a replacement, so that hanging items hold up
    nobody else; a process loses at most ``MAX_STUCK`` threads to scorers that never return.
    """
    results: list[list[Reward] | None] = [None] * len(chunks)
    _stuck.difference_update([thread for thread in _stuck if not thread.is_alive()])
    if len(_stuck) >= MAX_STUCK:
        return results
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for index in range(len(chunks)):
        waiting.put(index)
    done: queue.SimpleQueue[tuple[int, list[Reward]]] = queue.SimpleQueue()
    begun: dict[int, float] = {}
    closed = threading.Event()

    def run() -> None:
        while not closed.is_set():
            try:
                index = waiting.get_nowait()
            except queue.Empty:
                return
            begun[index] = time.monotonic()
            done.put((index, work(chunks[index])))

    threads: list[threading.Thread] = []

    def start_thread() -> None:
        threads.append(threading.Thread(target=run, daemon=True, name="stepgauge-reward"))
        threads[-1].start()

    patience = max(0.05, (stop - time.monotonic()) / 8)
    replaced: set[int] = set()
    for _ in range(min(workers, len(chunks))):
        start_thread()
    left = len(chunks)
    while left and (now := time.monotonic()) < stop:
        try:
            index, result = done.get(timeout=min(stop - now, patience / 2))
            results[index] = result
            begun.pop(index, None)
            left -= 1
        except queue.Empty:
            for index, start in list(begun.items()):
                if results[index] is None and time.monotonic() - start > patience and index not in replaced:
                    replaced.add(index)
                    start_thread()
    closed.set()
    if left:
        _stuck.update(thread for thread in threads if thread.is_alive())
    return results
