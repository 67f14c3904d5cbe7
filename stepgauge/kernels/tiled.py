"""The torch path: any device, tuned for the CPU. The vocabulary is tiled, the logit matrix never exists.

For each tile of columns, for each block of rows: one GEMM into a preallocated fp32 tile, then the statistics while it
is in cache. Tiles depend on the head's shape only and blocks have one fixed height (the last one is padded), so each
GEMM call has the same shape whatever the batch: a row's bits do not depend on its neighbours.

fp32 logits of 16-bit heads, the ladder of `Engine`: a GPU's GEMM returns its fp32 accumulator; a CPU whose 16-bit GEMM
is no faster than its fp32 one converts each weight tile (exact); a CPU with fast 16-bit units rounds the tile to 16
bits, and then every logit that matters (the label, and each with p > `TAU`) is recomputed as an fp32 dot.
"""

import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from stepgauge.kernels.inputs import Spec, result_dtype
from stepgauge.kernels.partials import FLOOR, Needs, Partials, largest

TILE_BYTES = 16 << 20  # of one fp32 weight tile
TAU = 1e-3  # rounded logits of a larger probability are recomputed
GROUP = 128  # columns whose maximum is kept to find them
SPARE = 8  # rounded candidates recomputed beyond the k largest


@cache
def cpu_is_fast_at_16_bit() -> bool:
    """Whether this CPU multiplies 16-bit floats faster than fp32: AMX, or AVX512-BF16 on a core that is not Intel's.

    Intel's AVX512-BF16 without AMX runs at its fp32 rate. One rule a machine, no timing: results must not vary by run.
    """
    if torch.cpu._is_amx_tile_supported():
        return True
    info = Path("/proc/cpuinfo")
    flags = info.read_text() if info.exists() else ""
    return "avx512_bf16" in flags and "GenuineIntel" not in flags


