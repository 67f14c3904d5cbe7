"""lm_stats against float64: ragged sizes, shifted logits, poisoned rows, caps, temperatures, biases, every backend."""

import math

import pytest
import torch

from stepgauge.kernels import lm_stats, tiled
from stepgauge.kernels.inputs import Spec
from stepgauge.kernels.partials import Needs
from tests.casefiles import method_cases
from tests.kernels.heads import EVERY, FLOATS, gap, head, per_token

BF16, FP16, FP32, FP64 = torch.bfloat16, torch.float16, torch.float32, torch.float64
CASES = {
    "plain": head(33, 48, 1200),
    "one_token": head(1, 48, 1200),
    "one_column": head(5, 16, 1),
    "two_columns": head(5, 16, 2),
    "below_a_tile": head(7, 40, 37),
    "ragged": head(37, 41, 1531),
    "odd_everything": head(13, 7, 257),
    "flat": head(9, 32, 1100, spread=0.01),
    "peaky": head(21, 32, 1100, spread=12.0),
    "bias": head(19, 24, 1300, with_bias=True),
    "softcap": head(19, 24, 1100, spread=20.0, softcap=15.0),
    "cold": head(19, 24, 1100, inv_temperature=3.0),
    "each_token_its_temperature": head(19, 24, 1100, inv_temperature=per_token(19)),
    "padded_vocab": head(19, 24, 1300, vocab_valid=1111),
    "ignored": head(19, 24, 1100, ignored=7),
    "all_at_once": head(
        29, 24, 1300, with_bias=True, ignored=5, softcap=30.0, inv_temperature=per_token(29), vocab_valid=1203
    ),
}


def shifted(by: float):
    """All logits moved by a constant, as a large bias does."""
    case = head(17, 24, 1300, with_bias=True)
    case.bias += by
    return case


CASES |= {"shifted_up": shifted(120.0), "shifted_down": shifted(-120.0)}


@pytest.mark.parametrize("name", CASES)
def test_fp32_is_exact_to_rounding(name, backend):
    case = CASES[name]
    got, exact = case.run(backend), case.exact()
    scale = exact.lse.abs().max().item() + 8  # fp32 logits near lse carry 6e-8 of it each
    for statistic in FLOATS:
        assert gap(getattr(got, statistic), getattr(exact, statistic)) <= 5e-7 * scale, statistic
    assert torch.equal(got.argmax, exact.argmax)
    assert got.logp.dtype == got.entropy.dtype == FP32


@pytest.mark.parametrize("dtype", [BF16, FP16], ids=["bf16", "fp16"])
@pytest.mark.parametrize("name", ["ragged", "peaky", "softcap", "all_at_once", "shifted_up", "shifted_down"])
def test_16_bit_heads_keep_fp32_logits(name, dtype, backend):
    case = CASES[name].to(dtype)
    got, exact = case.run(backend), case.exact()
    # a rounded GEMM leaves noise of 1 / sqrt(V) in averages over all columns: here V is 100 times too small
    average = 1e-3 if tiled.cpu_is_fast_at_16_bit() else 2e-4
    for statistic in ("logp", "lse", "topk"):
        assert gap(getattr(got, statistic), getattr(exact, statistic)) <= 2e-4, statistic
    for statistic in ("entropy", "mean_logit", "self_certainty"):
        assert gap(getattr(got, statistic), getattr(exact, statistic)) <= average, statistic
    naive = (case.hidden @ case.weight[: case.more.get("vocab_valid")].T).float()
    assert gap(naive.logsumexp(1), naive.double().logsumexp(1)) <= 1e-4  # the peer's own reduction is sound


def test_naive_bf16_is_far_worse():
    """What the 16-bit tolerance above is worth: the usual path misses it by an order of magnitude."""
    case = CASES["ragged"].to(BF16)
    naive = (case.hidden @ case.weight.T).float().log_softmax(1).gather(1, case.targets[:, None]).squeeze(1)
    assert gap(naive, case.exact().logp) > 2e-3


