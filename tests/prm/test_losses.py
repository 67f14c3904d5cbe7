"""Losses against float64 closed forms; finite and with live gradients at the extremes."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from stepgauge.prm.labelling import rstar_q
from stepgauge.prm.training import critic_rm_loss, implicit_ce_loss, implicit_dpo_loss, ppm_pairwise_loss

RATIOS = st.floats(-300, 300)
F64 = torch.float64


@given(RATIOS, st.sampled_from([0.0, 1.0, 0.3]), st.sampled_from([0.05, 1.0]))
def test_cross_entropy_is_its_definition(ratio, label, beta):
    found = implicit_ce_loss(torch.tensor([ratio], dtype=F64), torch.tensor([label]), beta=beta).item()
    p = 1 / (1 + math.exp(-beta * ratio))
    if 1e-12 < p < 1 - 1e-12:
        label = float(torch.tensor(label))
        assert found == pytest.approx(-(label * math.log(p) + (1 - label) * math.log1p(-p)), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("ratio", [-1e6, -2000.0, 2000.0, 1e6])
def test_extremes_are_finite_and_still_learn(ratio):
    x = torch.tensor([ratio], requires_grad=True)
    loss = implicit_ce_loss(x, torch.tensor([0.0 if ratio > 0 else 1.0]))
    loss.sum().backward()
    assert loss.item() == pytest.approx(0.05 * abs(ratio), rel=1e-5)
    assert abs(x.grad.item()) == pytest.approx(0.05)


@given(RATIOS, RATIOS)
def test_dpo_is_cross_entropy_of_the_difference(chosen, rejected):
    a, b = (torch.tensor([value], dtype=F64) for value in (chosen, rejected))
    expected = implicit_ce_loss(a - b, torch.ones(1)).item()
    assert implicit_dpo_loss(a, b).item() == pytest.approx(expected, abs=1e-9)


def test_gradients_in_float64():
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(5, dtype=F64, generator=generator, requires_grad=True) for _ in range(2))
    labels = torch.tensor([0.0, 1.0, 1.0, 0.0, 0.5])
    assert torch.autograd.gradcheck(lambda a: implicit_ce_loss(a, labels, beta=0.7), (x,))
    assert torch.autograd.gradcheck(lambda a, b: implicit_dpo_loss(a, b, beta=0.7), (x, y))
    assert torch.autograd.gradcheck(ppm_pairwise_loss, (x, y[:3]))
    assert torch.autograd.gradcheck(lambda a, b, c: critic_rm_loss(a, b, c, weight=0.3).total, (x[0], x[1], y))


def test_pairs():
    positive, negative = torch.tensor([0.5, 0.2], dtype=F64), torch.tensor([-0.1, 0.3, 2.0], dtype=F64)
    expected = [math.log1p(math.exp(-(p - n))) for p in positive.tolist() for n in negative.tolist()]
    assert ppm_pairwise_loss(positive, negative).item() == pytest.approx(sum(expected) / 6)
    assert ppm_pairwise_loss(torch.zeros(1), torch.zeros(1)).item() == pytest.approx(math.log(2))
    assert ppm_pairwise_loss(torch.zeros(0), negative) is None
    assert ppm_pairwise_loss(positive, torch.zeros(0)) is None


def test_critic_weights():
    parts = torch.tensor(1.0), torch.tensor(0.0), torch.tensor([2.0, 4.0])
    assert critic_rm_loss(*parts, weight=1.0).total.item() == 3.0
    assert critic_rm_loss(*parts, weight=0.0).total.item() == pytest.approx(math.log1p(math.exp(-1)))
    assert critic_rm_loss(parts[0], parts[1], torch.zeros(0), weight=0.5).critique.item() == 0.0


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: implicit_ce_loss(torch.zeros(2), torch.zeros(3)), "one shape"),
        (lambda: implicit_ce_loss(torch.zeros(2), torch.zeros(2), beta=0.0), "beta"),
        (lambda: implicit_dpo_loss(torch.zeros(2), torch.zeros(1)), "one shape"),
        (lambda: ppm_pairwise_loss(torch.zeros(2, 2), torch.zeros(1)), "one reward a step"),
        (lambda: critic_rm_loss(torch.zeros(()), torch.zeros(()), torch.zeros(1), weight=2.0), "weight"),
        (lambda: rstar_q([1.0], 0), "parent_visits"),
    ],
)
def test_bad_input(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_a_step_that_no_search_visited_has_no_value():
    """UCT puts it before all others, which no number says; the published code gives it 0."""
    found = rstar_q([], 3)
    assert (found.q, found.visits, found.uct, found.puct) == (0.0, 0, None, 0.0)
    seen = rstar_q([1, -1], 3, c=1.0)
    assert seen.uct == seen.puct == pytest.approx(math.sqrt(math.log(3) / 2))
