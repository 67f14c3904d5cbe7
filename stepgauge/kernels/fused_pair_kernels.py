# mypy: disable-error-code="no-untyped-def, untyped-decorator"
# Kernels are typed by their pointer comments: Triton has no types to check.
"""Triton kernels of two heads over one vocabulary: policy p and reference q, tile by tile side by side.

Besides peak, mass and moment of each head: cross moments x = sum e^(a-m_a) (b-m_b) and y = sum e^(b-m_b) (a-m_a), where
a, b are the two heads' logits. Then KL(p|q) = (moment_a - x)/mass_a + m_a - lse_a - m_b + lse_b, and so the other way.
"""

import triton
import triton.language as tl

from stepgauge.kernels.fused_kernels import bend, finish_gradient, operands, place, product, row_scale


@triton.jit
def weighted(e, x):
    """sum e x over a tile's columns with 0 · inf = 0: (BM,)"""
    return tl.sum(e * tl.where(e > 0.0, x, 0.0), 1)


@triton.jit
def pair_partials(
    h, w, bias, scale,  # policy
    h2, w2, bias2, scale2,  # reference
    labels,  # (M,) int64 or None
    sums,  # out (10, splits, M): policy peak, mass, moment, cross, label; the same of the reference
    M, V, H, stride_h, stride_w, softcap, inv_temperature,
    H2, stride_h2, stride_w2, softcap2, inv_temperature2, group_m,
    SPLIT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    TMA: tl.constexpr, EVEN: tl.constexpr, PRECISION: tl.constexpr, CAP: tl.constexpr, CAP2: tl.constexpr,
):  # fmt: skip
    """Online sums of BM rows of both heads over one slice of SPLIT columns."""
    splits = tl.cdiv(V, SPLIT)
    row_tile, split = place(tl.program_id(0), M, group_m, splits, BM)
    row0 = row_tile * BM
    rows = row0 + tl.arange(0, BM)
    mine = rows < M
    h, w = operands(h, w, M, V, H, stride_h, stride_w, BM, BN, BK, TMA)
    h2, w2 = operands(h2, w2, M, V, H2, stride_h2, stride_w2, BM, BN, BK, TMA)
    factor = row_scale(scale, inv_temperature, rows, M)
    factor2 = row_scale(scale2, inv_temperature2, rows, M)
    if labels is not None:
        label = tl.load(labels + rows, mask=mine, other=-1).to(tl.int32)
    peak = tl.full((BM,), -1e30, dtype=tl.float32)
    mass = tl.zeros((BM,), dtype=tl.float32)
    moment = tl.zeros((BM,), dtype=tl.float32)
    cross = tl.zeros((BM,), dtype=tl.float32)
    chosen = tl.zeros((BM,), dtype=tl.float32)
    peak2 = tl.full((BM,), -1e30, dtype=tl.float32)
    mass2 = tl.zeros((BM,), dtype=tl.float32)
    moment2 = tl.zeros((BM,), dtype=tl.float32)
    cross2 = tl.zeros((BM,), dtype=tl.float32)
    chosen2 = tl.zeros((BM,), dtype=tl.float32)
    start = split * SPLIT
    for col0 in range(start, tl.minimum(start + SPLIT, V), BN):
        columns = col0 + tl.arange(0, BN)
        inside = columns < V
        a = product(h, w, row0, col0, M, V, H, stride_h, stride_w, BM, BN, BK, TMA, EVEN, PRECISION)
        a = bend(a, bias, columns, inside, softcap, factor, CAP)
        b = product(h2, w2, row0, col0, M, V, H2, stride_h2, stride_w2, BM, BN, BK, TMA, EVEN, PRECISION)
        b = bend(b, bias2, columns, inside, softcap2, factor2, CAP2)
        if labels is not None:
            here = (columns[None, :] == label[:, None]) & inside[None, :]
            chosen += tl.sum(tl.where(here, a, 0.0), 1)
            chosen2 += tl.sum(tl.where(here, b, 0.0), 1)
        a = tl.where(inside[None, :], a, float("-inf"))
        b = tl.where(inside[None, :], b, float("-inf"))
        new, new2 = tl.maximum(peak, tl.max(a, 1)), tl.maximum(peak2, tl.max(b, 1))
        move, move2 = peak - new, peak2 - new2
        r, r2 = tl.exp(move), tl.exp(move2)
        a -= new[:, None]
        b -= new2[:, None]
        e = tl.exp(a)
        moment = r * (moment + move * mass) + weighted(e, a)
        cross = r * (cross + move2 * mass) + weighted(e, b)
        mass = r * mass + tl.sum(e, 1)
        e = tl.exp(b)
        moment2 = r2 * (moment2 + move2 * mass2) + weighted(e, b)
        cross2 = r2 * (cross2 + move * mass2) + weighted(e, a)
        mass2 = r2 * mass2 + tl.sum(e, 1)
        peak, peak2 = new, new2
    at = tl.cast(split, tl.int64) * M + rows
    field = tl.cast(splits, tl.int64) * M
    tl.store(sums + at, peak, mask=mine)
    tl.store(sums + field + at, mass, mask=mine)
    tl.store(sums + 2 * field + at, moment, mask=mine)
    tl.store(sums + 3 * field + at, cross, mask=mine)
    tl.store(sums + 4 * field + at, chosen, mask=mine)
    tl.store(sums + 5 * field + at, peak2, mask=mine)
    tl.store(sums + 6 * field + at, mass2, mask=mine)
    tl.store(sums + 7 * field + at, moment2, mask=mine)
    tl.store(sums + 8 * field + at, cross2, mask=mine)
    tl.store(sums + 9 * field + at, chosen2, mask=mine)


