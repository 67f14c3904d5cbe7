"""Backward of the torch path: each tile of logits is computed again, turned into its gradient and used up at once."""

import torch
from torch import Tensor

from stepgauge.kernels.inputs import Spec
from stepgauge.kernels.partials import Needs, Slope
from stepgauge.kernels.tiled import Engine, Running


def block_rows(tokens: int) -> int:
    """Taller blocks than forward's: d weight's sum over rows wants them, and no gradient promises bits."""
    return min(max(tokens, 1), 512)


class Sink:
    """Turns tiles of dL/dz into the gradients that are wanted: a frozen head costs no product for d weight.

    A tile's rows of d weight are summed over all tokens in the result dtype and rounded once.
    """

    def __init__(self, engine: Engine, bias: Tensor | None, wanted: tuple[bool, bool, bool]) -> None:
        hidden, weight = engine.hidden, engine.weight
        self.engine = engine
        self.d_hidden = hidden.new_zeros(hidden.shape, dtype=engine.dtype) if wanted[0] else None
        self.d_weight = torch.zeros_like(weight) if wanted[1] else None
        self.d_bias = torch.zeros_like(bias) if wanted[2] and bias is not None else None
        columns = min(engine.columns, engine.vocab)
        self._weight = hidden.new_zeros((columns, hidden.shape[1]) if wanted[1] else (0,), dtype=engine.dtype)
        self._bias = hidden.new_zeros(columns, dtype=engine.dtype)

    def add(self, dz: Tensor, tile: Tensor, block: Tensor, rows: slice) -> None:
        """dz is (n, columns), tile (columns, H), block (n, H)."""
        self._bias[: len(tile)] += dz.sum(0)
        narrow = dz.to(tile.dtype)
        if self.d_hidden is not None:
            self.engine.add_product(self.d_hidden[rows], narrow, tile)
        if self.d_weight is not None:
            self.engine.add_product(self._weight[: len(tile)], narrow.T, block)

    def close(self, columns: slice) -> None:
        """The tile is done: write its share and start the next one from zero."""
        width = columns.stop - columns.start
        if self.d_weight is not None:
            self.d_weight[columns] = self._weight[:width].to(self.d_weight.dtype)
            self._weight.zero_()
        if self.d_bias is not None:
            self.d_bias[columns] = self._bias[:width].to(self.d_bias.dtype)
        self._bias.zero_()

    def finish(self) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        d_hidden = None if self.d_hidden is None else self.d_hidden.to(self.engine.hidden.dtype)
        return d_hidden, self.d_weight, self.d_bias


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
    return spec.unbend(dz, z, rows)


def gradients(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, spec: Spec, slope: Slope, wanted: tuple[bool, bool, bool]
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """(d hidden, d weight, d bias), each only where wanted."""
    engine = Engine(hidden, weight, spec.vocab, rows=block_rows(len(hidden)))
    running = Running(engine, spec, bias, Needs(False, False, 0))
    sink = Sink(engine, bias, wanted)
    for first, tile in engine.tiles():
        columns = slice(first, first + len(tile))
        for rows, block in engine.blocks():
            z = running.bend(engine.product(block, tile), rows, columns)
            n = rows.stop - rows.start
            sink.add(gradient_tile(z[:n], first, slope, rows, spec), tile, block[:n], rows)
        sink.close(columns)
    return sink.finish()
