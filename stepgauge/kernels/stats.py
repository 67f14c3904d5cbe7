"""`lm_stats`: token statistics of a language-model head without its logits, and the choice of the backend."""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from stepgauge.kernels import reference, tiled, tiled_backward
from stepgauge.kernels.inputs import (
    Rows,
    Spec,
    check_head,
    check_softcap,
    check_vocab,
    check_want,
    choose_rows,
    choose_scale,
    result_dtype,
)
from stepgauge.kernels.partials import Needs, Partials, Slope, slope

WANTS = ("logp", "lse", "entropy", "mean_logit", "self_certainty", "argmax", "topk")
BACKENDS = ("reference", "torch", "triton")

PartialsOf = Callable[[Tensor, Tensor, Tensor | None, Spec, Needs], Partials]
Gradients = Callable[
    [Tensor, Tensor, Tensor | None, Spec, Slope, tuple[bool, bool, bool]],
    tuple[Tensor | None, Tensor | None, Tensor | None],
]


@dataclass(frozen=True, slots=True)
class LmStats:
    """Token statistics; reading one that was not wanted raises AttributeError.

    Each has the tokens' shape, fp32 (float64 for float64 inputs). Tokens with the ignored target read 0 (ids: -1).
    """

    values: Mapping[str, Tensor]

    def _get(self, name: str) -> Tensor:
        if name not in self.values:
            raise AttributeError(f"LmStats has no {name}: it was not wanted; add {name.removesuffix('_ids')!r} to want")
        return self.values[name]

    @property
    def logp(self) -> Tensor:
        """ln p(target), nats."""
        return self._get("logp")

    @property
    def lse(self) -> Tensor:
        """ln sum_j e^(z_j), nats."""
        return self._get("lse")

    @property
    def entropy(self) -> Tensor:
        """-sum_j p_j ln p_j, nats."""
        return self._get("entropy")

    @property
    def mean_logit(self) -> Tensor:
        """sum_j z_j / V."""
        return self._get("mean_logit")

    @property
    def self_certainty(self) -> Tensor:
        """KL(uniform || p) = lse - mean logit - ln V, nats; +inf where a logit is -inf."""
        return self._get("self_certainty")

    @property
    def argmax(self) -> Tensor:
        """The likeliest id, int64; the first of equals."""
        return self._get("argmax")

    @property
    def topk(self) -> Tensor:
        """(…, k) the k largest ln p, nats, falling."""
        return self._get("topk")

    @property
    def topk_ids(self) -> Tensor:
        """(…, k) their ids, int64."""
        return self._get("topk_ids")


