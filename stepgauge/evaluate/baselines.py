"""The floor that every scorer must beat: random scores."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from stepgauge.scoring import Kind, Progress, Rollout, Scorer, StepScores, score_each

__all__ = ["RandomScorer"]


class RandomScorer(Scorer):
    """A uniform number in [0, 1) for each step, the same each time: it depends on the text so far and the seed.

    Example:
        >>> RandomScorer().score(["a", "b"]).values == RandomScorer().score(["a", "b"]).values
        True
        >>> RandomScorer().score(["a"]).values == RandomScorer(seed=1).score(["a"]).values
        False
    """

    name = "random"
    kind: Kind = "correctness"

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def score_batch(
        self, rollouts: Sequence[Rollout], *, deadline_s: float | None = None, progress: Progress | None = None
    ) -> list[StepScores]:
        """See ``Scorer.score_batch``."""
        return score_each(self._judge, rollouts, kind=self.kind, deadline_s=deadline_s, progress=progress)

    def _judge(self, rollout: Rollout) -> StepScores:
        if not rollout.steps:
            return StepScores.abstain(0, self.kind, "no_claim")
        state = hashlib.blake2b(f"{self.seed}".encode(), digest_size=8)
        values = []
        for part in (rollout.problem, *rollout.steps):
            content = part.encode("utf-8", "surrogatepass")
            state.update(len(content).to_bytes(8, "big") + content)
            values.append((int.from_bytes(state.digest(), "big") >> 11) / 2**53)
        return StepScores(tuple(values[1:]), self.kind)
