"""Heads to test with: fixed seeds, any dtype, the float64 oracle and the same-dtype peer."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from stepgauge.kernels import LmStats, lm_stats

EVERY = ("logp", "lse", "entropy", "mean_logit", "self_certainty", "argmax", "topk")
FLOATS = ("logp", "lse", "entropy", "mean_logit", "self_certainty", "topk")


@dataclass
class Case:
    """One head over some tokens; ``more`` are further arguments of lm_stats."""

    hidden: Tensor
    weight: Tensor
    targets: Tensor
    bias: Tensor | None = None
    more: dict[str, Any] = field(default_factory=dict)

    def run(self, backend: str, **changes: Any) -> LmStats:
        arguments = {"bias": self.bias, "want": EVERY, "k": min(4, len(self.weight)), **self.more, **changes}
        return lm_stats(self.hidden, self.weight, self.targets, backend=backend, **arguments)

    def exact(self, **changes: Any) -> LmStats:
        """The float64 oracle."""
        return self.to(torch.float64).run("reference", **changes)

    def to(self, dtype: torch.dtype, grad: bool = False) -> "Case":
        def cast(x: Tensor) -> Tensor:
            return x.detach().to(dtype).requires_grad_(grad)

        bias = None if self.bias is None else cast(self.bias)
        return Case(cast(self.hidden), cast(self.weight), self.targets, bias, self.more)


def head(
    tokens: int, width: int, vocab: int, *, dtype: torch.dtype = torch.float32, spread: float = 3.0, seed: int = 0,
    with_bias: bool = False, ignored: int = 0, **more: Any,
) -> Case:  # fmt: skip
    """Gaussian logits of standard deviation ``spread``; a third of the targets are the likeliest id."""
    random = torch.Generator().manual_seed(seed)
    hidden = torch.randn(tokens, width, generator=random).to(dtype)
    weight = (torch.randn(vocab, width, generator=random) * spread / width**0.5).to(dtype)
    targets = torch.randint(0, more.get("vocab_valid") or vocab, (tokens,), generator=random)
    likeliest = (hidden.double() @ weight[: more.get("vocab_valid")].double().T).argmax(1)
    targets[::3] = likeliest[::3]
    targets[:ignored] = -100
    bias = torch.randn(vocab, generator=random).to(dtype) if with_bias else None
    return Case(hidden, weight, targets, bias, more)


def per_token(tokens: int, seed: int = 1) -> Tensor:
    """Inverse temperatures between 0.5 and 1.5."""
    return torch.rand(tokens, generator=torch.Generator().manual_seed(seed)) + 0.5


def gap(got: Tensor, exact: Tensor) -> float:
    """Largest absolute difference; equal infinities differ by nothing."""
    difference = (got.double() - exact.double()).abs()
    return difference.masked_fill(got.double() == exact.double(), 0.0).max().item() if len(got.reshape(-1)) else 0.0
