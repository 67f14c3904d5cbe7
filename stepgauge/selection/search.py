"""Search with a scorer in the loop: beam search and diverse verifier tree search (DVTS) over steps.

The generator is a callback that proposes next steps; the scorer's sessions grow with the beams, so that a scorer on a
language model keeps its cache. Which children live on is decided by ``beam_select`` and ``dvts_select``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from stepgauge.scoring import Rollout, Scorer, Session, StepScores

__all__ = ["Beam", "NextStep", "Propose", "SearchResult", "beam_search", "beam_select", "dvts", "dvts_select"]


Stopped = Literal["finished", "depth", "tokens", "early", "stuck"]


@dataclass(frozen=True, slots=True)
class NextStep:
    """One proposed step: its text, the tokens it cost, and whether the solution ends with it."""

    text: str
    tokens: int = 0
    done: bool = False


# (prefixes, n, seed) -> for each prefix, n proposed next steps (fewer, or none, where it cannot go on). Equal prefixes
# are to get independent draws.
Propose = Callable[[Sequence[Rollout], int, int], Sequence[Sequence[NextStep]]]


@dataclass(frozen=True, slots=True)
class Beam:
    """A solution found by a search: its step scores, their aggregate, whether it is finished, and its own tokens."""

    rollout: Rollout
    scores: StepScores
    score: float | None
    done: bool
    tokens: int = 0
    tree: int = 0  # which tree of DVTS it belongs to


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a search found and what it cost.

    ``beams``: finished solutions in the order found, then those cut off. ``tokens`` counts every proposed step, also
    those thrown away. ``rounds``: calls of the generator. ``stopped``: "finished", "depth", "tokens", "early" (the
    caller's rule) or "stuck" (the generator proposed nothing).
    """

    beams: tuple[Beam, ...]
    tokens: int
    rounds: int
    stopped: Stopped

    @property
    def best(self) -> Beam | None:
        """The best-scored finished beam, the first of equals; without any, the best of those cut off."""
        return max(self.beams, key=lambda beam: (beam.done, _rank(beam.score)), default=None)


def _rank(score: float | None) -> float:
    return -math.inf if score is None else score


def _check_scores(child_scores: Sequence[Sequence[float | None]]) -> None:
    for beam, scores in enumerate(child_scores):
        for child, score in enumerate(scores):
            if score is not None and math.isnan(score):
                raise ValueError(f"child_scores[{beam}][{child}] is NaN; use None for a child that was not scored")


def beam_select(child_scores: Sequence[Sequence[float | None]], keep: int) -> list[tuple[int, int]]:
    """The best ``keep`` children of all beams together, best first.

    Args:
        child_scores: (beams, children), ragged; None = not scored, below every number.
        keep: how many; more than there are keeps all. Ties go to the earlier beam, then the earlier child.

    Returns:
        Pairs (beam, child).

    Raises:
        ValueError: keep < 1, or a NaN score.

    Example:
        >>> beam_select([[0.9, 0.85], [0.3, 0.4]], 2)
        [(0, 0), (0, 1)]

    References:
        Snell et al. 2024, arXiv:2408.03314 (beam search against a PRM).
    """
    if keep < 1:
        raise ValueError(f"beam_select keep must be at least 1, got {keep}")
    _check_scores(child_scores)
    pairs = [(beam, child) for beam, scores in enumerate(child_scores) for child in range(len(scores))]
    return sorted(pairs, key=lambda pair: -_rank(child_scores[pair[0]][pair[1]]))[:keep]


def dvts_select(child_scores: Sequence[Sequence[float | None]]) -> list[tuple[int, int]]:
    """The best child of each beam, in the order of the beams: no beam can crowd out another.

    Args:
        child_scores: as in ``beam_select``; a beam without children is left out.

    Returns:
        Pairs (beam, child).

    Raises:
        ValueError: a NaN score.

    Example:
        >>> dvts_select([[0.9, 0.85], [0.3, 0.4]])
        [(0, 0), (1, 1)]

    References:
        Beeching et al. 2024, Scaling test-time compute with open models (DVTS).
    """
    _check_scores(child_scores)
    return [
        (beam, max(range(len(scores)), key=lambda child: _rank(scores[child])))
        for beam, scores in enumerate(child_scores)
        if scores
    ]


