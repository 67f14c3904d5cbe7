"""`pair_stats`: two heads over one vocabulary, compared token by token without the logits of either."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from stepgauge.kernels import pair_tiled, reference
from stepgauge.kernels.inputs import (
    Rows,
    Spec,
    check_head,
    check_softcap,
    check_vocab,
    check_want,
    choose_rows,
    choose_scale,
)
from stepgauge.kernels.pair_partials import PairSums, pair_slope
from stepgauge.kernels.stats import choose_backend, restore

WANTS = ("log_ratio", "entropy", "reference_entropy", "kl", "reverse_kl")


class Head(NamedTuple):
    """One model's side: logits = inv_temperature · cap(hidden @ weightᵀ + bias), as in :func:`lm_stats`."""

    hidden: Tensor  # (…, T, H)
    weight: Tensor  # (V, H)
    bias: Tensor | None = None
    softcap: float | None = None
    inv_temperature: float | Tensor = 1.0


@dataclass(frozen=True, slots=True)
class PairStats:
    """Token statistics of policy p and reference q; reading one that was not wanted raises AttributeError."""

    values: Mapping[str, Tensor]

    def _get(self, name: str) -> Tensor:
        if name not in self.values:
            raise AttributeError(f"PairStats has no {name}: it was not wanted; add {name!r} to want")
        return self.values[name]

    @property
    def log_ratio(self) -> Tensor:
        """ln p(target) - ln q(target), nats."""
        return self._get("log_ratio")

    @property
    def entropy(self) -> Tensor:
        """Of p, nats."""
        return self._get("entropy")

    @property
    def reference_entropy(self) -> Tensor:
        """Of q, nats."""
        return self._get("reference_entropy")

    @property
    def kl(self) -> Tensor:
        """KL(p || q) = sum_j p_j ln(p_j / q_j), nats."""
        return self._get("kl")

    @property
    def reverse_kl(self) -> Tensor:
        """KL(q || p), nats."""
        return self._get("reverse_kl")


class _Pair(torch.autograd.Function):
    """(log-ratio, entropy, reference entropy, kl, reverse kl); only the policy gets gradients."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, spec: Spec, other: tuple[Any, ...], backend: str
    ) -> tuple[Tensor, ...]:
        sums: PairSums = _backend(backend).partials((hidden, weight, bias, spec), other)
        ctx.save_for_backward(hidden, weight, bias)
        ctx.sums, ctx.spec, ctx.other, ctx.backend = sums, spec, other, backend
        ctx.set_materialize_grads(False)
        return sums.log_ratio, sums.entropy, sums.reference_entropy, sums.kl, sums.reverse_kl

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        hidden, weight, bias = ctx.saved_tensors
        g_ratio, g_entropy, _, g_kl, g_reverse = grads
        down = pair_slope(ctx.sums, ctx.spec.labels, g_ratio, g_entropy, g_kl, g_reverse)
        policy = (hidden, weight, bias, ctx.spec)
        return (*_backend(ctx.backend).gradients(policy, ctx.other, down, ctx.needs_input_grad[:3]), None, None, None)


def _backend(name: str) -> Any:
    if name == "torch":
        return pair_tiled
    from stepgauge.kernels import pair_fused

    return pair_fused


def _prepare(
    head: Head, rows: Rows, labels: Tensor | None, vocab: int, name: str
) -> tuple[Tensor, Tensor, Tensor | None, Spec]:
    """One side's kept rows and how its logits are made."""
    scale = choose_scale(head.inv_temperature, rows, head.hidden, name)
    states = rows.select(head.hidden.reshape(-1, head.hidden.shape[-1]))  # (M, H)
    return states, head.weight, head.bias, Spec(labels, vocab, head.softcap, scale)


def pair_stats(
    policy: Head,
    reference_head: Head,
    targets: Tensor | None,
    *,
    ignore_index: int = -100,
    vocab_valid: int | None = None,
    want: Collection[str] = ("log_ratio", "kl"),
    backend: str | None = None,
) -> PairStats:
    r"""Log-ratio, entropies and both divergences of a policy p and a reference q, without the logits of either.

    log_ratio = ln p_y − ln q_y · kl = Σ_j p_j ln(p_j / q_j) · reverse_kl = Σ_j q_j ln(q_j / p_j) ·
    entropy, reference_entropy = −Σ_j p_j ln p_j of p and of q.

    Args:
        policy: Head; hidden (…, T, H), weight (V, H).
        reference_head: Head over the same tokens and vocabulary; its H may differ. No gradient flows to it.
        targets: (…, T) integer ids; None if "log_ratio" is not wanted.
        ignore_index: the target of tokens to skip; their statistics and gradients are 0.
        vocab_valid: columns that count, default the smaller V.
        want: names out of log_ratio, entropy, reference_entropy, kl, reverse_kl.
        backend: "reference", "torch" or "triton"; None chooses.

    Returns:
        PairStats with one tensor a wanted name, shape (…, T), nats, fp32 (float64 for float64 inputs), differentiable
        in the policy's hidden, weight and bias (reference_entropy is constant).

    Raises:
        ValueError, TypeError: a shape, dtype, device, id or name that does not fit; the message names it.

    Example:
        >>> import torch
        >>> policy = Head(torch.tensor([[2.0, 0.0]]), torch.eye(2))
        >>> uniform = Head(torch.tensor([[0.0]]), torch.ones(2, 1))
        >>> stats = pair_stats(policy, uniform, torch.tensor([0]))
        >>> round(stats.log_ratio.item(), 4), round(stats.kl.item(), 4)
        (0.5662, 0.3278)

    Source: the log-ratio as an implicit process reward, Yuan et al. 2024, https://arxiv.org/abs/2412.01981.
    """
    owner = "pair_stats"
    names = check_want(tuple(want), WANTS, owner)
    for head, name in ((policy, f"{owner}: policy"), (reference_head, f"{owner}: reference_head")):
        check_head(head.hidden, head.weight, head.bias, name)
        check_softcap(head.softcap, name)
    if (
        policy.hidden.shape[:-1] != reference_head.hidden.shape[:-1]
        or policy.hidden.dtype != reference_head.hidden.dtype
    ):
        raise ValueError(
            f"{owner}: reference_head.hidden must have the policy's tokens and dtype, {tuple(policy.hidden.shape[:-1])}"
            f" {policy.hidden.dtype}, got {tuple(reference_head.hidden.shape[:-1])} {reference_head.hidden.dtype}"
        )
    smaller = min(policy.weight, reference_head.weight, key=len)
    vocab = check_vocab(smaller, vocab_valid, owner)
    if targets is None and "log_ratio" in names:
        raise ValueError(f"{owner}: targets must be given when 'log_ratio' is wanted, got None")
    chosen = choose_backend(backend, policy.hidden, owner)
    rows = choose_rows(targets, policy.hidden.shape[:-1], ignore_index, vocab, owner)
    labels = None if targets is None else rows.select(targets.reshape(-1)).to(torch.int64)
    policy_side = _prepare(policy, rows, labels, vocab, owner)
    with torch.no_grad():
        reference_side = _prepare(reference_head, rows, labels, vocab, owner)
    if chosen == "reference":
        states, weight, bias, spec = reference_side
        frozen = (states.detach(), weight.detach(), None if bias is None else bias.detach(), spec)
        values = reference.pair_stats(policy_side, frozen)
    else:
        found = _Pair.apply(*policy_side, reference_side, chosen)  # type: ignore[no-untyped-call]
        values = dict(zip(WANTS, found, strict=True))
    return PairStats(restore(values, names, rows, policy.hidden))
