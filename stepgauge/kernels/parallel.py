"""Tensor-parallel heads: each rank reduces its share of the vocabulary to a few numbers a token, any rank merges."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from stepgauge.kernels.inputs import Rows, Spec, check_head, check_softcap, check_want, choose_rows, choose_scale
from stepgauge.kernels.partials import Needs, Partials, merge
from stepgauge.kernels.stats import WANTS, LmStats, choose_backend, partials_of, restore, statistics


@dataclass(frozen=True, slots=True)
class ShardPartials:
    """One rank's sums (plain tensors: gather them as you like) and which tokens they belong to."""

    sums: Partials
    rows: Rows


def lm_partials(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    *,
    first: int,
    vocab: int,
    bias: Tensor | None = None,
    softcap: float | None = None,
    inv_temperature: float | Tensor = 1.0,
    ignore_index: int = -100,
    k: int = 0,
    backend: str | None = None,
) -> ShardPartials:
    r"""One rank's part of :func:`lm_stats`: sums over its columns, mergeable with the other ranks'.

    With m = max_j z_j: Σ e^{z−m}, Σ e^{z−m}(z−m), Σ z, the target's logit if it is here, the k largest. Forward only.

    Args:
        hidden: (…, T, H), the same on every rank.
        weight: (V_r, H), this rank's rows of the head: ids [first, first + V_r).
        targets: (…, T) ids in the whole vocabulary.
        first: id of this rank's first row.
        vocab: columns of the whole vocabulary that count; rows at or beyond it are padding and left out.
        bias, softcap, inv_temperature, ignore_index: as in lm_stats; bias is this rank's (V_r,).
        k: how many of the largest logits to keep; 1 for "argmax" after the merge, k for "topk".
        backend: "torch" or "triton"; None chooses.

    Returns:
        ShardPartials; pass those of all ranks, in the order of ``first``, to :func:`merge_partials`.

    Raises:
        ValueError, TypeError: as lm_stats; ``first`` must leave this rank at least one column that counts.

    Example:
        >>> import torch
        >>> hidden, weight, targets = torch.tensor([[2.0, 0.0, -1.0]]), torch.eye(3), torch.tensor([0])
        >>> parts = [lm_partials(hidden, weight[i : i + 1], targets, first=i, vocab=3) for i in range(3)]
        >>> round(merge_partials(parts, want=("self_certainty",)).self_certainty.item(), 4)
        0.7379
    """
    owner = "lm_partials"
    check_head(hidden, weight, bias, owner)
    check_softcap(softcap, owner)
    if not 0 <= first < vocab:
        raise ValueError(
            f"{owner}: first must be in [0, {vocab}), got {first}; leave out a rank that holds padding only"
        )
    columns = min(len(weight), vocab - first)
    chosen = choose_backend(backend, hidden, owner)
    if chosen == "reference":
        raise ValueError(
            f"{owner}: backend must be 'torch' or 'triton', got 'reference'; it has no parts, use lm_stats"
        )
    if not 0 <= k <= min(columns, 32):
        raise ValueError(f"{owner}: k must be in [0, {min(columns, 32)}], got {k}")
    rows = choose_rows(targets, hidden.shape[:-1], ignore_index, vocab, owner)
    labels = rows.select(targets.reshape(-1)).to(torch.int64) - first
    spec = Spec(labels, columns, softcap, choose_scale(inv_temperature, rows, hidden, owner))
    with torch.no_grad():
        states = rows.select(hidden.reshape(-1, hidden.shape[-1]))
        sums = partials_of(chosen)(states, weight, bias, spec, Needs(True, True, k))
    sums.top_ids.add_(first)
    return ShardPartials(sums, rows)


def merge_partials(parts: Sequence[ShardPartials], *, want: Collection[str] = ("logp",)) -> LmStats:
    """The statistics of the whole vocabulary from all ranks' sums.

    Args:
        parts: one ShardPartials a rank, in vocabulary order, on one device.
        want: names as in :func:`lm_stats`; "argmax" and "topk" need parts made with k > 0.

    Returns:
        LmStats, fp32, nats; see :func:`lm_partials` for an example.

    Raises:
        ValueError: no parts, or "argmax" or "topk" wanted of parts that kept no largest logits.
    """
    owner = "merge_partials"
    names = check_want(tuple(want), WANTS, owner)
    if not parts:
        raise ValueError(f"{owner}: parts must hold one ShardPartials a rank, got none")
    whole = merge([part.sums for part in parts])
    if {"argmax", "topk"} & set(names) and whole.top.shape[1] == 0:
        raise ValueError(f"{owner}: parts kept no largest logits but {names} is wanted; call lm_partials with k > 0")
    return LmStats(restore(statistics(whole), names, parts[0].rows, whole.peak))
