"""pair_stats against float64, its identities, and its gradients."""

import pytest
import torch

from stepgauge.kernels import Head, lm_stats, pair_stats
from tests.kernels.heads import gap, head, per_token

BF16, FP32, FP64 = torch.bfloat16, torch.float32, torch.float64
EVERY = ("log_ratio", "entropy", "reference_entropy", "kl", "reverse_kl")


def sides(tokens=21, vocab=1301, dtype=FP32, widths=(24, 16), ignored=0, **more):
    policy = head(tokens, widths[0], vocab, dtype=dtype, seed=1, ignored=ignored, **more)
    other = head(tokens, widths[1], vocab, dtype=dtype, seed=2, spread=2.0)
    bent = {name: policy.more.get(name) for name in ("softcap",)}
    scale = policy.more.get("inv_temperature", 1.0)
    return (
        Head(policy.hidden, policy.weight, policy.bias, bent["softcap"], scale),
        Head(other.hidden, other.weight),
        policy.targets,
    )


def to(side, dtype, grad=False):
    return side._replace(
        **{
            name: None if x is None else x.detach().to(dtype).requires_grad_(grad)
            for name, x in (("hidden", side.hidden), ("weight", side.weight), ("bias", side.bias))
        }
    )


CASES = {
    "plain": sides(),
    "equal_widths": sides(widths=(16, 16)),
    "ragged": sides(tokens=35, vocab=1111, widths=(41, 7)),
    "bent": sides(with_bias=True, softcap=15.0, inv_temperature=per_token(21)),
    "ignored": sides(ignored=6),
}


@pytest.mark.parametrize("dtype", [FP32, BF16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("name", CASES)
def test_against_float64(name, dtype, backend):
    policy, other, targets = CASES[name]
    policy, other = to(policy, dtype), to(other, dtype)
    got = pair_stats(policy, other, targets, want=EVERY, backend=backend)
    exact = pair_stats(to(policy, FP64), to(other, FP64), targets, want=EVERY, backend="reference")
    for statistic in EVERY:
        assert gap(getattr(got, statistic), getattr(exact, statistic)) <= 3e-5, statistic


def test_a_model_against_itself(backend):
    policy, _, targets = CASES["plain"]
    got = pair_stats(policy, policy, targets, want=EVERY, backend=backend)
    assert not got.log_ratio.any()
    assert not got.kl.any()
    assert torch.equal(got.entropy, got.reference_entropy)


def test_it_agrees_with_two_heads(backend):
    policy, other, targets = CASES["plain"]
    got = pair_stats(policy, other, targets, want=EVERY, backend=backend)
    one = lm_stats(policy.hidden, policy.weight, targets, want=("logp", "entropy"), backend=backend)
    two = lm_stats(other.hidden, other.weight, targets, want=("logp", "entropy"), backend=backend)
    assert gap(got.log_ratio, one.logp - two.logp) <= 1e-5
    assert gap(got.entropy, one.entropy) <= 1e-5
    assert gap(got.reference_entropy, two.entropy) <= 1e-5
    assert (got.kl > 0).all()
    assert (got.reverse_kl > 0).all()


def test_swapping_sides_swaps_divergences(backend):
    policy, other, targets = CASES["equal_widths"]
    forth = pair_stats(policy, other, targets, want=EVERY, backend=backend)
    back = pair_stats(other, policy, targets, want=EVERY, backend=backend)
    assert gap(forth.kl, back.reverse_kl) <= 1e-6
    assert gap(forth.log_ratio, -back.log_ratio) <= 1e-6


def test_a_row_does_not_see_its_batch(backend):
    n = 140 if backend == "torch" else 40
    policy, other, targets = sides(tokens=n, vocab=600)
    whole = pair_stats(policy, other, targets, want=EVERY, backend=backend)
    for rows in (torch.tensor([n // 2]), torch.arange(n).flip(0)):
        a, b = policy._replace(hidden=policy.hidden[rows]), other._replace(hidden=other.hidden[rows])
        part = pair_stats(a, b, targets[rows], want=EVERY, backend=backend)
        for statistic in EVERY:
            assert torch.equal(getattr(part, statistic), getattr(whole, statistic)[rows]), statistic


@pytest.mark.parametrize("statistic", ["log_ratio", "entropy", "kl", "reverse_kl"])
def test_gradcheck(statistic):
    policy, other, targets = sides(tokens=4, vocab=7, widths=(3, 2), with_bias=True, softcap=8.0, ignored=1)
    policy, other = to(policy, FP64, grad=True), to(other, FP64)

    def run(hidden, weight, bias):
        mine = policy._replace(hidden=hidden, weight=weight, bias=bias)
        return getattr(pair_stats(mine, other, targets, want=(statistic,), backend="torch"), statistic)

    assert torch.autograd.gradcheck(run, (policy.hidden, policy.weight, policy.bias))


@pytest.mark.parametrize("name", ["ragged", "bent", "ignored"])
def test_gradients_against_float64(name, backend):
    random = torch.Generator().manual_seed(7)
    weights = [torch.randn(len(CASES[name][2]), generator=random) for _ in EVERY]

    def gradients(dtype, chosen):
        policy, other, targets = CASES[name]
        policy, other = to(policy, dtype, grad=True), to(other, dtype, grad=True)
        got = pair_stats(policy, other, targets, want=EVERY, backend=chosen)
        sum((getattr(got, s) * w.to(dtype)).sum() for s, w in zip(EVERY, weights, strict=True)).backward()
        assert other.hidden.grad is None  # the reference is constant
        assert other.weight.grad is None
        return [x.grad for x in policy[:3] if x is not None]

    for got, exact in zip(gradients(FP32, backend), gradients(FP64, "reference"), strict=True):
        assert (got.double() - exact).abs().max() <= 2e-5 * exact.abs().max()
