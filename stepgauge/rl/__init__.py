"""Scores as rewards for RL: credit per token, and one thin adapter a framework. Importing this imports no framework."""

from stepgauge.rl.reward import Reward, RolloutReward, shared_scorer

__all__ = ["Reward", "RolloutReward", "shared_scorer"]
