"""Search with a scorer in the loop: beam search and diverse verifier tree search (DVTS) over steps.

The generator is a callback that proposes next steps; the scorer's sessions grow with the beams, so that a scorer on a
language model keeps its cache. Which children live on is decided by ``beam_select`` and ``dvts_select``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from stepgauge.scoring import Rollout, Scorer, Session, StepScores

__all__ = ["Beam", "NextStep", "Propose", "SearchResult", "beam_search", "beam_select", "dvts", "dvts_select"]


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
    """A solution found by the search: the rollout, its step scores, their aggregate, and whether it came to its end."""

    rollout: Rollout
    scores: StepScores
    score: float | None
    done: bool
    tree: int = 0  # which subtree of DVTS it belongs to


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
    stopped: Literal["finished", "depth", "tokens", "early", "stuck"]

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

    search = _Search(propose, scorer, survivors, how, seed)
    return search.run([start], n, width, n, depth, max_tokens, stop)


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
    search = _Search(propose, scorer, survivors, how, seed)
    return search.run([start] * trees, width, width, trees, depth, max_tokens, stop)


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
    done: bool = False
    scores: StepScores | None = None
    score: float | None = None

    def freeze(self) -> Beam | None:
        """As a result, its session closed; None where no step was written."""
        self.session.close()
        if self.scores is None:
            return None
        return Beam(self.session.rollout, self.scores, self.score, self.done, self.tree)


@dataclass(slots=True)
class _Search:
    """What both searches share; ``survivors`` says which children, by parent, live on."""

    propose: Propose
    scorer: Scorer
    survivors: Callable[[Sequence[Sequence[_Live]]], list[_Live]]
    how: str | None
    seed: int
    tokens: int = 0
    rounds: int = 0

    def run(
        self,
        starts: Sequence[Rollout],
        first_width: int,
        width: int,
        enough: int,
        depth: int,
        max_tokens: int | None,
        stop: Callable[[Sequence[Beam]], bool] | None,
    ) -> SearchResult:
        live = [_Live(self.scorer.open(start), tree) for tree, start in enumerate(starts)]
        finished: list[Beam] = []
        cut: list[_Live] = []
        stopped: Literal["finished", "depth", "tokens", "early", "stuck"] | None = None
        while stopped is None:
            groups = self._grow(live, width if self.rounds else first_width)
            cut += [parent for parent, group in zip(live, groups, strict=True) if not group]
            kept = self.survivors(groups)
            self._close(live, groups, kept, cut)
            finished += [beam for child in kept if child.done and (beam := child.freeze())]
            live = [child for child in kept if not child.done]
            if len(finished) >= enough or not live:
                stopped = "finished" if finished else "stuck"
            elif stop is not None and stop(finished):
                stopped = "early"
            elif max_tokens is not None and self.tokens >= max_tokens:
                stopped = "tokens"
            elif self.rounds == depth:
                stopped = "depth"
        unfinished = [beam for one in (*cut, *live) if (beam := one.freeze())]
        return SearchResult((*finished, *unfinished), self.tokens, self.rounds, stopped)

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
        steps = [step for group in proposed for step in group]
        self.tokens += sum(step.tokens for step in steps)
        sessions = [beam.session.fork() for beam, group in zip(live, proposed, strict=True) for _ in group]
        scored = iter(zip(sessions, steps, self.scorer.extend_batch(sessions, [s.text for s in steps]), strict=True))
        groups: list[list[_Live]] = []
        for beam, group in zip(live, proposed, strict=True):
            children = []
            for session, step, scores in itertools.islice(scored, len(group)):
                children.append(_Live(session, beam.tree, step.done, scores, scores.aggregate(self.how)))
            groups.append(children)
        return groups

    @staticmethod
    def _close(
        parents: Sequence[_Live], groups: Sequence[Sequence[_Live]], kept: Sequence[_Live], cut: Sequence[_Live]
    ) -> None:
        """Close the sessions of what does not live on."""
        staying = {id(beam) for beam in (*kept, *cut)}
        for beam in (*parents, *(child for group in groups for child in group)):
            if id(beam) not in staying:
                beam.session.close()
