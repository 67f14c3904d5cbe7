"""Log-probability, entropy and self-certainty of each token, from hidden states and the head's weight."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["LmStats", "lm_stats"]

_CHUNK_BYTES = 8 * 2**20  # of float32 logits held at a time


class LmStats(NamedTuple):
    """Statistics of each token, all (T,) float32 (float64 for float64 inputs), in nats."""

    logprob: Tensor
    entropy: Tensor
    self_certainty: Tensor


def lm_stats(hidden: Tensor, weight: Tensor, targets: Tensor, *, bias: Tensor | None = None) -> LmStats:
    r"""Statistics of :math:`p = softmax(z)`, :math:`z = hidden \cdot weight^T + bias`, without (T, V) logits.

    logprob = z_y - lse(z); entropy = lse(z) - sum p z; self-certainty = KL(uniform || p) = lse(z) - mean(z) - ln V.
    Logits and sums are float32 whatever the inputs are; only a few MB of logits exist at a time.

    Args:
        hidden: (T, H) the states that predict the targets.
        weight: (V, H) rows of the head, without padding rows: they would enter the mean.
        targets: (T,) token ids in [0, V).
        bias: (V,) where the head has one.

    Example:
        >>> import torch
        >>> stats = lm_stats(torch.eye(2), torch.tensor([[2.0, 0.0], [0.0, 0.0], [-1.0, 0.0]]), torch.tensor([0, 1]))
        >>> [round(x, 6) for x in stats.self_certainty.tolist()]
        [0.7379, 0.0]

    References:
        Kang et al., Scalable Best-of-N Selection via Self-Certainty, 2025, https://arxiv.org/abs/2502.18581
    """
    import torch

    dtype = torch.promote_types(hidden.dtype, torch.float32)
    vocabulary = weight.shape[0]
    columns = weight.to(dtype).T  # (H, V)
    logprob, entropy, self_certainty = (torch.empty(len(hidden), dtype=dtype, device=hidden.device) for _ in range(3))
    chunk = max(1, _CHUNK_BYTES // (4 * vocabulary))
    for start in range(0, len(hidden), chunk):
        rows = slice(start, start + chunk)
        logits = hidden[rows].to(dtype) @ columns  # (C, V)
        if bias is not None:
            logits += bias.to(dtype)
        logits -= logits.amax(dim=-1, keepdim=True)  # the maximum cancels in all three
        lse = logits.logsumexp(dim=-1)  # (C,)
        mean = logits.mean(dim=-1)
        logprob[rows] = logits.gather(1, targets[rows, None]).squeeze(1) - lse
        # p z with 0 * -inf = 0: an impossible token adds nothing to the entropy
        entropy[rows] = lse - (logits.softmax(dim=-1) * logits).nan_to_num(0.0).sum(dim=-1)
        self_certainty[rows] = lse - mean - math.log(vocabulary)
    return LmStats(logprob, entropy, self_certainty)