@triton.jit
def fold(sums, at, field, mine, peak, mass, moment, chosen):
    """One slice of one head put into the running sums; how far both peaks moved comes back too."""
    other = tl.load(sums + at, mask=mine, other=0.0)
    mass2 = tl.load(sums + field + at, mask=mine, other=1.0)
    moment2 = tl.load(sums + 2 * field + at, mask=mine, other=0.0)
    new = tl.maximum(peak, other)
    move1, move2 = peak - new, other - new
    r1, r2 = tl.exp(move1), tl.exp(move2)
    moment = r1 * (moment + move1 * mass) + r2 * (moment2 + move2 * mass2)
    chosen += tl.load(sums + 4 * field + at, mask=mine, other=0.0)
    return new, moment, chosen, move1, move2, r1, r2, mass2, tl.load(sums + 3 * field + at, mask=mine, other=0.0)


@triton.jit
def merge_pair(sums, out, M, splits, BLOCK: tl.constexpr):
    """(10, splits, M) -> (10, M), slice by slice in order."""
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mine = rows < M
    field = tl.cast(splits, tl.int64) * M
    peak = tl.full((BLOCK,), -1e30, dtype=tl.float32)
    peak2 = tl.full((BLOCK,), -1e30, dtype=tl.float32)
    mass = tl.zeros((BLOCK,), dtype=tl.float32)
    moment = tl.zeros((BLOCK,), dtype=tl.float32)
    cross = tl.zeros((BLOCK,), dtype=tl.float32)
    chosen = tl.zeros((BLOCK,), dtype=tl.float32)
    mass2 = tl.zeros((BLOCK,), dtype=tl.float32)
    moment2 = tl.zeros((BLOCK,), dtype=tl.float32)
    cross2 = tl.zeros((BLOCK,), dtype=tl.float32)
    chosen2 = tl.zeros((BLOCK,), dtype=tl.float32)
    for split in range(splits):
        at = tl.cast(split, tl.int64) * M + rows
        peak, moment, chosen, up, down, r, s, part, x = fold(sums, at, field, mine, peak, mass, moment, chosen)
        peak2, moment2, chosen2, up2, down2, r2, s2, part2, x2 = fold(
            sums + 5 * field, at, field, mine, peak2, mass2, moment2, chosen2
        )
        cross = r * (cross + up2 * mass) + s * (x + down2 * part)
        cross2 = r2 * (cross2 + up * mass2) + s2 * (x2 + down * part2)
        mass = r * mass + s * part
        mass2 = r2 * mass2 + s2 * part2
    tl.store(out + rows, peak, mask=mine)
    tl.store(out + M + rows, mass, mask=mine)
    tl.store(out + 2 * M + rows, moment, mask=mine)
    tl.store(out + 3 * M + rows, cross, mask=mine)
    tl.store(out + 4 * M + rows, chosen, mask=mine)
    tl.store(out + 5 * M + rows, peak2, mask=mine)
    tl.store(out + 6 * M + rows, mass2, mask=mine)
    tl.store(out + 7 * M + rows, moment2, mask=mine)
    tl.store(out + 8 * M + rows, cross2, mask=mine)
    tl.store(out + 9 * M + rows, chosen2, mask=mine)


@triton.jit
def pair_gradient(
    h, w, bias, scale,
    h2, w2, bias2, scale2,
    lse, lse2, a, b, c, f,  # (M,) fp32: both normalisers and the coefficients
    marks, gains,  # (M, L)
    dz,  # out (M, width)
    M, V, H, stride_h, stride_w, softcap, inv_temperature,
    H2, stride_h2, stride_w2, softcap2, inv_temperature2, group_m, first, width, L,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    TMA: tl.constexpr, EVEN: tl.constexpr, PRECISION: tl.constexpr, CAP: tl.constexpr, CAP2: tl.constexpr,
):  # fmt: skip
    """dL/d(policy logits) = p (a + b ln p + c ln q) + f q + gains at the labels; V is the end of the panel."""
    row_tile, column_tile = place(tl.program_id(0), M, group_m, tl.cdiv(width, BN), BM)
    row0, col0 = row_tile * BM, first + column_tile * BN
    rows, columns = row0 + tl.arange(0, BM), col0 + tl.arange(0, BN)
    mine, inside = rows < M, columns < V
    h, w = operands(h, w, M, V, H, stride_h, stride_w, BM, BN, BK, TMA)
    h2, w2 = operands(h2, w2, M, V, H2, stride_h2, stride_w2, BM, BN, BK, TMA)
    factor2 = row_scale(scale2, inv_temperature2, rows, M)
    y = product(h2, w2, row0, col0, M, V, H2, stride_h2, stride_w2, BM, BN, BK, TMA, EVEN, PRECISION)
    y = bend(y, bias2, columns, inside, softcap2, factor2, CAP2)
    logq = tl.maximum(y - tl.load(lse2 + rows, mask=mine, other=float("inf"))[:, None], -1e4)
    factor = row_scale(scale, inv_temperature, rows, M)
    z = product(h, w, row0, col0, M, V, H, stride_h, stride_w, BM, BN, BK, TMA, EVEN, PRECISION)
    z = bend(z, bias, columns, inside, softcap, factor, CAP)
    logp = tl.maximum(z - tl.load(lse + rows, mask=mine, other=float("inf"))[:, None], -1e4)
    slope = tl.load(a + rows, mask=mine, other=0.0)[:, None] + tl.load(b + rows, mask=mine, other=0.0)[:, None] * logp
    slope += tl.load(c + rows, mask=mine, other=0.0)[:, None] * logq
    g = tl.exp(logp) * slope + tl.load(f + rows, mask=mine, other=0.0)[:, None] * tl.exp(logq)
    finish_gradient(g, z, columns, first, rows, marks, gains, factor, softcap, dz, M, V, width, L, CAP)
