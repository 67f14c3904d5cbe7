"""Losses in logits form, as torch functions: finite for any log-ratio, gradients included."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, softplus

__all__ = ["CriticLoss", "critic_rm_loss", "implicit_ce_loss", "implicit_dpo_loss", "ppm_pairwise_loss"]


def implicit_ce_loss(sum_logratio: Tensor, labels: Tensor, *, beta: float = 0.05) -> Tensor:
    """Cross-entropy that makes a language model an implicit PRM: BCE(beta ln pi/pi_ref of the response, its outcome).

    Args:
        sum_logratio: (B,) sum over the response's tokens of ln pi - ln pi_ref, nats.
        labels: (B,) 1 = right, 0 = wrong (soft labels between).
        beta: scale of the reward.

    Returns:
        (B,) loss of each response, nats.

    Raises:
        ValueError: shapes that differ, beta not above 0.

    Example:
        >>> round(implicit_ce_loss(torch.tensor([4.0]), torch.tensor([1.0])).item(), 4)
        0.5981

    References:
        Yuan et al. 2024, Free Process Rewards without Process Labels, equation 5.
    """
    _check_beta("implicit_ce_loss", beta)
    _check_shapes("implicit_ce_loss", sum_logratio, labels)
    return binary_cross_entropy_with_logits(beta * sum_logratio, labels.to(sum_logratio.dtype), reduction="none")


def implicit_dpo_loss(chosen: Tensor, rejected: Tensor, *, beta: float = 0.05) -> Tensor:
    """DPO: -ln sigmoid(beta (log-ratio of the chosen response - that of the rejected one)).

    Args:
        chosen, rejected: (B,) sums over a response's tokens of ln pi - ln pi_ref, nats.
        beta: scale of the reward.

    Returns:
        (B,) loss of each pair, nats.

    Raises:
        ValueError: shapes that differ, beta not above 0.

    Example:
        >>> round(implicit_dpo_loss(torch.tensor([3.0]), torch.tensor([-1.0])).item(), 4)
        0.5981

    References:
        Rafailov et al. 2023, Direct Preference Optimization, equation 7.
    """
    _check_beta("implicit_dpo_loss", beta)
    _check_shapes("implicit_dpo_loss", chosen, rejected)
    return softplus(-beta * (chosen - rejected))


def ppm_pairwise_loss(positive: Tensor, negative: Tensor) -> Tensor | None:
    """Process preference: mean over all pairs of -ln sigmoid(r+ - r-), of steps that share a prefix.

    Args:
        positive: (P,) rewards of steps with high Q. negative: (N,) of steps with low Q.

    Returns:
        A scalar, nats; None without a pair, since nothing can be learned from it.

    Raises:
        ValueError: rewards that are not one-dimensional.

    Example:
        >>> round(ppm_pairwise_loss(torch.tensor([0.5, 0.2]), torch.tensor([-0.1, 0.3])).item(), 4)
        0.5836

    References:
        Guan et al. 2025, rStar-Math, equation 3.
    """
    if positive.dim() != 1 or negative.dim() != 1:
        raise ValueError(
            f"ppm_pairwise_loss takes one reward a step, shapes (P,) and (N,); got {tuple(positive.shape)} and "
            f"{tuple(negative.shape)}"
        )
    if not len(positive) or not len(negative):
        return None
    return softplus(negative[None, :] - positive[:, None]).mean()


class CriticLoss(NamedTuple):
    """Of one preference pair, nats: reward part, critique part, and their mix."""

    reward: Tensor
    critique: Tensor
    total: Tensor


def critic_rm_loss(chosen: Tensor, rejected: Tensor, critique_nlls: Tensor, *, weight: float) -> CriticLoss:
    """Reward and critique trained together: weight * mean NLL of the critiques + (1 - weight) * -ln sigmoid(r+ - r-).

    Args:
        chosen, rejected: () rewards of the better and the worse response.
        critique_nlls: (M,) negative log-likelihood of each critique, nats; without any, that part is 0.
        weight: from 0 to 1; published to start at 1 and fall to 0.

    Raises:
        ValueError: a weight outside [0, 1].

    Example:
        >>> loss = critic_rm_loss(torch.tensor(1.2), torch.tensor(0.4), torch.tensor([2.0, 3.0]), weight=0.5)
        >>> round(loss.total.item(), 4)
        1.4356

    References:
        Yu et al. 2024, Self-Generated Critiques Boost Reward Modeling, equation 8.
    """
    if not 0 <= weight <= 1:
        raise ValueError(f"critic_rm_loss(weight) must be in [0, 1], got {weight}")
    reward = softplus(rejected - chosen)
    critique = critique_nlls.mean() if critique_nlls.numel() else torch.zeros_like(reward)
    return CriticLoss(reward, critique, weight * critique + (1 - weight) * reward)


def _check_beta(owner: str, beta: float) -> None:
    if beta <= 0:
        raise ValueError(f"{owner}(beta) must be above 0, got {beta}")


def _check_shapes(owner: str, one: Tensor, other: Tensor) -> None:
    if one.shape != other.shape:
        raise ValueError(f"{owner} takes tensors of one shape, got {tuple(one.shape)} and {tuple(other.shape)}")
