"""Implicit process rewards: the log-ratio of two language models, token by token, as a reward of each step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepgauge.prm.targets import er_label

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["ImplicitRewards", "ImplicitValue", "implicit_rewards", "implicit_value"]


@dataclass(frozen=True, slots=True)
class ImplicitRewards:
    """``token`` (T,) β ln π/π_ref of each token, ``step`` (S,) its sum over each step, ``cumulative`` (S,) q so far."""

    token: Tensor
    step: Tensor
    cumulative: Tensor


def implicit_rewards(
    policy_logps: Tensor | Sequence[float],
    reference_logps: Tensor | Sequence[float],
    ends: Sequence[int],
    *,
    beta: float = 0.05,
) -> ImplicitRewards:
    r"""Token, step and cumulative rewards of one response.

    r_t = β (ln π(y_t) − ln π_ref(y_t)) · q_k = Σ_{t < end_k} r_t · step_k = q_k − q_{k−1}

    The difference is taken per token and summed in fp32 (float64 for float64): sums in bf16 would be off by nats.

    Args:
        policy_logps, reference_logps: (T,) log-probabilities of the same tokens, nats, prompt left out.
        ends: (S,) token index after each step's last one, not falling; a token before end_1 belongs to step 1, so what
            stands between two steps belongs to the later one.
        beta: scale of the reward.

    Raises:
        ValueError: no steps, ends that fall or lie outside, lengths that differ.

    Example:
        >>> rewards = implicit_rewards([-0.5, -1.0], [-1.0, -0.5], [1, 2], beta=1.0)
        >>> rewards.step.tolist(), rewards.cumulative.tolist()
        ([0.5, -0.5], [0.5, 0.0])

    References: Yuan et al. 2024, eq. 2-3, https://arxiv.org/abs/2412.01981.
    """
    import torch

    from stepgauge.kernels import segment_sum

    policy, reference = (
        x if isinstance(x, torch.Tensor) else torch.tensor(x, dtype=torch.float64)
        for x in (policy_logps, reference_logps)
    )
    if policy.shape != reference.shape or policy.ndim != 1:
        raise ValueError(
            "implicit_rewards: policy_logps and reference_logps must be two vectors of one length, got "
            f"{tuple(policy.shape)} and {tuple(reference.shape)}"
        )
    if not len(ends) or any(b < a for a, b in zip([0, *ends], [*ends, len(policy)], strict=True)):
        raise ValueError(
            f"implicit_rewards(ends) must be at least one index in [0, {len(policy)}], not falling; got {list(ends)}"
        )
    wide = torch.float64 if torch.float64 in (policy.dtype, reference.dtype) else torch.float32
    token = beta * (policy.to(wide) - reference.to(wide))  # (T,)
    step = segment_sum(token, torch.tensor([0, *ends], device=token.device))  # (S,)
    return ImplicitRewards(token, step, step.cumsum(0))


@dataclass(frozen=True, slots=True)
class ImplicitValue:
    """``soft`` = E[r], ``value`` = β ln E[e^{r/β}], ``hard`` = max r, over the completions of a prefix."""

    soft: float
    value: float
    hard: float


def implicit_value(rewards: Sequence[float], probabilities: Sequence[float], *, beta: float) -> ImplicitValue:
    r"""What the cumulative reward q of a prefix means: β ln E_{π_ref}[e^{r(y)/β} | prefix]; soft ≤ q ≤ hard.

    Args:
        rewards: (N,) r = β ln π(y)/π_ref(y) of every completion y of the prefix.
        probabilities: (N,) of each completion under π_ref given the prefix; they sum to 1.
        beta: above 0; beta → ∞ gives the soft value, beta → 0 the hard one.

    Raises:
        ValueError: lengths that differ, no completion, probabilities that do not sum to 1, beta not above 0.

    Example:
        >>> found = implicit_value([1.0, -1.0], [0.5, 0.5], beta=1.0)
        >>> found.soft, round(found.value, 4), found.hard
        (0.0, 0.4338, 1.0)

    References: Yuan et al. 2024, proposition 3.1, https://arxiv.org/abs/2412.01981.
    """
    if not rewards or len(rewards) != len(probabilities):
        raise ValueError(
            f"implicit_value: one probability a reward, at least one; got {len(rewards)} and {len(probabilities)}"
        )
    if beta <= 0:
        raise ValueError(f"implicit_value(beta) must be above 0, got {beta}")
    if min(probabilities) < 0 or not math.isclose(sum(probabilities), 1.0, rel_tol=1e-6):
        raise ValueError(f"implicit_value(probabilities) must sum to 1, got {list(probabilities)}")
    likely = [(reward, p) for reward, p in zip(rewards, probabilities, strict=True) if p > 0]
    hard = max(reward for reward, _ in likely)
    value = float(er_label(rewards, 1 / beta, probabilities))
    return ImplicitValue(sum(reward * p for reward, p in likely), value, hard)
