# mypy: disable-error-code="no-untyped-def, untyped-decorator"
# Kernels are typed by their pointer comments: Triton has no types to check.
"""Triton kernels of one head: partial sums over a slice of the vocabulary, their merge, and the logits' gradient.

A program owns BM rows. Logits are accumulated in fp32 and stay there: they are never rounded or stored. A slice is a
fixed number of columns, so what a row reads depends on V alone; nothing is added atomically, slices merge in order.
Within a tile offsets are 32-bit on a 64-bit scalar base: 64-bit offset tensors cost registers and spill.
"""

import triton
import triton.language as tl


@triton.jit
def place(pid, M, group_m, column_tiles, BM: tl.constexpr):
    """(row tile, column tile) of a program: rows run fastest inside a group whose states fit the L2 cache."""
    row_tiles = tl.cdiv(M, BM)
    per_group = group_m * column_tiles
    group = pid // per_group
    first = group * group_m
    size = tl.minimum(row_tiles - first, group_m)
    local = pid % per_group
    return first + local % size, local // size


@triton.jit
def operands(
    h, w, M, V, H, stride_h, stride_w, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, TMA: tl.constexpr
):
    """Descriptors of both operands where the hardware copies tiles, else the plain pointers."""
    if TMA:
        h = tl.make_tensor_descriptor(h, shape=[M, H], strides=[stride_h, 1], block_shape=[BM, BK])
        w = tl.make_tensor_descriptor(w, shape=[V, H], strides=[stride_w, 1], block_shape=[BN, BK])
    return h, w


