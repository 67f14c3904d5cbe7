"""`pair_stats` by Triton: launches of the two-head kernels."""

from typing import Any

import torch
import triton
from torch import Tensor

from stepgauge.kernels import fused_pair_kernels
from stepgauge.kernels.configs import PANEL, SPLIT, Config, choose
from stepgauge.kernels.fused import check_device, copies_by_hardware, dense, group_rows, spec_arguments
from stepgauge.kernels.fused_backward import Sink
from stepgauge.kernels.pair_partials import OneSide, PairSlope, PairSums, Side


def side_arguments(side: Side) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """(tensors, numbers) of one head in the kernels' order."""
    hidden, weight, bias, spec = side
    scale, softcap, inv_temperature = spec_arguments(spec)
    numbers = (hidden.shape[1], hidden.stride(0), weight.stride(0), softcap, inv_temperature)
    return (hidden, weight, bias, scale), numbers


def constants(config: Config, policy: Side, other: Side) -> dict[str, Any]:
    return {
        "BM": config.rows,
        "BN": config.columns,
        "BK": config.depth,
        "TMA": copies_by_hardware(config, policy[0], policy[1], other[0], other[1]),
        "EVEN": policy[0].shape[1] % config.depth == 0 and other[0].shape[1] % config.depth == 0,
        "PRECISION": config.precision,
        "CAP": policy[3].softcap is not None,
        "CAP2": other[3].softcap is not None,
        **config.options(),
    }


def densely(side: Side) -> Side:
    return dense(side[0]), dense(side[1]), side[2], side[3]


def partials(policy: Side, other: Side) -> PairSums:
    """The sums of both heads: slices of SPLIT columns, then their merge."""
    check_device(policy[0].device)
    policy, other = densely(policy), densely(other)
    rows, vocab = len(policy[0]), policy[3].vocab
    splits = triton.cdiv(vocab, SPLIT)
    config = choose(policy[0].device, "pair", policy[0].element_size())
    sums = policy[0].new_empty((10, splits, rows), dtype=torch.float32)
    whole = policy[0].new_empty((10, rows), dtype=torch.float32)
    if rows:
        (tensors, numbers), (tensors2, numbers2) = side_arguments(policy), side_arguments(other)
        fused_pair_kernels.pair_partials[(triton.cdiv(rows, config.rows) * splits,)](
            *tensors, *tensors2, policy[3].labels, sums, rows, vocab, *numbers, *numbers2,
            group_rows(config, policy[0]), SPLIT=SPLIT, **constants(config, policy, other),
        )  # fmt: skip
        fused_pair_kernels.merge_pair[(triton.cdiv(rows, 128),)](sums, whole, rows, splits, BLOCK=128)
    return PairSums(OneSide(*whole[:5]), OneSide(*whole[5:]))


def gradients(
    policy: Side, other: Side, slope: PairSlope, wanted: tuple[bool, bool, bool]
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """(d hidden, d weight, d bias) of the policy, each only where wanted."""
    policy, other = densely(policy), densely(other)
    hidden, weight, bias, spec = policy
    config = choose(hidden.device, "pair_gradient", hidden.element_size())
    rows = len(hidden)
    sink = Sink(hidden, weight, bias, wanted)
    (tensors, numbers), (tensors2, numbers2) = side_arguments(policy), side_arguments(other)
    for first in range(0, spec.vocab if rows else 0, PANEL):
        end = min(first + PANEL, spec.vocab)
        dz = hidden.new_empty((rows, end - first))
        fused_pair_kernels.pair_gradient[(triton.cdiv(rows, config.rows) * triton.cdiv(end - first, config.columns),)](
            *tensors, *tensors2, slope.lse, slope.lse2, slope.a, slope.b, slope.c, slope.f,
            slope.marks.contiguous(), slope.gains.contiguous(), dz, rows, end, *numbers, *numbers2,
            group_rows(config, hidden), first, end - first, slope.marks.shape[1], **constants(config, policy, other),
        )  # fmt: skip
        sink.add(dz, slice(first, end))
    return sink.finish()