class _Head(torch.autograd.Function):
    """(logp, lse, entropy, mean, top logp, top ids) of one head; the logits are made twice, kept never."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, spec: Spec, needs: Needs, backend: str
    ) -> tuple[Tensor, ...]:
        whole = partials_of(backend)(hidden, weight, bias, spec, needs)
        ctx.save_for_backward(hidden, weight, bias)
        ctx.whole, ctx.spec, ctx.needs, ctx.backend = whole, spec, needs, backend
        ctx.mark_non_differentiable(whole.top_ids)
        ctx.set_materialize_grads(False)
        return outputs(whole)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        hidden, weight, bias = ctx.saved_tensors
        down = slope(ctx.whole, ctx.spec.labels, *grads[:5])
        wanted = ctx.needs_input_grad[:3]
        return (*gradients_of(ctx.backend)(hidden, weight, bias, ctx.spec, down, wanted), None, None, None)


def partials_of(backend: str) -> PartialsOf:
    if backend == "torch":
        return tiled.partials
    from stepgauge.kernels import fused

    return fused.partials


def gradients_of(backend: str) -> Gradients:
    if backend == "torch":
        return tiled_backward.gradients
    from stepgauge.kernels import fused_backward

    return fused_backward.gradients


def choose_backend(backend: str | None, hidden: Tensor, owner: str) -> str:
    """The forced backend, or triton for 16-bit and fp32 heads on a GPU that has it, else torch."""
    if backend is None:
        from stepgauge.kernels.configs import triton_runs_on

        return "triton" if hidden.dtype != torch.float64 and triton_runs_on(hidden.device) else "torch"
    if backend not in BACKENDS:
        raise ValueError(f"{owner}: backend must be one of {', '.join(BACKENDS)} or None, got {backend!r}")
    if backend == "triton" and hidden.dtype == torch.float64:
        raise TypeError(f"{owner}: backend 'triton' takes bf16, fp16 or fp32, got float64; use 'torch' or 'reference'")
    return backend


def lm_stats(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor | None,
    *,
    bias: Tensor | None = None,
    softcap: float | None = None,
    inv_temperature: float | Tensor = 1.0,
    ignore_index: int = -100,
    vocab_valid: int | None = None,
    want: Collection[str] = ("logp",),
    k: int = 8,
    backend: str | None = None,
) -> LmStats:
    r"""Token statistics of ``softmax(z)``, z = inv_temperature · cap(hidden @ weightᵀ + bias), without materialising z.

    logp = z_y − lse · lse = ln Σ_j e^{z_j} · entropy = −Σ_j p_j ln p_j · mean_logit = Σ_j z_j / V ·
    self_certainty = lse − mean_logit − ln V · cap(x) = softcap · tanh(x / softcap).

    Args:
        hidden: (…, T, H) bf16, fp16, fp32 or fp64, the states that enter the head, aligned with ``targets``.
        weight: (V, H), the head, same dtype.
        targets: (…, T) integer ids; None if "logp" is not wanted. Tokens equal to ``ignore_index`` cost nothing.
        bias: (V,).
        softcap: logit cap, applied before the temperature.
        inv_temperature: 1 / temperature, a number or one a token (…, T); no gradient flows to it.
        ignore_index: the target of tokens to skip; their statistics are 0, their ids -1, their gradients 0.
        vocab_valid: columns that count, for heads padded beyond the tokenizer; default V.
        want: names out of logp, lse, entropy, mean_logit, self_certainty, argmax, topk.
        k: how many "topk" keeps (1 to 32).
        backend: "reference" (float64 inside), "torch" or "triton"; None chooses. All have one signature and meaning.

    Returns:
        LmStats with one tensor a wanted name, shape (…, T) ((…, T, k) for topk and topk_ids), in nats, fp32 (float64
        for float64 inputs), differentiable in hidden, weight and bias. A row's bits do not depend on the other rows.

    Raises:
        ValueError, TypeError: a shape, dtype, device, id or name that does not fit; the message names it.

    Example:
        >>> import torch
        >>> hidden, weight = torch.tensor([[2.0, 0.0, -1.0]]), torch.eye(3)
        >>> stats = lm_stats(hidden, weight, torch.tensor([0]), want=("logp", "entropy", "self_certainty"))
        >>> [round(x.item(), 4) for x in (stats.logp, stats.entropy, stats.self_certainty)]
        [-0.1698, 0.5243, 0.7379]

    Source: self-certainty, Kang et al. 2025, https://arxiv.org/abs/2502.18581; online normaliser, Milakov & Gimelshein
    2018, https://arxiv.org/abs/1805.02867.
    """
    owner = "lm_stats"
    names = check_want(tuple(want), WANTS, owner)
    check_head(hidden, weight, bias, owner)
    check_softcap(softcap, owner)
    vocab = check_vocab(weight, vocab_valid, owner)
    backend = choose_backend(backend, hidden, owner)
    if targets is None and "logp" in names:
        raise ValueError(f"{owner}: targets must be given when 'logp' is wanted, got None")
    if "topk" in names and not 1 <= k <= min(vocab, 32):
        raise ValueError(f"{owner}: k must be in [1, {min(vocab, 32)}], got {k}")
    rows = choose_rows(targets, hidden.shape[:-1], ignore_index, vocab, owner)
    labels = None if targets is None else rows.select(targets.reshape(-1)).to(torch.int64)
    spec = Spec(labels, vocab, softcap, choose_scale(inv_temperature, rows, hidden, owner))
    states = rows.select(hidden.reshape(-1, hidden.shape[-1]))  # (M, H)
    kept = k if "topk" in names else 1 if "argmax" in names else 0
    values = _values(states, weight, bias, spec, names, kept, backend)
    return LmStats(restore(values, names, rows, hidden))


def _values(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, spec: Spec, names: Collection[str], k: int, backend: str
) -> Mapping[str, Tensor]:
    """Every statistic that comes with the wanted ones, one row a kept token."""
    if backend == "reference":
        return reference.lm_stats(hidden, weight, bias, spec, k)
    needs = Needs("entropy" in names, bool({"mean_logit", "self_certainty"} & set(names)), k)
    return named(_Head.apply(hidden, weight, bias, spec, needs, backend), spec.vocab)  # type: ignore[no-untyped-call]


def outputs(whole: Partials) -> tuple[Tensor, ...]:
    """(logp, lse, entropy, mean, top logp, top ids)"""
    lse = whole.lse
    return whole.label - lse, lse, whole.entropy, whole.mean_logit, whole.top - lse.unsqueeze(1), whole.top_ids


def named(found: tuple[Tensor, ...], vocab: int) -> dict[str, Tensor]:
    """The outputs by their public names."""
    logp, lse, entropy, mean, top, ids = found
    values = {"logp": logp, "lse": lse, "entropy": entropy, "mean_logit": mean, "topk": top, "topk_ids": ids}
    values["self_certainty"] = lse - mean - math.log(vocab)
    if ids.shape[1]:
        values["argmax"] = ids[:, 0]
    return values


def statistics(whole: Partials) -> dict[str, Tensor]:
    """All statistics of finished sums, by name."""
    return named(outputs(whole), whole.columns)


def restore(values: Mapping[str, Tensor], names: Collection[str], rows: Rows, like: Tensor) -> dict[str, Tensor]:
    """The wanted values in the caller's token shape and the result dtype."""
    wanted = [*names, "topk_ids"] if "topk" in names else names
    out = {}
    for name in wanted:
        ids = name in ("argmax", "topk_ids")
        out[name] = rows.restore(values[name] if ids else values[name].to(result_dtype(like)), -1 if ids else 0)
    return out