@pytest.mark.parametrize("shift", [-120.0, 120.0])
def test_a_shift_changes_nothing_but_lse_and_mean(shift, backend):
    case = head(11, 16, 1300, with_bias=True)
    case.bias.zero_()
    before = case.run(backend)
    case.bias += shift
    after = case.run(backend)
    for statistic in ("logp", "entropy", "self_certainty", "topk"):
        assert gap(getattr(after, statistic), getattr(before, statistic)) <= 6e-5, statistic
    assert gap(after.lse, before.lse + shift) <= 3e-5


def test_ignored_rows_may_hold_anything(backend):
    case = head(23, 24, 1100, ignored=6)
    clean = case.run(backend)
    case.hidden[:6] = float("nan")
    case.hidden[3] = float("inf")
    poisoned = case.run(backend)
    for statistic in FLOATS:
        assert torch.equal(getattr(poisoned, statistic), getattr(clean, statistic)), statistic
        assert not getattr(poisoned, statistic)[:6].any(), statistic
    assert (poisoned.argmax[:6] == -1).all()
    assert (poisoned.topk_ids[:6] == -1).all()


def test_every_row_ignored(backend):
    got = head(5, 16, 300, ignored=5).run(backend)
    assert not any(getattr(got, statistic).any() for statistic in FLOATS)


def test_no_tokens(backend):
    got = lm_stats(
        torch.zeros(0, 8), torch.ones(5, 8), torch.zeros(0, dtype=torch.int64), want=EVERY, k=2, backend=backend
    )
    assert got.logp.shape == (0,)
    assert got.topk.shape == (0, 2)


def test_a_forbidden_column(backend):
    """A logit of -inf: probability 0, entropy without NaN, self-certainty +inf."""
    case = head(9, 16, 1300, with_bias=True)
    case.bias[5] = float("-inf")
    case.targets[:] = 7
    got, exact = case.run(backend), case.exact()
    assert torch.isposinf(got.self_certainty).all()
    for statistic in ("logp", "lse", "entropy", "topk"):
        assert gap(getattr(got, statistic), getattr(exact, statistic)) <= 1e-5, statistic
    case.targets[:] = 5
    assert torch.isneginf(case.run(backend).logp).all()


def test_one_hot_rows(backend):
    """One column takes everything: logp 0, entropy 0, certainty as large as the gap allows."""
    weight = torch.zeros(1300, 8)
    weight[1033, 0] = 200.0
    got = lm_stats(torch.eye(8)[:1], weight, torch.tensor([1033]), want=EVERY, k=2, backend=backend)
    assert got.logp.item() == 0.0
    assert got.entropy.item() == 0.0
    assert got.argmax.item() == 1033
    assert got.self_certainty.item() == pytest.approx(200 - 200 / 1300 - math.log(1300), rel=1e-6)


def test_uniform_rows(backend):
    """Equal logits: logp -ln V, entropy ln V, certainty 0; the first of equals is the argmax."""
    got = lm_stats(torch.ones(3, 8), torch.ones(1500, 8), torch.tensor([0, 7, 1499]), want=EVERY, k=3, backend=backend)
    assert got.logp.tolist() == pytest.approx([-math.log(1500)] * 3, rel=1e-6)
    assert got.entropy.tolist() == pytest.approx([math.log(1500)] * 3, rel=1e-6)
    assert got.self_certainty.tolist() == pytest.approx([0] * 3, abs=1e-5)
    assert got.argmax.tolist() == [0, 0, 0]


def test_topk_is_the_head_of_the_sorted_distribution(backend):
    case = head(9, 24, 1300)
    got = case.run(backend, k=8)
    logps = (case.hidden.double() @ case.weight.double().T).log_softmax(1)
    assert torch.equal(got.topk_ids, logps.topk(8).indices)
    assert torch.equal(got.argmax, got.topk_ids[:, 0])


