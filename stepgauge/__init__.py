"""stepgauge: score every step of a reasoning trace, whatever the evidence is, by one call: ``score(steps)``."""

__version__ = "0.1.0"

from stepgauge.aggregation import aggregate_steps
from stepgauge.loading import load
from stepgauge.scoring import Rollout, Scorer, Session, StepScores, rollout_key

__all__ = [
    "Rollout",
    "Scorer",
    "Session",
    "StepScores",
    "aggregate_steps",
    "load",
    "rollout_key",
]
