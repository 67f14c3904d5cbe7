"""Scoring a rollout as it grows: each new step costs its own tokens, and branches share their beginning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stepgauge.prm.checkpoint import Found, _Loaded, _read, _step_scores
from stepgauge.prm.layouts import PassLayout
from stepgauge.prm.prefixes import Prefix, grow
from stepgauge.scoring import Rollout, Scorer, Session, StepScores

if TYPE_CHECKING:
    from stepgauge.prm.checkpoint import MCPRM

__all__ = ["PrefixSession", "extend_all"]


class PrefixSession(Session):
    """A session that keeps keys and values. Its scores are those of scoring from scratch.

    Where that cannot be (a family that reads one sequence a step, a rollout beyond the context, a failure), it scores
    from scratch as the base class does.

    Example:
        >>> session = prm.open(Rollout("What is 2 + 2?", ()))  # doctest: +SKIP
        >>> branch = session.fork()  # doctest: +SKIP
        >>> prm.extend_batch([session, branch], ["2 + 2 = 4.", "2 + 2 = 5."])  # doctest: +SKIP
    """

    prefix: Prefix | None = None  # None before the first step, and where scoring starts from scratch
    found: tuple[Found, ...] = ()
    from_scratch = False

    def fork(self) -> PrefixSession:
        branch = PrefixSession(self.scorer, self.rollout)
        branch.prefix, branch.found, branch.from_scratch = self.prefix, self.found, self.from_scratch
        return branch

    def close(self) -> None:
        self.prefix, self.from_scratch = None, True


def extend_all(scorer: MCPRM, sessions: Sequence[Session], steps: Sequence[str]) -> list[StepScores]:
    """``Scorer.extend_batch`` for sessions with a prefix; one forward pass for all of them."""
    if not len(sessions) == len(steps) == len({id(session) for session in sessions}):
        return Scorer.extend_batch(scorer, sessions, steps)  # which says what is wrong
    results: dict[int, StepScores] = {}
    for indices in _batches(scorer, sessions, steps):
        try:
            results |= _extend(scorer._load(), {index: (sessions[index], steps[index]) for index in indices})
        except Exception:  # scoring from scratch finds the reason, or gets through
            for index in indices:
                session = sessions[index]
                assert isinstance(session, PrefixSession)
                session.close()
    rest = [index for index in range(len(steps)) if index not in results]
    scratch = Scorer.extend_batch(scorer, [sessions[index] for index in rest], [steps[index] for index in rest])
    results |= dict(zip(rest, scratch, strict=True))
    return [results[index] for index in range(len(steps))]


def _batches(scorer: MCPRM, sessions: Sequence[Session], steps: Sequence[str]) -> list[list[int]]:
    """Sessions that keep their prefix, at most ``max_tokens`` characters of new steps at a time."""
    batches: list[list[int]] = []
    size = 0
    for index, (session, step) in enumerate(zip(sessions, steps, strict=True)):
        if not isinstance(session, PrefixSession) or session.from_scratch:
            continue
        if not batches or size + len(step) > scorer.max_tokens:
            batches.append([])
            size = 0
        batches[-1].append(index)
        size += len(step)
    return batches


def _extend(loaded: _Loaded, grown: dict[int, tuple[Any, str]]) -> dict[int, StepScores]:
    """Scores of the sessions that could be grown by a step; sessions that could not are left to be scored anew."""
    import torch

    layout = loaded.layout
    if isinstance(layout, PassLayout):
        return {}
    _begin(loaded, [session for session, _ in grown.values()])
    branches: dict[int, list[int]] = {}
    for index, (session, step) in grown.items():
        before = len(session.rollout.steps)
        if len(session.found) == before:
            ids = layout.step(session.rollout.problem, step, before, first=before == 0)
            start = 0 if session.prefix is None else session.prefix.length
            if ids and start + len(ids) <= loaded.context and max(ids) < loaded.vocabulary:
                branches[index] = ids
                continue
        session.close()  # cannot keep its prefix any longer
    if not branches:
        return {}
    found = grow(loaded.body, [(grown[index][0].prefix, ids) for index, ids in branches.items()])
    pairs = _read(loaded, torch.stack([state for _, state in found]))
    results = {}
    for index, (prefix, _), pair in zip(branches, found, pairs, strict=True):
        session, step = grown[index]
        session.found = (*session.found, (*pair, (prefix.length - len(branches[index]), prefix.length)))
        session.prefix = prefix
        rollout: Rollout = session.rollout
        session.rollout = replace(rollout, steps=(*rollout.steps, step), text=None, spans=(), token_ids=None)
        results[index] = _step_scores(loaded, len(session.found), dict(enumerate(session.found)), {})
    return results


def _begin(loaded: _Loaded, sessions: Sequence[PrefixSession]) -> None:
    """Run what comes before the first new step, once for all sessions that begin alike."""
    begun: dict[tuple[str, tuple[str, ...]], tuple[Prefix | None, tuple[Found, ...]]] = {}
    for session in sessions:
        if session.prefix is not None or session.from_scratch:
            continue
        rollout = session.rollout
        key = (rollout.problem, rollout.steps)
        if key not in begun:
            begun[key] = _start(loaded, rollout)
        session.prefix, session.found = begun[key]


def _start(loaded: _Loaded, rollout: Rollout) -> tuple[Prefix | None, tuple[Found, ...]]:
    import torch

    layout = loaded.layout
    assert not isinstance(layout, PassLayout)
    pieces = [layout.prompt(rollout.problem)]
    pieces += [layout.step(rollout.problem, step, k, first=k == 0) for k, step in enumerate(rollout.steps)]
    if sum(map(len, pieces)) > loaded.context or not all(pieces[1:]):
        return None, ()
    prefix: Prefix | None = None
    found: list[Found] = []
    for index, ids in enumerate(pieces):
        if not ids:
            continue
        ((prefix, state),) = grow(loaded.body, [(prefix, ids)])
        if index:
            ((score, odds),) = _read(loaded, torch.stack([state]))
            found.append((score, odds, (prefix.length - len(ids), prefix.length)))
    return prefix, tuple(found)