@triton.jit
def product(
    h, w, row0, col0, M, V, H, stride_h, stride_w,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    TMA: tl.constexpr, EVEN: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """hidden[row0:row0+BM] @ weight[col0:col0+BN].T in fp32; past the end the last one repeats, or 0."""
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    if TMA:
        for k in range(0, H, BK):
            acc = tl.dot(h.load([row0, k]), w.load([col0, k]).T, acc, input_precision=PRECISION)
    else:
        depth = tl.arange(0, BK)
        row = tl.minimum(tl.arange(0, BM), M - 1 - row0)
        col = tl.minimum(tl.arange(0, BN), V - 1 - col0)
        h_tile = h + tl.cast(row0, tl.int64) * stride_h + (row[:, None] * stride_h + depth[None, :])  # (BM, BK)
        w_tile = w + tl.cast(col0, tl.int64) * stride_w + (col[None, :] * stride_w + depth[:, None])  # (BK, BN)
        for k in range(0, H, BK):
            if EVEN:
                x, y = tl.load(h_tile), tl.load(w_tile)
            else:
                x = tl.load(h_tile, mask=depth[None, :] < H - k, other=0.0)
                y = tl.load(w_tile, mask=depth[:, None] < H - k, other=0.0)
            acc = tl.dot(x, y, acc, input_precision=PRECISION)
            h_tile += BK
            w_tile += BK
    return acc


@triton.jit
def bend(z, bias, columns, inside, softcap, scale, CAP: tl.constexpr):
    """softcap(z + bias) * scale for a tile z (BM, BN), scale (BM,)."""
    if bias is not None:
        z += tl.load(bias + columns, mask=inside, other=0.0).to(tl.float32)[None, :]
    if CAP:
        # tanh(x) = 1 - 2 / (e^2x + 1): exact at both ends
        z = softcap * (1.0 - 2.0 / (tl.exp(2.0 * z / softcap) + 1.0))
    return z * scale[:, None]


@triton.jit
def row_scale(scale, inv_temperature, rows, M):
    """(BM,) the inverse temperature of each row."""
    if scale is not None:
        return tl.load(scale + rows, mask=rows < M, other=1.0)
    return tl.zeros(rows.shape, dtype=tl.float32) + inv_temperature


@triton.jit
def keep_largest(z, first, best, ids, K: tl.constexpr, KP: tl.constexpr, BN: tl.constexpr):
    """Put the K largest of a tile z (BM, BN) into the running list (BM, KP), unordered; the first of equals wins."""
    slots = tl.arange(0, KP)[None, :]
    local = tl.arange(0, BN)[None, :]
    for _ in range(K):
        value, at = tl.max(z, 1, return_indices=True)
        least, slot = tl.min(best, 1, return_indices=True)
        taken = (slots == slot[:, None]) & (value > least)[:, None]
        best = tl.where(taken, value[:, None], best)
        ids = tl.where(taken, first + at[:, None], ids)
        z = tl.where(local == at[:, None], float("-inf"), z)
    return best, ids


@triton.jit
def head_partials(
    h,  # (M, H) states
    w,  # (>= V, H) head
    bias,  # (>= V,) or None
    scale,  # (M,) fp32 or None: then inv_temperature
    labels,  # (M,) int64, outside [0, V) = not here; or None
    sums,  # out (5, splits, M) fp32: peak, mass, moment, total, label's logit
    top,  # out (splits, M, K) fp32
    top_ids,  # out (splits, M, K) int64
    M, V, H, stride_h, stride_w, group_m, softcap, inv_temperature,
    SPLIT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    TMA: tl.constexpr, EVEN: tl.constexpr, PRECISION: tl.constexpr,
    CAP: tl.constexpr, ENTROPY: tl.constexpr, MEAN: tl.constexpr, K: tl.constexpr, KP: tl.constexpr,
):  # fmt: skip
    """Online sums of BM rows over one slice of SPLIT columns."""
    splits = tl.cdiv(V, SPLIT)
    row_tile, split = place(tl.program_id(0), M, group_m, splits, BM)
    row0 = row_tile * BM
    rows = row0 + tl.arange(0, BM)
    h, w = operands(h, w, M, V, H, stride_h, stride_w, BM, BN, BK, TMA)
    factor = row_scale(scale, inv_temperature, rows, M)
    if labels is not None:
        label = tl.load(labels + rows, mask=rows < M, other=-1).to(tl.int32)
    peak = tl.full((BM,), -1e30, dtype=tl.float32)
    mass = tl.zeros((BM,), dtype=tl.float32)
    moment = tl.zeros((BM,), dtype=tl.float32)
    total = tl.zeros((BM,), dtype=tl.float32)
    chosen = tl.zeros((BM,), dtype=tl.float32)
    if K > 0:
        # slots past K are never the least, so they are never taken
        best = tl.where(tl.arange(0, KP)[None, :] < K, float("-inf"), float("inf")) + tl.zeros(
            (BM, 1), dtype=tl.float32
        )
        ids = tl.zeros((BM, KP), dtype=tl.int32)
    start = split * SPLIT
    for col0 in range(start, tl.minimum(start + SPLIT, V), BN):
        columns = col0 + tl.arange(0, BN)
        inside = columns < V
        z = product(h, w, row0, col0, M, V, H, stride_h, stride_w, BM, BN, BK, TMA, EVEN, PRECISION)
        z = bend(z, bias, columns, inside, softcap, factor, CAP)
        if labels is not None:
            chosen += tl.sum(tl.where((columns[None, :] == label[:, None]) & inside[None, :], z, 0.0), 1)
        if MEAN:
            total += tl.sum(tl.where(inside[None, :], z, 0.0), 1)
        z = tl.where(inside[None, :], z, float("-inf"))
        if K > 0:
            best, ids = keep_largest(z, col0, best, ids, K, KP, BN)
        new = tl.maximum(peak, tl.max(z, 1))
        z -= new[:, None]
        e = tl.exp(z)
        move = peak - new
        shrink = tl.exp(move)
        if ENTROPY:
            moment = shrink * (moment + move * mass) + tl.sum(e * tl.where(e > 0.0, z, 0.0), 1)
        mass = shrink * mass + tl.sum(e, 1)
        peak = new
    at = tl.cast(split, tl.int64) * M + rows
    field = tl.cast(splits, tl.int64) * M
    mine = rows < M
    tl.store(sums + at, peak, mask=mine)
    tl.store(sums + field + at, mass, mask=mine)
    tl.store(sums + 2 * field + at, moment, mask=mine)
    tl.store(sums + 3 * field + at, total, mask=mine)
    tl.store(sums + 4 * field + at, chosen, mask=mine)
    if K > 0:
        slot = tl.arange(0, KP)[None, :]
        kept = mine[:, None] & (slot < K)
        tl.store(top + at[:, None] * K + slot, best, mask=kept)
        tl.store(top_ids + at[:, None] * K + slot, ids.to(tl.int64), mask=kept)


@triton.jit
def merge_partials(sums, out, M, splits, BLOCK: tl.constexpr):
    """(5, splits, M) -> (5, M), slice by slice in order."""
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mine = rows < M
    field = tl.cast(splits, tl.int64) * M
    peak = tl.full((BLOCK,), -1e30, dtype=tl.float32)
    mass = tl.zeros((BLOCK,), dtype=tl.float32)
    moment = tl.zeros((BLOCK,), dtype=tl.float32)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    chosen = tl.zeros((BLOCK,), dtype=tl.float32)
    for split in range(splits):
        at = tl.cast(split, tl.int64) * M + rows
        other = tl.load(sums + at, mask=mine, other=0.0)
        m2 = tl.load(sums + field + at, mask=mine, other=1.0)
        t2 = tl.load(sums + 2 * field + at, mask=mine, other=0.0)
        new = tl.maximum(peak, other)
        move1, move2 = peak - new, other - new
        r1, r2 = tl.exp(move1), tl.exp(move2)
        moment = r1 * (moment + move1 * mass) + r2 * (t2 + move2 * m2)
        mass = r1 * mass + r2 * m2
        total += tl.load(sums + 3 * field + at, mask=mine, other=0.0)
        chosen += tl.load(sums + 4 * field + at, mask=mine, other=0.0)
        peak = new
    tl.store(out + rows, peak, mask=mine)
    tl.store(out + M + rows, mass, mask=mine)
    tl.store(out + 2 * M + rows, moment, mask=mine)
    tl.store(out + 3 * M + rows, total, mask=mine)
    tl.store(out + 4 * M + rows, chosen, mask=mine)


@triton.jit
def finish_gradient(g, z, columns, first, rows, marks, gains, factor, softcap, dz, M, V, width, L, CAP: tl.constexpr):
    """Add the labels' gains in fp32, undo temperature and cap, round and store one tile of dL/d(product)."""
    mine = rows < M
    for label in range(L):
        mark = tl.load(marks + rows * L + label, mask=mine, other=-1).to(tl.int32)
        gain = tl.load(gains + rows * L + label, mask=mine, other=0.0)
        g += tl.where(columns[None, :] == mark[:, None], gain[:, None], 0.0)
    g *= factor[:, None]
    if CAP:
        bent = z / (softcap * factor)[:, None]
        g *= 1.0 - bent * bent
    at = tl.cast(rows, tl.int64)[:, None] * width + (columns - first)[None, :]
    tl.store(dz + at, g.to(dz.dtype.element_ty), mask=mine[:, None] & (columns < V)[None, :])


@triton.jit
def head_gradient(
    h, w, bias, scale,
    lse, a, b, c,  # (M,) fp32 coefficients
    marks,  # (M, L) int64 columns
    gains,  # (M, L) fp32
    dz,  # out (M, width) gradient of columns [first, first + width)
    M, V, H, stride_h, stride_w, group_m, softcap, inv_temperature, first, width, L,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    TMA: tl.constexpr, EVEN: tl.constexpr, PRECISION: tl.constexpr, CAP: tl.constexpr,
):  # fmt: skip
    """dL/dz = p (a + b ln p) + c + gains at the labels, of one tile of logits made again. V is the end of the panel."""
    row_tile, column_tile = place(tl.program_id(0), M, group_m, tl.cdiv(width, BN), BM)
    row0, col0 = row_tile * BM, first + column_tile * BN
    rows, columns = row0 + tl.arange(0, BM), col0 + tl.arange(0, BN)
    mine = rows < M
    h, w = operands(h, w, M, V, H, stride_h, stride_w, BM, BN, BK, TMA)
    factor = row_scale(scale, inv_temperature, rows, M)
    z = product(h, w, row0, col0, M, V, H, stride_h, stride_w, BM, BN, BK, TMA, EVEN, PRECISION)
    z = bend(z, bias, columns, columns < V, softcap, factor, CAP)
    logp = tl.maximum(z - tl.load(lse + rows, mask=mine, other=float("inf"))[:, None], -1e4)
    slope = tl.load(a + rows, mask=mine, other=0.0)[:, None] + tl.load(b + rows, mask=mine, other=0.0)[:, None] * logp
    g = tl.exp(logp) * slope + tl.load(c + rows, mask=mine, other=0.0)[:, None]
    finish_gradient(g, z, columns, first, rows, marks, gains, factor, softcap, dz, M, V, width, L, CAP)
