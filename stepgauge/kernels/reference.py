"""The obvious float64 form of every op: the whole logit matrix, plain formulas, autograd. The oracle of the tests."""

import math

import torch
from torch import Tensor

from stepgauge.kernels.inputs import Spec
from stepgauge.kernels.pair_partials import Side


def logits(hidden: Tensor, weight: Tensor, bias: Tensor | None, spec: Spec) -> Tensor:
    """softcap(hidden @ weight.T + bias) * inverse temperature over the columns that count, (M, vocab) float64."""
    z = hidden.double() @ weight[: spec.vocab].double().T  # (M, vocab)
    if bias is not None:
        z = z + bias[: spec.vocab].double()
    if spec.softcap is not None:
        z = spec.softcap * torch.tanh(z / spec.softcap)
    scale = spec.scale.double().unsqueeze(1) if isinstance(spec.scale, Tensor) else spec.scale
    return z * scale


def expectation(p: Tensor, x: Tensor) -> Tensor:
    """sum_j p_j x_j with 0 * inf = 0."""
    return torch.where(p > 0, p * x, torch.zeros_like(x)).sum(1)


def lm_stats(hidden: Tensor, weight: Tensor, bias: Tensor | None, spec: Spec, k: int) -> dict[str, Tensor]:
    """Every statistic of :func:`stepgauge.kernels.lm_stats` in float64."""
    z = logits(hidden, weight, bias, spec)
    logps = z.log_softmax(1)
    lse = z.logsumexp(1)
    top = logps.topk(k, dim=1) if k else None
    out = {
        "lse": lse,
        "entropy": -expectation(logps.exp(), logps),
        "mean_logit": z.mean(1),
        "self_certainty": lse - z.mean(1) - math.log(spec.vocab),
        "argmax": z.argmax(1),
    }
    if spec.labels is not None:
        out["logp"] = logps.gather(1, spec.labels.unsqueeze(1)).squeeze(1)
    if top is not None:
        out["topk"], out["topk_ids"] = top.values, top.indices
    return out


def pair_stats(policy: Side, reference: Side) -> dict[str, Tensor]:
    """Every statistic of :func:`stepgauge.kernels.pair_stats` in float64."""
    a, b = logits(*policy).log_softmax(1), logits(*reference).log_softmax(1)  # (M, vocab)
    p, q = a.exp(), b.exp()
    out = {
        "entropy": -expectation(p, a),
        "reference_entropy": -expectation(q, b),
        "kl": expectation(p, a - b),
        "reverse_kl": expectation(q, b - a),
    }
    labels = policy[3].labels
    if labels is not None:
        out["log_ratio"] = (a - b).gather(1, labels.unsqueeze(1)).squeeze(1)
    return out
