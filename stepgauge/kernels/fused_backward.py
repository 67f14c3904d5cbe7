"""Backward of the triton path: a panel of the logits' gradient at a time, used up by two plain products."""

import torch
import triton
from torch import Tensor

from stepgauge.kernels import fused_kernels
from stepgauge.kernels.configs import PANEL, choose
from stepgauge.kernels.fused import dense, group_rows, shape_arguments, spec_arguments
from stepgauge.kernels.inputs import Spec
from stepgauge.kernels.partials import Slope


def multiply(left: Tensor, right: Tensor) -> Tensor:
    """left @ right in fp32; a CPU rounds 16-bit products once."""
    if left.device.type == "cuda" and left.dtype != torch.float32:
        return torch.mm(left, right, out_dtype=torch.float32)
    return torch.mm(left, right).float()


class Sink:
    """Turns panels of dL/dz into the gradients that are wanted; a panel of columns completes its rows of d weight."""

    def __init__(self, hidden: Tensor, weight: Tensor, bias: Tensor | None, wanted: tuple[bool, bool, bool]) -> None:
        self.hidden, self.weight = hidden, weight
        self.d_hidden = hidden.new_zeros(hidden.shape, dtype=torch.float32) if wanted[0] else None
        self.d_weight = torch.zeros_like(weight) if wanted[1] else None
        self.d_bias = torch.zeros_like(bias) if wanted[2] and bias is not None else None

    def add(self, dz: Tensor, columns: slice) -> None:
        """dz is (M, columns)."""
        if self.d_hidden is not None:
            self.d_hidden += multiply(dz, self.weight[columns])
        if self.d_weight is not None:
            self.d_weight[columns] = multiply(dz.T, self.hidden).to(self.weight.dtype)
        if self.d_bias is not None:
            self.d_bias[columns] = dz.sum(0, dtype=torch.float32).to(self.d_bias.dtype)

    def finish(self) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        d_hidden = None if self.d_hidden is None else self.d_hidden.to(self.hidden.dtype)
        return d_hidden, self.d_weight, self.d_bias


def gradients(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, spec: Spec, slope: Slope, wanted: tuple[bool, bool, bool]
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """(d hidden, d weight, d bias), each only where wanted: a frozen head costs no product for d weight."""
    hidden, weight = dense(hidden), dense(weight)
    config = choose(hidden.device, "gradient", hidden.element_size())
    scale, softcap, inv_temperature = spec_arguments(spec)
    rows = len(hidden)
    sink = Sink(hidden, weight, bias, wanted)
    for first in range(0, spec.vocab if rows else 0, PANEL):
        end = min(first + PANEL, spec.vocab)
        dz = hidden.new_empty((rows, end - first))
        fused_kernels.head_gradient[(triton.cdiv(rows, config.rows) * triton.cdiv(end - first, config.columns),)](
            hidden, weight, bias, scale, slope.lse, slope.a, slope.b, slope.c,
            slope.marks.contiguous(), slope.gains.contiguous(), dz,
            rows, end, hidden.shape[1], hidden.stride(0), weight.stride(0), group_rows(config, hidden),
            softcap, inv_temperature, first, end - first, slope.marks.shape[1],
            CAP=spec.softcap is not None, **shape_arguments(config, hidden, weight),
        )  # fmt: skip
        sink.add(dz, slice(first, end))
    return sink.finish()