def test_leading_shape_is_kept(backend):
    case = head(12, 16, 300)
    flat = case.run(backend)
    case.hidden, case.targets = case.hidden.view(3, 4, 16), case.targets.view(3, 4)
    shaped = case.run(backend)
    for statistic in FLOATS:
        assert torch.equal(getattr(shaped, statistic).flatten(), getattr(flat, statistic).flatten()), statistic
    assert shaped.topk.shape == (3, 4, 4)


def test_strided_states(backend):
    """Every other row, and rows that are slices of wider ones."""
    case = head(16, 32, 300)
    wide = torch.zeros(32, 48)
    wide[::2, :32] = case.hidden
    expected = case.run(backend)
    case.hidden = wide[::2, :32]
    assert torch.equal(case.run(backend).logp, expected.logp)


@pytest.mark.parametrize("dtype", [FP32, BF16], ids=["fp32", "bf16"])
def test_a_row_does_not_see_its_batch(dtype, backend):
    """Bitwise: alone, in part, permuted, repeated, across the block height, among ignored rows."""
    n, block = (150, 128) if backend == "torch" else (45, 32)
    case = head(n, 40, 1100, dtype=dtype, with_bias=True)
    whole = case.run(backend)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(3))
    masked = torch.where(torch.arange(n) % 3 == 0, case.targets, -100)
    for rows in (torch.tensor([n // 2]), torch.arange(20, 23), torch.arange(0, block + 1), order):
        case_of = type(case)(case.hidden[rows], case.weight, case.targets[rows], case.bias)
        part = case_of.run(backend)
        for statistic in FLOATS:
            assert torch.equal(getattr(part, statistic), getattr(whole, statistic)[rows]), (statistic, len(rows))
    part = type(case)(case.hidden, case.weight, masked, case.bias).run(backend)
    assert torch.equal(part.entropy[::3], whole.entropy[::3])


def test_wanting_more_changes_no_bits(backend):
    """A statistic has the same bits whatever else is wanted (top-k may take other tiles on a GPU, not here)."""
    case = head(20, 24, 1100)
    whole = case.run(backend)
    for statistic in ("logp", "entropy", "self_certainty", "topk"):
        assert torch.equal(getattr(case.run(backend, want=(statistic,)), statistic), getattr(whole, statistic)), (
            statistic
        )


@pytest.mark.parametrize("rounds", [False, True], ids=["converted", "rounded"])
def test_rounded_tiles_are_repaired(rounds):
    """Many comparable candidates in one tile: what a rounded GEMM would get wrong by 1e-2 is within 2e-4."""
    case = head(40, 64, 2500, dtype=BF16, spread=1.0)
    case.weight[100:130] = (case.hidden[:30].float() * 0.3).to(BF16)  # thirty near-winners side by side
    spec = Spec(case.targets, 2500, None, 1.0)
    whole = tiled.partials(case.hidden, case.weight, None, spec, Needs(True, True, 0), rounds=rounds)
    exact = case.exact()
    assert gap(whole.label - whole.lse, exact.logp) <= 2e-4
    assert gap(whole.entropy, exact.entropy) <= 2e-4


@pytest.mark.parametrize("case", method_cases("self_certainty"))
def test_self_certainty_cases(case):
    """The method's worked examples: an identity head makes the states the logits."""
    logits = torch.tensor(case["inputs"]["logits"], dtype=FP64)
    vocab = logits.shape[1]
    for chosen in ("torch", "reference"):
        got = lm_stats(logits, torch.eye(vocab, dtype=FP64), None, want=("self_certainty", "entropy"), backend=chosen)
        assert got.self_certainty.tolist() == pytest.approx(case["expected"]["per_token"], abs=case["tol"])
        assert got.entropy.tolist() == pytest.approx(case["expected"]["entropy"], abs=case["tol"])
        if "mean" in case["expected"]:
            assert got.self_certainty.mean().item() == pytest.approx(case["expected"]["mean"], abs=case["tol"])
