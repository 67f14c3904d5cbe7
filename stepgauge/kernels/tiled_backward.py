"""Backward of the torch path: each tile of logits is computed again, turned into its gradient and used up at once."""

import torch
from torch import Tensor

from stepgauge.kernels.inputs import Spec
from stepgauge.kernels.partials import Needs, Slope
from stepgauge.kernels.tiled import Engine, Running


def gradient_tile(z: Tensor, first: int, slope: Slope, rows: slice, spec: Spec) -> Tensor:
    """dL/d(hidden @ weight.T + bias) of one tile z (n, columns) of final logits, in the dtype of z.

    The label's gain is added to p's share in fp32, before anything is rounded to 16 bits.
    """
    logp = (z - slope.lse[rows].unsqueeze(1)).clamp_(min=-1e4)
    dz = torch.addcmul(slope.a[rows].unsqueeze(1), logp, slope.b[rows].unsqueeze(1))
    dz.mul_(logp.exp_()).add_(slope.c[rows].unsqueeze(1))  # (n, columns)
    marks = slope.marks[rows] - first
    here = (marks >= 0) & (marks < z.shape[1])
    dz.scatter_add_(1, marks.clamp(0, z.shape[1] - 1), slope.gains[rows] * here)
    scale = spec.scale[rows].unsqueeze(1) if isinstance(spec.scale, Tensor) else spec.scale
    if spec.softcap is not None:
        dz *= 1 - (z / (spec.softcap * scale)).square_()
    return dz.mul_(scale)


def gradients(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, spec: Spec, slope: Slope, wanted: tuple[bool, bool, bool]
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """(d hidden, d weight, d bias), each only where wanted: a frozen head costs no product for d weight.

    A tile's d weight is summed over all rows in the result dtype and rounded once.
    """
    engine = Engine(hidden, weight, spec.vocab)
    running = Running(engine, spec, bias, Needs(False, False, 0))
    d_hidden = hidden.new_zeros(hidden.shape, dtype=engine.dtype) if wanted[0] else None
    d_weight = torch.zeros_like(weight) if wanted[1] else None
    d_bias = torch.zeros_like(bias) if wanted[2] and bias is not None else None
    for first, tile in engine.tiles():
        columns = slice(first, first + len(tile))
        dw = tile.new_zeros(tile.shape, dtype=engine.dtype) if d_weight is not None else None
        db = tile.new_zeros(len(tile), dtype=engine.dtype)
        for rows, block in engine.blocks():
            z = running.bend(engine.product(block, tile), rows, columns)
            n = rows.stop - rows.start
            dz = gradient_tile(z[:n], first, slope, rows, spec)
            db += dz.sum(0)
            narrow = dz.to(tile.dtype)
            if d_hidden is not None:
                engine.add_product(d_hidden[rows], narrow, tile)
            if dw is not None:
                engine.add_product(dw, narrow.T, block[:n])
        if d_weight is not None and dw is not None:
            d_weight[columns] = dw.to(weight.dtype)
        if d_bias is not None:
            d_bias[columns] = db.to(d_bias.dtype)
    return (None if d_hidden is None else d_hidden.to(hidden.dtype)), d_weight, d_bias
