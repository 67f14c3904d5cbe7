# mypy: disable-error-code="no-untyped-def, untyped-decorator"
# Kernels are typed by their pointer comments: Triton has no types to check.
"""Triton kernel of step sums: one program a step, tokens in order."""

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def sum_steps(x, cu_steps, out, BLOCK: tl.constexpr):
    """out[i] = sum of x over [cu_steps[i], cu_steps[i + 1])."""
    step = tl.program_id(0)
    start, end = tl.load(cu_steps + step), tl.load(cu_steps + step + 1)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for at in range(start, end, BLOCK):
        tokens = at + tl.arange(0, BLOCK)
        total += tl.load(x + tokens, mask=tokens < end, other=0.0)
    tl.store(out + step, tl.sum(total, 0))


def segment_sum(x: Tensor, cu_steps: Tensor) -> Tensor:
    """(T,) fp32, (S + 1,) int64 -> (S,) fp32"""
    out = x.new_empty(len(cu_steps) - 1, dtype=torch.float32)
    if len(out):
        sum_steps[(len(out),)](x.contiguous(), cu_steps, out, BLOCK=256)
    return out
