"""A scorer of your own: one class, one method, and the interface's tests on it.

    python examples/own_scorer.py

To make ``load("short-steps")`` find it, name it in your package's pyproject.toml:

    [project.entry-points."stepgauge.scorers"]
    short-steps = "your_package:ShortSteps"
"""

from stepgauge import Scorer, StepScores
from stepgauge.data import bundled
from stepgauge.scoring import score_each
from stepgauge.selection import rerank
from stepgauge.testing import check_scorer


class ShortSteps(Scorer):
    """Prefers short steps: 1 for an empty one, 1/2 at ``scale`` characters."""

    name = "short-steps"
    kind = "value"

    def __init__(self, scale=80):
        self.scale = scale

    def score_batch(self, rollouts, *, deadline_s=None, progress=None):
        return score_each(self._judge, rollouts, kind=self.kind, deadline_s=deadline_s, progress=progress)

    def _judge(self, rollout):
        if not rollout.steps:
            return StepScores.abstain(0, self.kind, "no_claim")
        return StepScores(tuple(self.scale / (self.scale + len(step)) for step in rollout.steps), self.kind)


if __name__ == "__main__":
    check_scorer(ShortSteps())
    for rule in rerank(bundled(), {"short-steps": ShortSteps()}).rules:
        print(f"{rule.name:30} {rule.scorer:12} {rule.accuracy.mean:.3f}")
