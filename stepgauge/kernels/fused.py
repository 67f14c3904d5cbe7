"""The triton path: launches of the forward kernels."""

import os
from typing import Any

import torch
import triton
from torch import Tensor

from stepgauge.kernels import fused_kernels
from stepgauge.kernels.configs import SPLIT, Config, choose
from stepgauge.kernels.inputs import Spec
from stepgauge.kernels.partials import Needs, Partials, largest

L2_BYTES = 30 << 20  # of states kept in cache by one group of row tiles


def check_device(device: torch.device) -> None:
    """Triton kernels run on a GPU, or anywhere under Triton's interpreter."""
    if device.type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        raise ValueError(f"backend 'triton' needs tensors on a GPU, got {device}; move them, or pass backend='torch'")


def allocate(size: int, alignment: int, stream: int | None) -> Tensor:
    """Workspace of tensor descriptors made on the device."""
    return torch.empty(size, device="cuda", dtype=torch.int8)


def copies_by_hardware(config: Config, *operands: Tensor) -> bool:
    """Tensor descriptors need rows that start on 16-byte boundaries."""
    aligned = all(x.data_ptr() % 16 == 0 and x.stride(0) * x.element_size() % 16 == 0 for x in operands)
    if config.tma and aligned:
        triton.set_allocator(allocate)
        return True
    return False


def group_rows(config: Config, hidden: Tensor) -> int:
    """Row tiles of one group."""
    return max(L2_BYTES // (config.rows * hidden.shape[1] * hidden.element_size()), 1)


def shape_arguments(config: Config, hidden: Tensor, weight: Tensor) -> dict[str, Any]:
    """The constants of a tile that all kernels share."""
    return {
        "BM": config.rows,
        "BN": config.columns,
        "BK": config.depth,
        "TMA": copies_by_hardware(config, hidden, weight),
        "EVEN": hidden.shape[1] % config.depth == 0,
        "PRECISION": config.precision,
        **config.options(),
    }


def spec_arguments(spec: Spec) -> tuple[Tensor | None, float, float]:
    """(per-row scale or None, softcap or 0, scalar inverse temperature)"""
    if isinstance(spec.scale, Tensor):
        return spec.scale, spec.softcap or 0.0, 1.0
    return None, spec.softcap or 0.0, spec.scale


def dense(x: Tensor) -> Tensor:
    """Rows may lie apart, elements of a row may not."""
    return x if x.stride(-1) == 1 else x.contiguous()


def partials(hidden: Tensor, weight: Tensor, bias: Tensor | None, spec: Spec, needs: Needs) -> Partials:
    """The sums over the vocabulary of each row: slices of SPLIT columns, then their merge."""
    check_device(hidden.device)
    hidden, weight = dense(hidden), dense(weight)
    rows, splits, k = len(hidden), triton.cdiv(spec.vocab, SPLIT), needs.k
    config = choose(hidden.device, "top" if k else "head", hidden.element_size())
    sums = hidden.new_empty((5, splits, rows), dtype=torch.float32)
    top = hidden.new_empty((splits, rows, k), dtype=torch.float32)
    ids = hidden.new_empty((splits, rows, k), dtype=torch.int64)
    whole = hidden.new_empty((5, rows), dtype=torch.float32)
    if rows:
        scale, softcap, inv_temperature = spec_arguments(spec)
        fused_kernels.head_partials[(triton.cdiv(rows, config.rows) * splits,)](
            hidden, weight, bias, scale, spec.labels, sums, top, ids,
            rows, spec.vocab, hidden.shape[1], hidden.stride(0), weight.stride(0), group_rows(config, hidden),
            softcap, inv_temperature, SPLIT=SPLIT, CAP=spec.softcap is not None, ENTROPY=needs.entropy,
            MEAN=needs.mean, K=k, KP=triton.next_power_of_2(max(k, 1)), **shape_arguments(config, hidden, weight),
        )  # fmt: skip
        fused_kernels.merge_partials[(triton.cdiv(rows, 128),)](sums, whole, rows, splits, BLOCK=128)
    values, columns = largest(top.transpose(0, 1).flatten(1), ids.transpose(0, 1).flatten(1), k)
    peak, mass, moment, total, label = whole.unbind(0)
    return Partials(peak, mass, moment, total, label, values, columns, spec.vocab)
