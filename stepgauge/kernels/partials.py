"""What one part of the vocabulary knows of each row, how two parts become one, and the backward coefficients.

With m the largest logit z of the part: mass s = sum e^(z-m), moment t = sum e^(z-m) (z-m), total u = sum z. Then
lse = m + ln s, entropy = ln s - t/s, mean logit = u/V. The moment is centred on m, so shifted logits lose no digits;
moving the centre by d = m_old - m_new <= 0 turns (s, t) into e^d (s, t + d s).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

FLOOR = -1e30  # stands for the largest logit of a part without a finite one


@dataclass(frozen=True, slots=True)
class Needs:
    """What has to be collected besides the log-normaliser and the label's logit."""

    entropy: bool
    mean: bool
    k: int  # number of largest logits kept, 0 is none


@dataclass(frozen=True, slots=True)
class Partials:
    """Sums of one part of the vocabulary, one row a token; what was not needed is zero or of width zero."""

    peak: Tensor  # (M,) m
    mass: Tensor  # (M,) s
    moment: Tensor  # (M,) t
    total: Tensor  # (M,) u
    label: Tensor  # (M,) the label's logit where this part has it, else 0
    top: Tensor  # (M, k) largest logits, falling
    top_ids: Tensor  # (M, k) int64, their columns in the whole vocabulary
    columns: int

    @property
    def lse(self) -> Tensor:
        return self.peak + self.mass.log()

    @property
    def entropy(self) -> Tensor:
        return self.mass.log() - self.moment / self.mass

    @property
    def mean_logit(self) -> Tensor:
        return self.total / self.columns


def largest(values: Tensor, ids: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest of each row, falling, and their ids; of equal values the smaller id comes first."""
    by_id = ids.sort(dim=1)
    order = values.gather(1, by_id.indices).sort(dim=1, descending=True, stable=True)
    return order.values[:, :k], by_id.values.gather(1, order.indices[:, :k])


def merge_two(one: Partials, two: Partials) -> Partials:
    peak = torch.maximum(one.peak, two.peak)
    move1, move2 = one.peak - peak, two.peak - peak
    r1, r2 = move1.exp(), move2.exp()
    top, ids = largest(torch.cat([one.top, two.top], 1), torch.cat([one.top_ids, two.top_ids], 1), one.top.shape[1])
    return Partials(
        peak=peak,
        mass=r1 * one.mass + r2 * two.mass,
        moment=r1 * (one.moment + move1 * one.mass) + r2 * (two.moment + move2 * two.mass),
        total=one.total + two.total,
        label=one.label + two.label,
        top=top,
        top_ids=ids,
        columns=one.columns + two.columns,
    )


def merge(parts: Sequence[Partials]) -> Partials:
    """Fold the parts in the order given; elementwise, so a row never depends on the other rows."""
    whole = parts[0]
    for part in parts[1:]:
        whole = merge_two(whole, part)
    return whole


@dataclass(frozen=True, slots=True)
class Slope:
    """dL/dz_j = p_j (a + b ln p_j) + c + sum_l gain_l [j = mark_l], for any mix of the outputs."""

    lse: Tensor  # (M,)
    a: Tensor  # (M,)
    b: Tensor  # (M,)
    c: Tensor  # (M,)
    marks: Tensor  # (M, L) int64 columns
    gains: Tensor  # (M, L)


def slope(
    whole: Partials,
    labels: Tensor | None,
    g_logp: Tensor | None,
    g_lse: Tensor | None,
    g_entropy: Tensor | None,
    g_mean: Tensor | None,
    g_top: Tensor | None,
) -> Slope:
    """The coefficients of the outputs' gradients.

    logp: a -= g, gain = g · lse: a += g · entropy H: b -= g, a -= g H · mean: c += g / V ·
    top-k: a -= sum g, gain_k = g_k.
    Centring on ln p instead of z keeps the entropy's gradient exact for shifted logits.
    """
    a, b, c = (torch.zeros_like(whole.peak) for _ in range(3))
    marks: list[Tensor] = []
    gains: list[Tensor] = []
    if g_logp is not None and labels is not None:
        a = a - g_logp
        marks.append(labels.unsqueeze(1))
        gains.append(g_logp.unsqueeze(1))
    if g_lse is not None:
        a = a + g_lse
    if g_entropy is not None:
        a, b = a - g_entropy * whole.entropy, b - g_entropy
    if g_mean is not None:
        c = c + g_mean / whole.columns
    if g_top is not None:
        a = a - g_top.sum(1)
        marks.append(whole.top_ids)
        gains.append(g_top)
    if not marks:
        return Slope(whole.lse, a, b, c, whole.top_ids[:, :0], whole.top[:, :0])
    return Slope(whole.lse, a, b, c, torch.cat(marks, 1), torch.cat(gains, 1))
