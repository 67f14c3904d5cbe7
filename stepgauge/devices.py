"""One copy of a scorer on each device, each with a worker thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from stepgauge.scoring import Kind, Progress, Rollout, Scorer, Session, StepScores

__all__ = ["OverDevices", "deal"]


def deal(problems: Sequence[str], sizes: Sequence[int], hands: int) -> list[list[int]]:
    """Indices for each of ``hands`` workers: equal work, and what has the same problem stays together where it can.

    A problem with more than an equal share of the work is cut. Every index is dealt once.

    Args:
        problems: (N,) what shares a beginning. sizes: (N,) the work of each, in any unit.

    Example:
        >>> deal(["a", "b", "a", "c"], [5, 4, 5, 6], 2)
        [[0, 2], [3, 1]]
    """
    share = sum(sizes) / hands
    pieces: list[tuple[int, list[int]]] = []  # (work, indices)
    latest: dict[str, int] = {}  # the piece that a problem's next index goes to
    for index, (problem, size) in enumerate(zip(problems, sizes, strict=True)):
        at = latest.get(problem)
        if at is None or pieces[at][0] + size > share:
            at = latest[problem] = len(pieces)
            pieces.append((0, []))
        pieces[at] = pieces[at][0] + size, [*pieces[at][1], index]
    dealt: list[list[int]] = [[] for _ in range(hands)]
    load = [0] * hands
    for work, indices in sorted(pieces, key=lambda piece: -piece[0]):
        hand = load.index(min(load))
        dealt[hand] += indices
        load[hand] += work
    return dealt


class OverDevices(Scorer):
    """Deals rollouts to copies of a scorer that work at the same time, such as a model on each of several GPUs.

    ``load(spec, device="cuda:0,cuda:1")`` makes one. Results, order and fingerprint are those of a single copy; a
    session stays on the device it was opened on.

    Args:
        scorers: the copies.

    Raises:
        ValueError: none given.

    Example:
        >>> from stepgauge import load
        >>> both = OverDevices([load("arithmetic"), load("arithmetic")])
        >>> both.score(["2 + 2 = 4", "4 * 2 = 9"]).values
        (1.0, 0.0)
    """

    _turn: int = 0

    def __init__(self, scorers: Sequence[Scorer]) -> None:
        if not scorers:
            raise ValueError("OverDevices(scorers) needs at least one scorer, got none")
        self.scorers = tuple(scorers)

    @property
    def name(self) -> str:  # type: ignore[override]
        """That of the copies."""
        return self.scorers[0].name

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        """That of the copies."""
        return self.scorers[0].kind

    @property
    def fingerprint(self) -> str:
        """That of a single copy: the device's number changes no score."""
        return self.scorers[0].fingerprint

    def score_batch(
        self, rollouts: Sequence[Rollout], *, deadline_s: float | None = None, progress: Progress | None = None
    ) -> list[StepScores]:
        """See ``Scorer.score_batch``."""
        if len(self.scorers) == 1 or not all(isinstance(rollout, Rollout) for rollout in rollouts):
            return self.scorers[0].score_batch(rollouts, deadline_s=deadline_s, progress=progress)
        sizes = [len(rollout.problem) + sum(map(len, rollout.steps)) for rollout in rollouts]
        dealt = deal([rollout.problem for rollout in rollouts], sizes, len(self.scorers))
        lock = threading.Lock()

        def report(finished: int) -> None:
            if progress is not None:
                with lock:
                    progress(finished)

        def work(scorer: Scorer, indices: Sequence[int]) -> list[StepScores]:
            chosen = [rollouts[index] for index in indices]
            return scorer.score_batch(chosen, deadline_s=deadline_s, progress=report) if chosen else []

        with ThreadPoolExecutor(len(self.scorers)) as workers:
            return _in_order(dealt, list(workers.map(work, self.scorers, dealt)))

    def open(self, prefix: Rollout) -> Session:
        """A session on the next device."""
        self._turn += 1
        return self.scorers[self._turn % len(self.scorers)].open(prefix)

    def extend_batch(self, sessions: Sequence[Session], steps: Sequence[str]) -> list[StepScores]:
        """See ``Scorer.extend_batch``; each device extends its own sessions."""
        if not len(sessions) == len(steps) == len({id(session) for session in sessions}):
            return super().extend_batch(sessions, steps)  # which says what is wrong
        own: dict[int, list[int]] = {}
        for index, session in enumerate(sessions):
            own.setdefault(id(session.scorer), []).append(index)

        def work(indices: Sequence[int]) -> list[StepScores]:
            scorer = sessions[indices[0]].scorer
            return scorer.extend_batch([sessions[index] for index in indices], [steps[index] for index in indices])

        with ThreadPoolExecutor(len(self.scorers)) as workers:
            return _in_order(own.values(), list(workers.map(work, own.values())))

    def close(self) -> None:
        for scorer in self.scorers:
            scorer.close()


def _in_order(shares: Iterable[Sequence[int]], results: Iterable[Sequence[StepScores]]) -> list[StepScores]:
    """The results of all shares by the indices they belong to."""
    pairs = [pair for share, some in zip(shares, results, strict=True) for pair in zip(share, some, strict=True)]
    scores = dict(pairs)
    return [scores[index] for index in range(len(scores))]
