"""`label_logits`: a process reward model's verdict at its step tags, from two rows of the head."""

import torch
from torch import Tensor

from stepgauge.kernels.inputs import check_head, result_dtype


def label_logits(hidden: Tensor, weight: Tensor, ids: tuple[int, int], positions: Tensor) -> Tensor:
    r"""Log-odds of the first label against the second at the step tags, without a product over the vocabulary.

    logit = h · (w₊ − w₋), so sigmoid(logit) = p₊ / (p₊ + p₋), the label probability of a softmax over both logits.
    The difference of the rows is taken in fp32: two logits rounded to bf16 first would lose about 1e-2 of probability.

    Args:
        hidden: (…, T, H) bf16, fp16, fp32 or fp64, the states that enter the head.
        weight: (V, H), the head, same dtype.
        ids: (positive, negative) label token ids.
        positions: (P,) integer indices of the step tags into hidden flattened to (tokens, H).

    Returns:
        (P,) log-odds in nats, fp32 (float64 for float64 inputs), differentiable in hidden and weight. An entry's bits
        do not depend on the other positions.

    Raises:
        ValueError, TypeError: a shape, dtype, device, id or position that does not fit; the message names it.

    Example:
        >>> import torch
        >>> label_logits(torch.tensor([[1.0, 2.0]]), torch.eye(2), (1, 0), torch.tensor([0])).tolist()
        [1.0]

    Source: the label-token convention of Math-Shepherd, Wang et al. 2024, https://arxiv.org/abs/2312.08935.
    """
    owner = "label_logits"
    check_head(hidden, weight, None, owner)
    if len(ids) != 2 or not all(0 <= i < len(weight) for i in ids):
        raise ValueError(f"{owner}: ids must be two label ids in [0, {len(weight)}) (rows of weight), got {tuple(ids)}")
    if positions.ndim != 1 or positions.is_floating_point() or positions.dtype == torch.bool:
        raise TypeError(
            f"{owner}: positions must be (P,) integer indices, got {positions.dtype} of shape {tuple(positions.shape)};"
            " turn a mask into indices with mask.reshape(-1).nonzero().squeeze(1)"
        )
    states = hidden.reshape(-1, hidden.shape[-1])  # (tokens, H)
    if bool(((positions < 0) | (positions >= len(states))).any()):
        raise ValueError(
            f"{owner}: positions must be in [0, {len(states)}), the tokens of hidden, got {positions.tolist()}"
        )
    dtype = result_dtype(hidden)
    difference = weight[ids[0]].to(dtype) - weight[ids[1]].to(dtype)  # (H,)
    return (states.index_select(0, positions).to(dtype) * difference).sum(1)  # (P,)
