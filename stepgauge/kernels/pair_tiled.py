"""`pair_stats` by torch: two engines walk the same tiles and blocks side by side."""

import torch
from torch import Tensor

from stepgauge.kernels.inputs import Spec
from stepgauge.kernels.pair_partials import OneSide, PairSlope, PairSums, Side
from stepgauge.kernels.partials import FLOOR, Needs
from stepgauge.kernels.tiled import Engine, Running
from stepgauge.kernels.tiled_backward import Sink, block_rows

LEAST = -1e4  # stands for ln 0: finite, and e^LEAST is 0


def walkers(policy: Side, other: Side, rows: int | None = None) -> tuple[Running, Running]:
    """Two heads on one grid of columns; the logits of a pair are never rounded to 16 bits."""
    engines = [Engine(side[0], side[1], side[3].vocab, rounds=False, rows=rows) for side in (policy, other)]
    columns = min(engine.columns for engine in engines)
    for engine in engines:
        engine.columns = columns
    a, b = (
        Running(engine, side[3], side[2], Needs(False, False, 0))
        for engine, side in zip(engines, (policy, other), strict=True)
    )
    return a, b


class Sums:
    """The running sums of one side of all rows: (5, M) peak, mass, moment, cross, label."""

    def __init__(self, like: Tensor, dtype: torch.dtype) -> None:
        self.fields = like.new_zeros((5, len(like)), dtype=dtype)
        self.fields[0] = FLOOR

    def centre(self, z: Tensor, rows: slice) -> tuple[Tensor, Tensor]:
        """(z - new peak, how far the peak moved); the peak is moved."""
        new = torch.maximum(self.fields[0, rows], z.amax(1))
        move = self.fields[0, rows] - new
        self.fields[0, rows] = new
        return (z - new.unsqueeze(1)).clamp_(min=LEAST), move

    def add(self, rows: slice, mine: Tensor, move: Tensor, other: Tensor, other_move: Tensor) -> None:
        """Centred logits of this side and the other, (n, columns)."""
        weights, shrink = mine.exp(), move.exp()
        _, mass, moment, cross, _ = self.fields[:, rows]
        moment.add_(move * mass).mul_(shrink).add_((weights * mine).sum(1))
        cross.add_(other_move * mass).mul_(shrink).add_((weights * other).sum(1))
        mass.mul_(shrink).add_(weights.sum(1))

    def choose(self, z: Tensor, rows: slice, column: Tensor) -> None:
        """Keep the label's logit where its column, counted from the tile's first, is in the tile."""
        here = (column >= 0) & (column < z.shape[1])
        logit = z.gather(1, column.clamp(0, z.shape[1] - 1).unsqueeze(1)).squeeze(1)
        self.fields[4, rows] = torch.where(here, logit, self.fields[4, rows])


def partials(policy: Side, other: Side) -> PairSums:
    a, b = walkers(policy, other)
    sums_a, sums_b = Sums(policy[0], a.engine.dtype), Sums(other[0], b.engine.dtype)
    labels = policy[3].labels
    for (first, tile_a), (_, tile_b) in zip(a.engine.tiles(), b.engine.tiles(), strict=True):
        columns = slice(first, first + len(tile_a))
        for (rows, block_a), (_, block_b) in zip(a.engine.blocks(), b.engine.blocks(), strict=True):
            n = rows.stop - rows.start
            z_a = a.bend(a.engine.product(block_a, tile_a), rows, columns)[:n]
            z_b = b.bend(b.engine.product(block_b, tile_b), rows, columns)[:n]
            if labels is not None:
                sums_a.choose(z_a, rows, labels[rows] - first)
                sums_b.choose(z_b, rows, labels[rows] - first)
            (centred_a, move_a), (centred_b, move_b) = sums_a.centre(z_a, rows), sums_b.centre(z_b, rows)
            sums_a.add(rows, centred_a, move_a, centred_b, move_b)
            sums_b.add(rows, centred_b, move_b, centred_a, move_a)
    return PairSums(OneSide(*sums_a.fields), OneSide(*sums_b.fields))


def gradient_tile(z: Tensor, z_other: Tensor, first: int, slope: PairSlope, rows: slice, spec: Spec) -> Tensor:
    """dL/d(policy hidden @ weight.T + bias) of one tile, (n, columns)."""
    logp = (z - slope.lse[rows].unsqueeze(1)).clamp_(min=LEAST)
    logq = (z_other - slope.lse2[rows].unsqueeze(1)).clamp_(min=LEAST)
    dz = torch.addcmul(slope.a[rows].unsqueeze(1), logp, slope.b[rows].unsqueeze(1))
    dz.addcmul_(logq, slope.c[rows].unsqueeze(1)).mul_(logp.exp_())
    dz.addcmul_(logq.exp_(), slope.f[rows].unsqueeze(1))
    marks = slope.marks[rows] - first
    here = (marks >= 0) & (marks < z.shape[1])
    dz.scatter_add_(1, marks.clamp(0, z.shape[1] - 1), slope.gains[rows] * here)
    return spec.unbend(dz, z, rows)


def gradients(
    policy: Side, other: Side, slope: PairSlope, wanted: tuple[bool, bool, bool]
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """(d hidden, d weight, d bias) of the policy, each only where wanted."""
    a, b = walkers(policy, other, block_rows(len(policy[0])))
    sink = Sink(a.engine, policy[2], wanted)
    for (first, tile_a), (_, tile_b) in zip(a.engine.tiles(), b.engine.tiles(), strict=True):
        columns = slice(first, first + len(tile_a))
        for (rows, block_a), (_, block_b) in zip(a.engine.blocks(), b.engine.blocks(), strict=True):
            n = rows.stop - rows.start
            z_a = a.bend(a.engine.product(block_a, tile_a), rows, columns)[:n]
            z_b = b.bend(b.engine.product(block_b, tile_b), rows, columns)[:n]
            sink.add(gradient_tile(z_a, z_b, first, slope, rows, policy[3]), tile_a, block_a[:n], rows)
        sink.close(columns)
    return sink.finish()
