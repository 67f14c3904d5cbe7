"""``word_problems``: a small learned process reward model that ships with the package; no download, no torch."""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, ClassVar

from stepgauge import __version__
from stepgauge.prm.step_features import FEATURES, step_features
from stepgauge.scoring import Progress, Rollout, Scorer, StepScores, score_each
from stepgauge.verifiers.step_arithmetic import step_claims

if TYPE_CHECKING:
    from numpy import ndarray

    Array = ndarray[Any, Any]

__all__ = ["Trees", "WordProblemPRM"]

WEIGHTS = "word_problems.safetensors"


@dataclass(frozen=True, slots=True, eq=False)
class Trees:
    """Boosted regression trees, all nodes in one row: the log-odds are ``bias`` and one leaf of each tree.

    ``feature`` (N,): which feature a node asks about, -1 at a leaf. ``threshold`` (N,): at most that goes ``left``,
    more goes ``right``; both (N,) are node numbers. ``value`` (N,): of a leaf, nats. ``roots`` (T,): where each starts.
    """

    feature: Array
    threshold: Array
    left: Array
    right: Array
    value: Array
    roots: Array
    bias: float

    def log_odds(self, rows: Sequence[Sequence[float]]) -> list[float]:
        """Log-odds of each row of features, nats."""
        import numpy as np

        x = np.asarray(rows, dtype=np.float64)  # (R, F)
        at = np.tile(self.roots, (len(x), 1))  # (R, T): the node each tree has reached
        while (asked := self.feature[at]).max(initial=-1) >= 0:
            below = np.take_along_axis(x, np.maximum(asked, 0), 1) <= self.threshold[at]
            at = np.where(asked < 0, at, np.where(below, self.left[at], self.right[at]))
        return [float(odds) for odds in self.bias + self.value[at].sum(1)]


@cache
def _weights() -> bytes:
    return files("stepgauge.prm").joinpath(WEIGHTS).read_bytes()


def _load() -> Trees:
    from safetensors.numpy import load

    found = load(_weights())
    names = bytes(found.pop("names")).decode().split()
    if tuple(names) != FEATURES:
        raise ValueError(f"{WEIGHTS} was trained on other features; train it again with examples/word_problem_prm")
    bias = float(found.pop("bias")[0])
    return Trees(**found, bias=bias)


class WordProblemPRM(Scorer):
    """Chance that the solution is right so far, from what each step shows on its face; learned from step labels.

    Boosted trees over ``stepgauge.prm.step_features``: which sums hold, where numbers come from, which numbers of the
    problem are still unused, what the answer is. It was trained on word problems of grade-school arithmetic and knows
    nothing else; docs/word_problems.md says how, and how good it is. ``details`` of a step hold ``log_odds`` (nats) and
    ``false_claims`` where an equality it states does not hold.

    Example:
        >>> problem = "Ann has 3 bags of 4 nuts and eats 2 nuts. How many nuts are left?"
        >>> right = WordProblemPRM().score(["3 * 4 = 12.", "12 - 2 = 10.", "The answer is 10."], problem=problem)
        >>> wrong = WordProblemPRM().score(["3 * 4 = 12.", "The answer is 12."], problem=problem)
        >>> right.aggregate() > 0.5 > wrong.aggregate()
        True

    References: the idea of verifiers over candidate solutions: Cobbe et al. 2021, https://arxiv.org/abs/2110.14168.
    """

    name = "word_problems"
    kind = "value"

    _lock: ClassVar[threading.Lock] = threading.Lock()
    _trees: ClassVar[Trees | None] = None

    @property
    def fingerprint(self) -> str:
        """Digest of the weights and the version."""
        return hashlib.blake2b(_weights() + __version__.encode(), digest_size=16).hexdigest()

    def score_batch(
        self, rollouts: Sequence[Rollout], *, deadline_s: float | None = None, progress: Progress | None = None
    ) -> list[StepScores]:
        """See ``Scorer.score_batch``."""
        return score_each(self._judge, rollouts, kind=self.kind, deadline_s=deadline_s, progress=progress)

    @classmethod
    def _model(cls) -> Trees:
        with cls._lock:
            if cls._trees is None:
                cls._trees = _load()
            return cls._trees

    def _judge(self, rollout: Rollout) -> StepScores:
        rows = step_features(rollout.problem, rollout.steps)
        read = [row for row in rows if row is not None]
        if not read:
            return StepScores.abstain(len(rows), self.kind, "too_large" if rows else "no_claim")
        found = iter(self._model().log_odds(read))
        odds = [None if row is None else next(found) for row in rows]
        details = []
        for step, row, one in zip(rollout.steps, rows, odds, strict=True):
            detail: dict[str, Any] = {} if one is None else {"log_odds": one}
            if row is not None and row[FEATURES.index("false")]:
                detail["false_claims"] = [claim.text for claim in step_claims(step) if claim.holds is False]
            details.append(detail)
        return StepScores(
            tuple(None if one is None else 1 / (1 + math.exp(-one)) for one in odds),
            self.kind,
            "ok",
            tuple("too_large" if one is None else None for one in odds),
            details=tuple(details),
        )
