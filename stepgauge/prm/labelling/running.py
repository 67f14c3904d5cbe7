"""Labels of many solutions: a strategy, a generator, a verifier and a journal at work."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from stepgauge.generation import Generator
from stepgauge.prm.labelling.adaptive import adaptive
from stepgauge.prm.labelling.counts import Draw, SolutionLabels
from stepgauge.prm.labelling.journal import Journal
from stepgauge.prm.labelling.rollouts import PrefixRollouts
from stepgauge.prm.labelling.strategies import binary, uniform
from stepgauge.scoring import Rollout, Scorer

__all__ = ["STRATEGIES", "Progress", "Strategy", "label_solutions"]

Strategy = Callable[[Draw, int], SolutionLabels]
STRATEGIES: dict[str, Callable[..., SolutionLabels]] = {"uniform": uniform, "binary": binary, "adaptive": adaptive}


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands: solutions labelled, completions drawn now and taken from the journal, tokens drawn now."""

    solutions: int
    drawn: int
    reused: int
    tokens: int
    seconds: float

    def left_s(self, total: int) -> float | None:
        """Seconds left at the pace so far, of ``total`` solutions; None before the first is done."""
        return self.seconds / self.solutions * (total - self.solutions) if self.solutions else None


class _Meter:
    def __init__(self, report: Callable[[Progress], None] | None) -> None:
        self.report = report
        self.lock = threading.Lock()
        self.started = time.monotonic()
        self.solutions = self.drawn = self.reused = self.tokens = 0

    def add(self, drawn: int, tokens: int, reused: int, solutions: int = 0) -> None:
        with self.lock:
            self.drawn += drawn
            self.tokens += tokens
            self.reused += reused
            self.solutions += solutions
            if self.report is not None:
                elapsed = time.monotonic() - self.started
                self.report(Progress(self.solutions, self.drawn, self.reused, self.tokens, elapsed))


def label_solutions(
    solutions: Iterable[Rollout],
    generator: Generator,
    *,
    strategy: str = "adaptive",
    verifier: Scorer | None = None,
    journal: Journal | None = None,
    workers: int | None = None,
    progress: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Iterator[tuple[Rollout, SolutionLabels]]:
    """Label solutions in order; a stream in, a stream out.

    Args:
        solutions: rollouts with what the verifier needs (a gold answer, unit tests).
        generator: draws completions.
        strategy: "uniform", "binary" or "adaptive"; ``options`` are its parameters.
        verifier: an outcome scorer; default ``load("math")``.
        journal: where completions are kept; without one a killed run starts anew.
        workers: solutions at once; default 8 where the generator gains from it, else 1. The labels do not depend on it.
        progress: called after every request.

    Raises:
        ValueError: an unknown strategy. TypeError: an option it does not have. ConnectionError: the server is gone;
            what was drawn is in the journal.

    Example:
        >>> from stepgauge.generation import CallableGenerator
        >>> guess = CallableGenerator(lambda prompt, seed: "" if "5" in prompt.prefix else "The answer is 4.")
        >>> solution = Rollout("2 + 2?", ("Adding.", "2 + 2 = 5.", "The answer is 5."), gold="4")
        >>> [labels.first_error for _, labels in label_solutions([solution], guess, strategy="uniform", rollouts=2)]
        [1]
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy must be one of {', '.join(STRATEGIES)}; got {strategy!r}")
    if verifier is None:
        from stepgauge.loading import load

        verifier = load("math")
    kept = Journal(":memory:") if journal is None else journal
    meter = _Meter(progress)
    decide: Strategy = partial(STRATEGIES[strategy], **options)

    def one(rollout: Rollout) -> tuple[Rollout, SolutionLabels]:
        source = PrefixRollouts(rollout, generator, verifier, kept, on_drawn=meter.add)
        labels = decide(source.draw, len(rollout.steps))
        meter.add(0, 0, 0, solutions=1)
        return rollout, labels

    count = workers or (8 if generator.parallel else 1)
    try:
        if count == 1:
            yield from map(one, solutions)
        else:
            with ThreadPoolExecutor(count) as pool:
                yield from _in_order(pool, one, solutions, 2 * count)
    finally:
        if journal is None:
            kept.close()


def _in_order(
    pool: ThreadPoolExecutor,
    one: Callable[[Rollout], tuple[Rollout, SolutionLabels]],
    rollouts: Iterable[Rollout],
    ahead: int,
) -> Iterator[tuple[Rollout, SolutionLabels]]:
    """``pool.map`` that reads at most ``ahead`` items before their turn."""
    waiting: deque[Future[tuple[Rollout, SolutionLabels]]] = deque()
    try:
        for rollout in rollouts:
            waiting.append(pool.submit(one, rollout))
            if len(waiting) >= ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
