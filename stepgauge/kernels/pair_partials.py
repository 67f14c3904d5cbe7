"""Sums of two heads over one vocabulary, what they tell, and the policy's backward coefficients."""

from dataclasses import dataclass

import torch
from torch import Tensor

from stepgauge.kernels.inputs import Spec

Side = tuple[Tensor, Tensor, Tensor | None, Spec]  # one head: hidden (M, H), weight (V, H), bias, spec


@dataclass(frozen=True, slots=True)
class OneSide:
    """One head's sums, all (M,): m the largest logit z, s = sum e^(z-m), t = sum e^(z-m) (z-m),
    x = sum e^(z-m) (z'-m') with the other head's logits z', and the label's logit."""

    peak: Tensor
    mass: Tensor
    moment: Tensor
    cross: Tensor
    label: Tensor

    @property
    def lse(self) -> Tensor:
        return self.peak + self.mass.log()

    @property
    def entropy(self) -> Tensor:
        return self.mass.log() - self.moment / self.mass

    def divergence(self, other: "OneSide") -> Tensor:
        """KL(self || other) = sum p (ln p - ln p'); centred on the peaks, so shifts cancel exactly."""
        return (self.moment - self.cross) / self.mass - self.mass.log() + other.mass.log()


@dataclass(frozen=True, slots=True)
class PairSums:
    """Both sides, and the statistics they make."""

    policy: OneSide
    reference: OneSide

    @property
    def log_ratio(self) -> Tensor:
        return (self.policy.label - self.policy.lse) - (self.reference.label - self.reference.lse)

    @property
    def entropy(self) -> Tensor:
        return self.policy.entropy

    @property
    def reference_entropy(self) -> Tensor:
        return self.reference.entropy

    @property
    def kl(self) -> Tensor:
        return self.policy.divergence(self.reference)

    @property
    def reverse_kl(self) -> Tensor:
        return self.reference.divergence(self.policy)


@dataclass(frozen=True, slots=True)
class PairSlope:
    """dL/d(policy logit j) = p_j (a + b ln p_j + c ln q_j) + f q_j + gain [j = label]."""

    lse: Tensor  # (M,) of the policy
    lse2: Tensor  # (M,) of the reference
    a: Tensor
    b: Tensor
    c: Tensor
    f: Tensor
    marks: Tensor  # (M, L)
    gains: Tensor  # (M, L)


def pair_slope(
    sums: PairSums,
    labels: Tensor | None,
    g_ratio: Tensor | None,
    g_entropy: Tensor | None,
    g_kl: Tensor | None,
    g_reverse: Tensor | None,
) -> PairSlope:
    """The coefficients of the outputs' gradients.

    log-ratio: a -= g, gain = g · entropy H: b -= g, a -= g H · KL(p|q): a -= g KL, b += g, c -= g ·
    KL(q|p): a += g, f -= g.
    """
    lse = sums.policy.lse
    a, b, c, f = (torch.zeros_like(lse) for _ in range(4))
    marks = torch.zeros((len(lse), 0), dtype=torch.int64, device=lse.device)
    gains = lse.new_zeros((len(lse), 0))
    if g_ratio is not None and labels is not None:
        a, marks, gains = a - g_ratio, labels.unsqueeze(1), g_ratio.unsqueeze(1)
    if g_entropy is not None:
        a, b = a - g_entropy * sums.entropy, b - g_entropy
    if g_kl is not None:
        a, b, c = a - g_kl * sums.kl, b + g_kl, c - g_kl
    if g_reverse is not None:
        a, f = a + g_reverse, f - g_reverse
    return PairSlope(lse, sums.reference.lse, a, b, c, f, marks, gains)
