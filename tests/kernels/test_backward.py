"""Gradients of every output: gradcheck in float64, and 16-bit errors no worse than the same-dtype reference's."""

import pytest
import torch

from stepgauge.kernels import lm_stats, segment_sum
from tests.kernels.heads import FLOATS, Case, head, per_token

BF16, FP32, FP64 = torch.bfloat16, torch.float32, torch.float64


def upstream(case: Case, seed: int = 5) -> dict[str, torch.Tensor]:
    """A different gradient for every statistic of every token."""
    random = torch.Generator().manual_seed(seed)
    n, k = len(case.targets), 4
    return {s: torch.randn((n, k) if s == "topk" else (n,), generator=random) for s in FLOATS}


def gradients(case: Case, backend: str, weights: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    got = case.run(backend)
    sum((getattr(got, s) * w.to(getattr(got, s).dtype)).sum() for s, w in weights.items()).backward()
    return [x.grad for x in (case.hidden, case.weight, case.bias) if x is not None]


CASES = {
    "plain": head(19, 24, 1100),
    "ragged": head(35, 7, 1301, ignored=4),
    "bias": head(19, 24, 1100, with_bias=True),
    "softcap": head(19, 24, 1100, spread=10.0, softcap=15.0),
    "all_at_once": head(
        29, 24, 1300, with_bias=True, ignored=5, softcap=30.0, inv_temperature=per_token(29), vocab_valid=1203
    ),
}


@pytest.mark.parametrize("statistic", FLOATS)
def test_gradcheck(statistic):
    """Numerical differences in float64, one output at a time, through cap, temperatures, bias and ignored rows."""
    case = head(4, 3, 7, with_bias=True, dtype=FP64, softcap=8.0, inv_temperature=per_token(4), ignored=1)

    def run(hidden, weight, bias):
        more = {**case.more, "want": (statistic,), "k": 2}
        got = lm_stats(hidden, weight, case.targets, bias=bias, backend="torch", **more)
        return getattr(got, statistic)

    inputs = [x.requires_grad_() for x in (case.hidden, case.weight, case.bias)]
    assert torch.autograd.gradcheck(run, inputs)


@pytest.mark.parametrize("name", CASES)
def test_fp32_gradients_are_exact_to_rounding(name, backend):
    weights = upstream(CASES[name])
    exact = gradients(CASES[name].to(FP64, grad=True), "reference", weights)
    got = gradients(CASES[name].to(FP32, grad=True), backend, weights)
    for x, y in zip(got, exact, strict=True):
        assert (x.double() - y).abs().max() <= 2e-5 * y.abs().max()


@pytest.mark.parametrize("name", ["ragged", "all_at_once"])
def test_bf16_gradients_beat_the_same_dtype_reference(name, backend):
    """The peer: autograd through bf16 logits, in fp32 from there."""
    case, weights = CASES[name].to(BF16), upstream(CASES[name])
    exact = gradients(case.to(FP64, grad=True), "reference", weights)
    got = gradients(case.to(BF16, grad=True), backend, weights)
    peer = case.to(BF16, grad=True)
    naive = naive_values(peer)
    sum((naive[s] * w).sum() for s, w in weights.items()).backward()
    for x, y, z in zip(got, exact, (peer.hidden, peer.weight, peer.bias), strict=False):
        error, peer_error = (x.double() - y).abs().max(), (z.grad.double() - y).abs().max()
        assert error <= peer_error + 1e-3 * y.abs().max()
        assert x.dtype == BF16


def naive_values(case: Case) -> dict[str, torch.Tensor]:
    """Every statistic through materialised logits of the head's dtype; ignored rows are 0."""
    more = case.more
    z = case.hidden @ case.weight[: more.get("vocab_valid")].T
    if case.bias is not None:
        z = z + case.bias[: more.get("vocab_valid")]
    z = z.float()
    if more.get("softcap"):
        z = more["softcap"] * torch.tanh(z / more["softcap"])
    scale = more.get("inv_temperature", 1.0)
    z = z * (scale[:, None] if isinstance(scale, torch.Tensor) else scale)
    logps = z.log_softmax(1)
    mask = case.targets >= 0
    values = {
        "logp": logps.gather(1, case.targets.clamp(min=0)[:, None])[:, 0],
        "lse": z.logsumexp(1),
        "entropy": -(logps.exp() * logps).sum(1),
        "mean_logit": z.mean(1),
        "self_certainty": z.logsumexp(1) - z.mean(1),
        "topk": logps.topk(4).values,
    }
    return {s: torch.where(mask if v.ndim == 1 else mask[:, None], v, 0.0) for s, v in values.items()}


def test_gradients_of_a_shifted_entropy(backend):
    """A common offset of 120 leaves the entropy's gradient as it was."""
    case = head(11, 16, 1100, with_bias=True)
    case.bias.zero_()
    ones = {"entropy": torch.ones(11)}
    plain = gradients(case.to(FP32, grad=True), backend, ones)[0]
    case.bias += 120.0
    moved = gradients(case.to(FP32, grad=True), backend, ones)[0]
    assert (plain - moved).abs().max() <= 1e-4 * plain.abs().max()


def test_a_frozen_head_gets_no_gradient(backend):
    case = head(9, 16, 300).to(FP32, grad=True)
    case.weight.requires_grad_(False)
    case.run(backend).logp.sum().backward()
    assert case.weight.grad is None
    both = head(9, 16, 300).to(FP32, grad=True)
    both.run(backend).logp.sum().backward()
    assert torch.equal(case.hidden.grad, both.hidden.grad)


def test_a_head_on_frozen_states(backend):
    case = head(9, 16, 300).to(FP32, grad=True)
    case.hidden.requires_grad_(False)
    case.run(backend).logp.sum().backward()
    both = head(9, 16, 300).to(FP32, grad=True)
    both.run(backend).logp.sum().backward()
    assert case.hidden.grad is None
    assert torch.equal(case.weight.grad, both.weight.grad)


def test_ignored_rows_poison_no_gradient(backend):
    case = head(13, 16, 300, ignored=5).to(FP32, grad=True)
    with torch.no_grad():
        case.hidden[:5] = float("nan")
    case.run(backend).logp.sum().backward()
    assert torch.isfinite(case.weight.grad).all()
    assert not case.hidden.grad[:5].any()
    assert case.hidden.grad[5:].abs().sum() > 0


def test_a_forbidden_column_leaves_gradients_finite(backend):
    case = head(9, 16, 300, with_bias=True)
    case.bias[5] = float("-inf")
    case.targets[:] = 7
    case = case.to(FP32, grad=True)
    got = case.run(backend)
    (got.logp + got.entropy).sum().backward()
    assert torch.isfinite(case.hidden.grad).all()
    assert torch.isfinite(case.weight.grad).all()


def test_step_gradients_reach_their_tokens(backend):
    """An implicit reward's loss: beta times step sums of log-probs, one gradient a step."""
    case, cu_steps = head(12, 16, 300, ignored=2), torch.tensor([2, 5, 5, 11])
    step_gradient = torch.tensor([0.5, 3.0, -2.0])
    plain = case.to(FP32, grad=True)
    (0.05 * segment_sum(plain.run(backend).logp, cu_steps) * step_gradient).sum().backward()
    by_hand = case.to(FP32, grad=True)
    token_gradient = torch.zeros(12)
    token_gradient[2:5], token_gradient[5:11] = 0.05 * 0.5, 0.05 * -2.0
    (by_hand.run(backend).logp * token_gradient).sum().backward()
    assert torch.allclose(plain.hidden.grad, by_hand.hidden.grad, rtol=1e-5, atol=1e-8)
    assert not plain.hidden.grad[11].any()


def test_second_derivatives_are_refused(backend):
    case = head(3, 4, 9).to(FP32, grad=True)
    # the gradient is a constant to autograd, so asking for more raises instead of being silently wrong
    (first,) = torch.autograd.grad(case.run(backend).logp.sum(), case.hidden, create_graph=True)
    with pytest.raises(RuntimeError, match="does not require grad"):
        first.sum().backward()
