"""Label log-odds at step tags, and step sums."""

from itertools import pairwise

import pytest
import torch

from stepgauge.kernels import label_logits, segment_sum
from tests.kernels.conftest import needs_triton

BF16, FP64 = torch.bfloat16, torch.float64


def states(dtype=torch.float32):
    random = torch.Generator().manual_seed(0)
    hidden = torch.randn(3, 20, 64, generator=random).to(dtype)
    return hidden, torch.randn(500, 64, generator=random).to(dtype), torch.tensor([4, 19, 33, 59])


def test_sigmoid_is_the_softmax_over_both_labels():
    hidden, weight, tags = states(FP64)
    logits = hidden.reshape(-1, 64)[tags] @ weight.T
    expected = logits[:, [11, 7]].softmax(1)[:, 0]
    assert torch.allclose(label_logits(hidden, weight, (11, 7), tags).sigmoid(), expected, rtol=1e-12)


def test_bf16_keeps_the_difference_in_fp32():
    """Close labels: two bf16 logits rounded first lose far more than the fp32 difference of the rows."""
    hidden, weight, tags = states(BF16)
    hidden *= 16
    weight[7] = weight[11]
    weight[7, :8] += 0.125
    exact = label_logits(hidden.double(), weight.double(), (11, 7), tags).sigmoid()
    got = label_logits(hidden, weight, (11, 7), tags).sigmoid()
    logits = hidden.reshape(-1, 64)[tags] @ weight[[11, 7]].T
    naive = logits.float().softmax(1)[:, 0]
    assert (got - exact).abs().max() <= 1e-5
    assert (naive - exact).abs().max() > 1e-3


def test_a_tag_does_not_see_the_others():
    hidden, weight, tags = states()
    whole = label_logits(hidden, weight, (1, 2), tags)
    assert torch.equal(label_logits(hidden, weight, (1, 2), tags[2:3]), whole[2:3])
    assert torch.equal(label_logits(hidden, weight, (1, 2), tags.flip(0)), whole.flip(0))


def test_no_tags():
    hidden, weight, tags = states()
    assert label_logits(hidden, weight, (1, 2), tags[:0]).shape == (0,)


def test_label_gradients():
    hidden, weight, _ = states(FP64)
    hidden, weight = hidden[:1, :5, :3].clone().requires_grad_(), weight[:6, :3].clone().requires_grad_()
    where = torch.tensor([1, 4, 1])
    assert torch.autograd.gradcheck(lambda h, w: label_logits(h, w, (5, 0), where), (hidden, weight))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"ids": (1, 500)}, r"ids must be two label ids in \[0, 500\)"),
        ({"ids": (1,)}, "ids must be two"),
        ({"positions": torch.tensor([60])}, r"positions must be in \[0, 60\)"),
        ({"positions": torch.tensor([True])}, "positions must be"),
    ],
)
def test_label_errors(change, match):
    hidden, weight, tags = states()
    with pytest.raises((ValueError, TypeError), match=match):
        label_logits(**{"hidden": hidden, "weight": weight, "ids": (1, 2), "positions": tags, **change})


def steps_of(x, cu_steps):
    return torch.stack([x[a:b].double().sum() for a, b in pairwise(cu_steps)])


@pytest.mark.parametrize("cu_steps", [[0, 4, 9], [2, 2, 7, 7], [5, 5], [3], [0, 1, 2, 3, 600], [0, 599, 600]])
def test_steps_are_summed(cu_steps):
    x = torch.randn(600, generator=torch.Generator().manual_seed(1))
    got = segment_sum(x, torch.tensor(cu_steps))
    assert got.shape == (len(cu_steps) - 1,)
    if len(got):
        assert torch.allclose(got.double(), steps_of(x, cu_steps), atol=2e-5)


def test_steps_of_bf16_values_are_summed_in_fp32():
    x = torch.full((4096,), 0.01, dtype=BF16)
    got = segment_sum(x, torch.tensor([0, 4096]))
    assert got.dtype == torch.float32
    assert got.item() == pytest.approx(4096 * x[0].item(), rel=1e-5)  # summed in bf16 it would stop at 4


def test_a_step_does_not_see_the_others():
    x = torch.randn(600, generator=torch.Generator().manual_seed(1))
    whole = segment_sum(x, torch.tensor([0, 7, 300, 600]))
    assert torch.equal(segment_sum(x[7:300].clone(), torch.tensor([0, 293])), whole[1:2])


def test_segment_gradients():
    x = torch.randn(9, dtype=FP64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: segment_sum(v, torch.tensor([1, 3, 3, 8])), (x,))


@pytest.mark.parametrize(
    ("x", "cu_steps", "match"),
    [
        (torch.zeros(4), torch.tensor([0, 5]), "stay in"),
        (torch.zeros(4), torch.tensor([3, 1]), "must not fall"),
        (torch.zeros(4), torch.tensor([-1, 1]), "stay in"),
        (torch.zeros(4), torch.tensor([0.0, 1.0]), "integer offsets"),
        (torch.zeros(2, 2), torch.tensor([0, 1]), "x must be a vector"),
    ],
)
def test_segment_errors(x, cu_steps, match):
    with pytest.raises((ValueError, TypeError), match=match):
        segment_sum(x, cu_steps)


@needs_triton()
def test_triton_steps():
    from stepgauge.kernels.fused_segments import segment_sum as fused

    x = torch.randn(900, generator=torch.Generator().manual_seed(1))
    cu_steps = torch.tensor([0, 4, 4, 600, 890])
    assert torch.allclose(fused(x, cu_steps), segment_sum(x, cu_steps), atol=1e-5)
