"""`segment_sum`: token values to step values, the same bits every time."""

from typing import Any

import torch
from torch import Tensor


class _SegmentSum(torch.autograd.Function):
    """Each step's sum in its own order; backward hands a step's gradient to each of its tokens."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cu_steps: Tensor) -> Tensor:
        ctx.save_for_backward(cu_steps)
        ctx.tokens, ctx.dtype = len(x), x.dtype
        wide = x if x.dtype == torch.float64 else x.float()
        if wide.is_cuda:
            from stepgauge.kernels.configs import triton_is_installed

            if triton_is_installed() and wide.dtype == torch.float32:
                from stepgauge.kernels.fused_segments import segment_sum as fused

                return fused(wide, cu_steps)
        first = int(cu_steps[0])
        covered = wide[first : int(cu_steps[-1])]
        return torch.segment_reduce(covered, "sum", offsets=cu_steps - first, axis=0, initial=0, unsafe=True)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (cu_steps,) = ctx.saved_tensors
        return spread(grad, cu_steps, ctx.tokens).to(ctx.dtype), None


def spread(steps: Tensor, cu_steps: Tensor, tokens: int) -> Tensor:
    """(S,) step values -> (tokens,): each token has its step's value, a token outside every step 0."""
    padded = torch.cat([steps.new_zeros(1), steps, steps.new_zeros(1)])
    bounds = torch.arange(tokens, device=steps.device)
    return padded[torch.searchsorted(cu_steps, bounds, right=True)]


def segment_sum(x: Tensor, cu_steps: Tensor) -> Tensor:
    r"""Sum token values over steps, deterministically: s_i = Σ_{cu_i ≤ t < cu_{i+1}} x_t, in token order.

    Accumulated in fp32 (float64 for float64), never atomically; a step's bits do not depend on the other steps.

    Args:
        x: (T,) token values, any floating dtype.
        cu_steps: (S + 1,) integer, non-decreasing token offsets in [0, T]; step i is [cu_steps[i], cu_steps[i + 1]).

    Returns:
        (S,) in the unit of x, fp32 (float64 for float64); an empty step is 0, a token outside all steps counts nowhere.
        The gradient of a step reaches each of its tokens.

    Raises:
        ValueError, TypeError: x is no vector of floats, or cu_steps no offsets into it.

    Example:
        >>> import torch
        >>> segment_sum(torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([0, 1, 1, 4])).tolist()
        [1.0, 0.0, 9.0]
    """
    owner = "segment_sum"
    if x.ndim != 1 or not x.is_floating_point():
        raise TypeError(
            f"{owner}: x must be a vector of floats, got {x.dtype} of shape {tuple(x.shape)}; flatten it first"
        )
    if cu_steps.ndim != 1 or len(cu_steps) == 0 or cu_steps.is_floating_point() or cu_steps.dtype == torch.bool:
        raise TypeError(
            f"{owner}: cu_steps must be (S + 1,) integer offsets, got {cu_steps.dtype} of shape {tuple(cu_steps.shape)}"
        )
    if cu_steps.device != x.device:
        raise ValueError(f"{owner}: cu_steps is on {cu_steps.device} but x on {x.device}; move them together")
    cu_steps = cu_steps.to(torch.int64)
    ends = torch.cat([cu_steps.new_zeros(1), cu_steps, cu_steps.new_full((1,), len(x))])
    if bool((ends.diff() < 0).any()):
        raise ValueError(f"{owner}: cu_steps must not fall and stay in [0, {len(x)}], got {cu_steps.tolist()}")
    result: Tensor = _SegmentSum.apply(x, cu_steps)  # type: ignore[no-untyped-call]
    return result