class Engine:
    """Blocks of rows times tiles of columns, in the result dtype, through buffers allocated once."""

    def __init__(
        self, hidden: Tensor, weight: Tensor, vocab: int, *, rounds: bool | None = None, rows: int | None = None
    ) -> None:
        self.hidden, self.weight, self.vocab = hidden, weight, vocab
        self.dtype = result_dtype(hidden)
        narrow = hidden.dtype != self.dtype
        on_cpu = hidden.device.type == "cpu"
        self.rounds = narrow and on_cpu and (cpu_is_fast_at_16_bit() if rounds is None else rounds)
        self.accumulates = narrow and hidden.device.type == "cuda"
        self.rows = rows or (128 if on_cpu else 2048)
        wide = 2 ** int(math.log2(max(TILE_BYTES // (4 * weight.shape[1]), 1)))
        self.columns = min(max(wide, 512), 8192)
        operand = hidden.dtype if self.rounds or self.accumulates else self.dtype
        self._block = hidden.new_zeros((self.rows, weight.shape[1]), dtype=operand)
        self._tile = hidden.new_empty((min(self.columns, vocab), weight.shape[1]), dtype=operand)
        self._logits = hidden.new_empty(self.rows * min(self.columns, vocab), dtype=self.dtype)
        self._rounded = hidden.new_empty(self._logits.numel() if self.rounds else 0)

    def tiles(self) -> Iterator[tuple[int, Tensor]]:
        """(first column, (columns, H) weights in the operand dtype); valid until the next one."""
        for first in range(0, self.vocab, self.columns):
            w = self.weight[first : min(first + self.columns, self.vocab)]
            yield first, w if w.dtype == self._tile.dtype else self._tile[: len(w)].copy_(w)

    def blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """(rows, (block, H) in the operand dtype, zero-padded); valid until the next one."""
        for first in range(0, len(self.hidden), self.rows):
            rows = slice(first, min(first + self.rows, len(self.hidden)))
            n = rows.stop - first
            self._block[:n].copy_(self.hidden[rows])
            self._block[n:].zero_()
            yield rows, self._block

    def product(self, block: Tensor, tile: Tensor) -> Tensor:
        """block @ tile.T, (block, columns) in the result dtype; valid until the next one."""
        shape = (len(block), len(tile))
        out = self._logits[: shape[0] * shape[1]].view(shape)
        if self.rounds:
            return out.copy_(torch.mm(block, tile.T, out=self._rounded[: out.numel()].view(shape)))
        if self.accumulates:
            return torch.mm(block, tile.T, out_dtype=self.dtype)
        return torch.mm(block, tile.T, out=out)

    def add_product(self, total: Tensor, left: Tensor, right: Tensor) -> None:
        """total += left @ right, total in the result dtype."""
        if left.dtype == total.dtype:
            total.addmm_(left, right)
        elif self.accumulates:
            total += torch.mm(left, right, out_dtype=self.dtype)
        else:
            total += torch.mm(left, right)

    def dots(self, rows: Tensor, columns: Tensor) -> Tensor:
        """hidden[rows] · weight[columns] in the result dtype, pair by pair: (P,)."""
        out = self.hidden.new_empty(len(rows), dtype=self.dtype)
        for start in range(0, len(rows), 1024):
            some = slice(start, start + 1024)
            pairs = self.hidden[rows[some]].to(self.dtype) * self.weight[columns[some]].to(self.dtype)
            out[some] = pairs.sum(1)
        return out


def bend(z: Tensor, bias: Tensor | None, softcap: float | None, scale: Tensor | float) -> Tensor:
    """softcap(z + bias) * scale, in place."""
    if bias is not None:
        z += bias
    if softcap is not None:
        z.div_(softcap).tanh_().mul_(softcap)
    if isinstance(scale, Tensor) or scale != 1.0:
        z *= scale
    return z


def tile_sums(z: Tensor, peak: Tensor, needs: Needs, finite: bool) -> tuple[Tensor, ...]:
    """(group maxima (R, G), new peak, mass, moment, total) of one tile z (R, T); the sums are zero where not needed."""
    columns = z.shape[1]
    groups = z.view(len(z), -1, GROUP if columns % GROUP == 0 else columns).amax(2)  # (R, G)
    peak = torch.maximum(peak, groups.amax(1))
    total = z.sum(1) if needs.mean else torch.zeros_like(peak)
    centred = z - peak.unsqueeze(1)
    if not finite:
        centred.clamp_(min=-1e4)
    weights = centred.exp()
    mass = weights.sum(1)
    moment = weights.mul_(centred).sum(1) if needs.entropy else torch.zeros_like(peak)
    return groups, peak, mass, moment, total


class Running:
    """The partials so far of all rows, updated in place tile by tile."""

    def __init__(self, engine: Engine, spec: Spec, bias: Tensor | None, needs: Needs) -> None:
        self.engine, self.spec, self.bias, self.needs = engine, spec, bias, needs
        n = -(-len(engine.hidden) // engine.rows) * engine.rows  # rows, padded to whole blocks
        zeros = engine.hidden.new_zeros((4, n), dtype=engine.dtype)
        self.mass, self.moment, self.total, self.label = zeros.unbind(0)
        self.peak = torch.full_like(self.mass, FLOOR)
        self.top = engine.hidden.new_full((n, needs.k), -math.inf, dtype=engine.dtype)
        self.top_ids = engine.hidden.new_zeros((n, needs.k), dtype=torch.int64)

    def bend(self, z: Tensor, rows: slice, columns: slice) -> Tensor:
        bias = None if self.bias is None else self.bias[columns].to(z.dtype)
        scale = self.spec.scale
        if isinstance(scale, Tensor):
            scale = torch.nn.functional.pad(scale[rows], (0, len(z) - rows.stop + rows.start), value=1.0).unsqueeze(1)
        return bend(z, bias, self.spec.softcap, scale)

    def exact(self, rows: Tensor, columns: Tensor) -> Tensor:
        """The logits of (row, column) pairs as fp32 dots: (P,)."""
        bias = None if self.bias is None else self.bias[columns].to(self.engine.dtype)
        scale = self.spec.scale
        return bend(
            self.engine.dots(rows, columns),
            bias,
            self.spec.softcap,
            scale[rows] if isinstance(scale, Tensor) else scale,
        )

    def add(self, z: Tensor, rows: slice, first: int) -> None:
        """Add the tile of columns from ``first``; z is (block, columns)."""
        padded = slice(rows.start, rows.start + len(z))
        self._label(z, rows, first)
        if self.needs.k:
            self._top(z, rows, first)
        old = self.peak[padded]
        groups, peak, mass, moment, total = tile_sums(z, old, self.needs, self.bias is None)
        move = old - peak
        shrink = move.exp()
        self.moment[padded] = shrink * (self.moment[padded] + move * self.mass[padded]) + moment
        self.mass[padded] = shrink * self.mass[padded] + mass
        self.total[padded] += total
        self.peak[padded] = peak
        if self.engine.rounds:
            self._repair(z, groups, rows, first)

    def _label(self, z: Tensor, rows: slice, first: int) -> None:
        if self.spec.labels is None:
            return
        column = self.spec.labels[rows] - first
        here = (column >= 0) & (column < z.shape[1])
        logit = z[: len(column)].gather(1, column.clamp(0, z.shape[1] - 1).unsqueeze(1)).squeeze(1)
        self.label[rows] = torch.where(here, logit, self.label[rows])

    def _top(self, z: Tensor, rows: slice, first: int) -> None:
        n = rows.stop - rows.start
        spare = SPARE if self.engine.rounds else 0
        found = z[:n].topk(min(self.needs.k + spare, z.shape[1]), dim=1)
        values, ids = found.values, found.indices + first  # (n, k')
        if self.engine.rounds:
            row = torch.arange(rows.start, rows.stop, device=z.device).unsqueeze(1).expand_as(ids)
            values = self.exact(row.reshape(-1), ids.reshape(-1)).view_as(values)
        values, ids = torch.cat([self.top[rows], values], 1), torch.cat([self.top_ids[rows], ids], 1)
        self.top[rows], self.top_ids[rows] = largest(values, ids, self.needs.k)

    def _repair(self, z: Tensor, groups: Tensor, rows: slice, first: int) -> None:
        """Replace each rounded logit with p > TAU by its exact value in the sums.

        The normaliser is known up to this tile only; the share of the vocabulary seen so far stands for the rest.
        """
        n = rows.stop - rows.start
        seen = min(first + z.shape[1], self.spec.vocab) / self.spec.vocab
        peak = self.peak[rows]
        least = peak + self.mass[rows].log() + math.log(TAU / seen)  # (n,)
        row, group = (groups[:n] > least.unsqueeze(1)).nonzero(as_tuple=True)
        width = z.shape[1] // groups.shape[1]
        rounded = z[:n].view(n, -1, width)[row, group]  # (found groups, width)
        which, column = (rounded > least[row].unsqueeze(1)).nonzero(as_tuple=True)
        row, group, old = row[which], group[which], rounded[which, column]
        new = self.exact(row + rows.start, first + group * width + column)
        old_centred, new_centred = old - peak[row], new - peak[row]
        before, after = old_centred.exp(), new_centred.exp()
        self.mass[rows].index_add_(0, row, after - before)
        self.moment[rows].index_add_(0, row, after * new_centred - before * old_centred)
        self.total[rows].index_add_(0, row, new - old)

    def finish(self) -> Partials:
        n = len(self.engine.hidden)
        label = self.label[:n]
        if self.engine.rounds and self.spec.labels is not None:
            mine = ((self.spec.labels >= 0) & (self.spec.labels < self.spec.vocab)).nonzero().squeeze(1)
            label[mine] = self.exact(mine, self.spec.labels[mine])
        return Partials(
            self.peak[:n], self.mass[:n], self.moment[:n], self.total[:n], label, self.top[:n], self.top_ids[:n],
            self.spec.vocab,
        )  # fmt: skip


def partials(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, spec: Spec, needs: Needs, *, rounds: bool | None = None
) -> Partials:
    """The sums over the vocabulary of each row; ``rounds`` forces or forbids the rounded 16-bit GEMM of a CPU."""
    engine = Engine(hidden, weight, spec.vocab, rounds=rounds)
    running = Running(engine, spec, bias, needs)
    for first, tile in engine.tiles():
        columns = slice(first, first + len(tile))
        for rows, block in engine.blocks():
            running.add(running.bend(engine.product(block, tile), rows, columns), rows, first)
    return running.finish()
