"""The ``math`` scorer: is the final answer the gold answer?"""

from __future__ import annotations

from collections.abc import Sequence

from stepgauge.scoring import Progress, Reason, Rollout, Scorer, StepScores, score_each
from stepgauge.verifiers.answers import verify_response

__all__ = ["MathScorer"]

_UNCLAIMED: tuple[Reason, ...] = ("no_claim",)
_REASONS: dict[str, Reason] = {"undecided": "undecided", "invalid": "unparsed"}


class MathScorer(Scorer):
    """Outcome verifier: 1 or 0 on the last step, None on the others.

    Abstains without a gold answer, and where the verdict is not certain: an answer that could not be read is not
    called wrong. ``summary`` holds the verdict, its reason and the rule that decided.

    Example:
        >>> MathScorer().score(["2 * 7 = 14.", "The answer is 14."], gold="14").values
        (None, 1.0)
    """

    name = "math"
    kind = "correctness"

    def score_batch(
        self, rollouts: Sequence[Rollout], *, deadline_s: float | None = None, progress: Progress | None = None
    ) -> list[StepScores]:
        """See ``Scorer.score_batch``."""
        return score_each(self._judge, rollouts, kind="correctness", deadline_s=deadline_s, progress=progress)

    def _judge(self, rollout: Rollout) -> StepScores:
        n_steps = len(rollout.steps)
        if rollout.gold is None:
            return StepScores.abstain(n_steps, "correctness", "no_gold")
        if n_steps == 0:
            return StepScores.abstain(n_steps, "correctness", "no_claim")
        earlier = _UNCLAIMED * (n_steps - 1)
        verdict = verify_response(rollout.gold, rollout.response)
        summary = {"verdict": verdict.verdict, "reason": verdict.reason, "rung": verdict.rung}
        if verdict.verdict in _REASONS:
            unsure = (*earlier, _REASONS[verdict.verdict])
            return StepScores((None,) * n_steps, "correctness", "abstain", unsure, summary=summary)
        values = (*(None for _ in earlier), float(verdict.equal))
        return StepScores(values, "correctness", "ok", (*earlier, None), summary=summary)