def beam_search(
    start: Rollout,
    propose: Propose,
    scorer: Scorer,
    *,
    n: int = 16,
    width: int = 4,
    depth: int = 40,
    how: str | None = None,
    seed: int = 0,
    max_tokens: int | None = None,
    stop: Callable[[Sequence[Beam]], bool] | None = None,
) -> SearchResult:
    """Beam search: of all children of all beams the best n / width live on, and each is given ``width`` children.

    A child that ends its solution is kept and no longer competes. The search ends with n or more finished solutions, at
    ``depth``, at ``max_tokens``, or when ``stop`` says so. Deterministic where the generator and scorer are.

    Args:
        start: the problem, and the steps written so far.
        propose: see ``Propose``; its seed is different in every round.
        scorer: judges the steps so far; for a PRM of kind "value" the last step counts.
        n: solutions to find; a multiple of width. width: children of a beam.
        depth: rounds at most, a step each. how: aggregate of the step scores; default that of the scorer's kind.
        seed: handed on to the generator.
        max_tokens: no further round once so many tokens were proposed.
        stop: looks at the finished solutions after each round; True ends the search.

    Raises:
        ValueError: counts below 1, n that is no multiple of width, or a generator that answers for another number of
            prefixes or proposes more than was asked for.

    Example:
        >>> from stepgauge import load
        >>> def propose(prefixes, n, seed):
        ...     return [[NextStep(f"{i} + 1 = 3", tokens=5, done=True) for i in range(n)] for _ in prefixes]
        >>> result = beam_search(Rollout("?", ()), propose, load("arithmetic"), n=4, width=2)
        >>> result.best.rollout.steps, result.tokens
        (('2 + 1 = 3',), 20)

    References:
        Snell et al. 2024, arXiv:2408.03314.
    """
    _check_counts(n=n, width=width, depth=depth)

    def survivors(groups: Sequence[Sequence[_Live]]) -> list[_Live]:
        children = [child for group in groups for child in group]
        live = [child for child in children if not child.done]
        kept = [live[at] for _, at in beam_select([[child.score for child in live]], n // width)]
        return [child for child in children if child.done] + kept

    search = _Search(propose, scorer, survivors, how, seed, depth, max_tokens, stop)
    return search.run([start], first_width=n, width=width, enough=n)


def dvts(
    start: Rollout,
    propose: Propose,
    scorer: Scorer,
    *,
    n: int = 16,
    width: int = 4,
    depth: int = 40,
    how: str | None = None,
    seed: int = 0,
    max_tokens: int | None = None,
    stop: Callable[[Sequence[Beam]], bool] | None = None,
) -> SearchResult:
    """Diverse verifier tree search: n / width independent trees, each follows its best child greedily.

    In every round each tree is given ``width`` children and keeps the best, finished or not; the tree is done when the
    child it keeps is. Gives at most n / width solutions. With width 1 this is best-of-n: n independent samples.

    Args:
        start, propose, scorer, n, width, depth, how, seed, max_tokens, stop: as in ``beam_search``.

    Raises:
        ValueError: as in ``beam_search``.

    Example:
        >>> from stepgauge import load
        >>> def propose(prefixes, n, seed):
        ...     return [[NextStep(f"{i} + 1 = 3", done=True) for i in range(n)] for _ in prefixes]
        >>> result = dvts(Rollout("?", ()), propose, load("arithmetic"), n=8, width=4)
        >>> [beam.rollout.steps for beam in result.beams]
        [('2 + 1 = 3',), ('2 + 1 = 3',)]

    References:
        Beeching et al. 2024, Scaling test-time compute with open models.
    """
    _check_counts(n=n, width=width, depth=depth)

    def survivors(groups: Sequence[Sequence[_Live]]) -> list[_Live]:
        return [groups[tree][child] for tree, child in dvts_select([[c.score for c in group] for group in groups])]

    trees = n // width
    search = _Search(propose, scorer, survivors, how, seed, depth, max_tokens, stop)
    return search.run([start] * trees, first_width=width, width=width, enough=trees)


def _check_counts(*, n: int, width: int, depth: int) -> None:
    for name, value in (("n", n), ("width", width), ("depth", depth)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    if n % width:
        raise ValueError(
            f"n must be a multiple of width, got n={n}, width={width}; for example n={n - n % width + width}"
        )


@dataclass(slots=True)
class _Live:
    """A beam that is being written."""

    session: Session
    tree: int
    tokens: int = 0
    done: bool = False
    scores: StepScores | None = None
    score: float | None = None


def _frozen(beams: Sequence[_Live]) -> list[Beam]:
    """As results; a beam to which no step was added is none."""
    return [
        Beam(beam.session.rollout, beam.scores, beam.score, beam.done, beam.tokens, beam.tree)
        for beam in beams
        if beam.scores is not None
    ]


@dataclass(slots=True)
class _Search:
    """What both searches share; ``survivors`` says which children, grouped by parent, live on."""

    propose: Propose
    scorer: Scorer
    survivors: Callable[[Sequence[Sequence[_Live]]], list[_Live]]
    how: str | None
    seed: int
    depth: int
    max_tokens: int | None
    stop: Callable[[Sequence[Beam]], bool] | None
    tokens: int = 0
    rounds: int = 0
    sessions: list[Session] = field(default_factory=list)  # those that are open

    def run(self, starts: Sequence[Rollout], *, first_width: int, width: int, enough: int) -> SearchResult:
        finished: list[Beam] = []
        cut: list[Beam] = []
        stopped: Stopped | None = None
        try:
            live = [_Live(self._opened(self.scorer.open(start)), tree) for tree, start in enumerate(starts)]
            while stopped is None:
                groups = self._grow(live, width if self.rounds else first_width)
                cut += _frozen([parent for parent, group in zip(live, groups, strict=True) if not group])
                kept = self.survivors(groups)
                finished += _frozen([child for child in kept if child.done])
                live = [child for child in kept if not child.done]
                self._close_all_but(live)
                stopped = self._stopped(finished, bool(live), enough)
        finally:
            self._close_all_but([])
        return SearchResult((*finished, *cut, *_frozen(live)), self.tokens, self.rounds, stopped)

    def _stopped(self, finished: Sequence[Beam], alive: bool, enough: int) -> Stopped | None:
        if len(finished) >= enough or not alive:
            return "finished" if finished else "stuck"
        if self.stop is not None and self.stop(finished):
            return "early"
        if self.max_tokens is not None and self.tokens >= self.max_tokens:
            return "tokens"
        return "depth" if self.rounds == self.depth else None

    def _grow(self, live: Sequence[_Live], width: int) -> list[list[_Live]]:
        """The scored children of each beam."""
        seed = int(np.random.SeedSequence([self.seed, self.rounds]).generate_state(1)[0])
        proposed = self.propose([beam.session.rollout for beam in live], width, seed)
        self.rounds += 1
        if len(proposed) != len(live) or any(len(steps) > width for steps in proposed):
            raise ValueError(
                f"propose was given {len(live)} prefixes and asked for {width} steps each; "
                f"got {[len(steps) for steps in proposed]}"
            )
        groups = [
            [
                _Live(self._opened(beam.session.fork()), beam.tree, beam.tokens + step.tokens, step.done)
                for step in steps
            ]
            for beam, steps in zip(live, proposed, strict=True)
        ]
        children = [child for group in groups for child in group]
        steps = [step for group in proposed for step in group]
        self.tokens += sum(step.tokens for step in steps)
        scored = self.scorer.extend_batch([child.session for child in children], [step.text for step in steps])
        for child, scores in zip(children, scored, strict=True):
            child.scores, child.score = scores, scores.aggregate(self.how)
        return groups

    def _opened(self, session: Session) -> Session:
        self.sessions.append(session)
        return session

    def _close_all_but(self, live: Sequence[_Live]) -> None:
        staying = {id(beam.session) for beam in live}
        for session in self.sessions:
            if id(session) not in staying:
                session.close()
        self.sessions = [beam.session for beam in live]
