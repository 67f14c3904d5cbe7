"""Losses that train process reward models."""

from stepgauge.prm.training.losses import (
    CriticLoss,
    critic_rm_loss,
    implicit_ce_loss,
    implicit_dpo_loss,
    ppm_pairwise_loss,
)

__all__ = ["CriticLoss", "critic_rm_loss", "implicit_ce_loss", "implicit_dpo_loss", "ppm_pairwise_loss"]
