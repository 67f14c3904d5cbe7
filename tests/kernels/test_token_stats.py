import math

import pytest
import torch

from stepgauge.kernels import lm_stats


def of_logits(logits, targets, dtype=torch.float64):
    """``lm_stats`` of given logits: a head whose states are the unit vectors."""
    logits = torch.tensor(logits, dtype=dtype)
    return lm_stats(torch.eye(len(logits), dtype=dtype), logits.T, torch.tensor(targets))


def test_closed_forms():
    stats = of_logits([[2.0, 0.0, -1.0], [0.0, 0.0, 0.0]], [0, 2])
    assert stats.self_certainty.tolist() == pytest.approx([0.7379003975548426, 0.0], abs=1e-12)
    assert stats.entropy.tolist() == pytest.approx([0.5242666167276727, math.log(3)], abs=1e-12)
    assert stats.logprob.tolist() == pytest.approx([2 - math.log(math.e**2 + 1 + 1 / math.e), -math.log(3)], abs=1e-12)


@pytest.mark.parametrize("shift", [-1000.0, 0.0, 100.0, 1000.0])
def test_a_shift_of_the_logits_changes_nothing(shift):
    stats = of_logits([[2.0 + shift, shift, shift - 1.0]], [1])
    assert stats.self_certainty.item() == pytest.approx(0.7379003975548426, abs=1e-9)
    assert stats.entropy.item() == pytest.approx(0.5242666167276727, abs=1e-9)


def test_an_impossible_token():
    bias = torch.tensor([0.0, 0.0, -math.inf])
    stats = lm_stats(torch.zeros(1, 4), torch.zeros(3, 4), torch.tensor([0]), bias=bias)
    assert stats.logprob.item() == pytest.approx(-math.log(2))
    assert stats.entropy.item() == pytest.approx(math.log(2))
    assert stats.self_certainty.item() == math.inf


@pytest.mark.parametrize("rows", [0, 1, 63])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_against_float64_off_the_chunk_size(rows, dtype, monkeypatch):
    monkeypatch.setattr("stepgauge.kernels.token_stats._CHUNK_BYTES", 4 * 401 * 10)
    make = torch.Generator().manual_seed(0)
    hidden, weight = (torch.randn(n, 33, generator=make).to(dtype) for n in (rows, 401))
    targets = torch.randint(401, (rows,), generator=make)
    stats = lm_stats(hidden, weight, targets)
    logits = hidden.double() @ weight.double().T
    logp = logits.log_softmax(-1)
    assert stats.logprob.dtype == torch.float32
    torch.testing.assert_close(stats.logprob.double(), logp.gather(1, targets[:, None])[:, 0], atol=1e-4, rtol=0)
    torch.testing.assert_close(stats.entropy.double(), -(logp.exp() * logp).sum(-1), atol=1e-4, rtol=0)
    direct = logits.logsumexp(-1) - logits.mean(-1) - math.log(401)
    torch.testing.assert_close(stats.self_certainty.double(), direct, atol=1e-4, rtol=0)
