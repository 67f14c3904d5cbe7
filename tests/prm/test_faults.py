"""Ten faults found in other readers of process reward models; each is shown, and shown to be absent here."""

import pytest
import torch

from stepgauge import Rollout
from stepgauge.prm import MCPRM, ImplicitPRM
from stepgauge.prm.conventions import CONVENTIONS
from stepgauge.prm.heads import read_scores
from stepgauge.prm.http import HttpPRM
from tests.prm.fake_server import fake_server
from tests.prm.tiny import FAMILIES, save, tiny_prm

PROBLEM = "What is 2 + 2?"
STEPS = ["2 + 2 = 4.", "So it is four.", "The answer is 4."]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_1_saturated_steps_keep_their_place(dtype):
    """``probabilities[probabilities != 0].view(-1, 2)[:, 1]`` drops an exact 0: it crashes, or returns fewer steps."""
    logits = torch.tensor([[120.0, 0.0], [0.0, 120.0], [1.0, 1.0]], dtype=dtype)
    probabilities = logits.softmax(1)
    kept = probabilities[probabilities != 0]
    assert kept.view(-1, 2).shape[0] == 2  # three steps, two scores, no error
    scores, _ = read_scores(logits.float(), CONVENTIONS["qwen"])
    assert scores.tolist() == pytest.approx([0.0, 1.0, 0.5], abs=1e-6)


def test_2_soft_values_are_read_and_calibrated_as_numbers():
    """A trainer wrote float labels into an integer tensor; here scores stay floats from state to StepScores."""
    target = torch.full((3,), -100)
    with pytest.raises(RuntimeError, match="dtype"):
        target[torch.tensor([True, True, False])] = torch.tensor([0.4, 0.6])
    values = MCPRM(tiny_prm("trl")[0], device="cpu").score(STEPS, problem=PROBLEM).values
    assert all(0 < value < 1 for value in values)


def test_3_log_odds_stay_finite_where_the_sigmoid_has_saturated():
    """BCELoss after a sigmoid has no gradient for confidently wrong rows; the log-odds come out beside the score."""
    odds = torch.tensor([[40.0]], requires_grad=True)
    torch.nn.BCELoss()(odds.sigmoid(), torch.zeros(1, 1)).backward()
    assert float(odds.grad) == 0.0
    fresh = odds.detach().requires_grad_(True)
    found = read_scores(fresh, CONVENTIONS["skywork"])[1]
    torch.nn.functional.binary_cross_entropy_with_logits(found, torch.zeros(1)).backward()
    assert float(fresh.grad) == pytest.approx(1.0)


def test_4_log_ratios_of_bf16_models_are_subtracted_per_token_in_fp32(tmp_path):
    """Summed in bf16 and subtracted then, 600 tokens are off by more than a tenth of a nat."""
    policy, _, _ = save(tmp_path / "a", "math_psa", seed=1)
    prm = ImplicitPRM(policy, policy, device="cpu", dtype="bfloat16", beta=1.0)
    assert prm.score(["and so on " * 200], problem=PROBLEM).values == (0.0,)
    half = torch.rand(600).bfloat16()
    assert abs(float(half.sum()) - float(half.double().sum())) > 0.1


def test_5_no_logits_of_the_whole_vocabulary(monkeypatch):
    """Of the head two rows are read; a forward pass through the whole head would be 150,000 columns a token."""
    prm = MCPRM(tiny_prm("er_prm")[0], device="cpu")
    prm.score(STEPS)
    loaded = prm._load()
    assert [tuple(weight.shape) for weight, _ in loaded.head.layers] == [(2, 32)]
    assert not hasattr(loaded.body, "lm_head")


def test_6_the_sum_of_a_step_holds_no_token_of_the_next():
    folder = tiny_prm("math_psa")[0]
    other = [STEPS[0], "Zebras fly.", STEPS[2]]
    right = ImplicitPRM(folder, device="cpu", numbered=True)
    card = ImplicitPRM(folder, device="cpu", numbered=True, compat="eurus_card")
    first = [right.score(steps, problem=PROBLEM).values[0] for steps in (STEPS, other)]
    assert first[0] == pytest.approx(first[1], abs=1e-6)
    ends = {
        name: prm._encode(prm._load(), Rollout(PROBLEM, STEPS)) for name, prm in {"card": card, "right": right}.items()
    }
    decode = tiny_prm("math_psa")[1].decode
    read = {name: decode(item.ids[: item.ends[0]]) for name, item in ends.items()}
    assert read["right"].rstrip().endswith(STEPS[0])
    assert "\n\nS" in read["card"].partition(STEPS[0])[2]  # the first letters of "Step 2"


@pytest.mark.parametrize("family", FAMILIES)
def test_7_a_step_that_ends_in_the_separator_gets_no_second_tag(family):
    """A reader that replaced blank lines by tags scored an empty last step; here steps are never split."""
    prm = MCPRM(tiny_prm(family)[0], device="cpu")
    scores = prm.score([f"{step}\n\n" for step in STEPS], problem=PROBLEM)
    assert len(scores.values) == 3
    inner = prm.score([STEPS[0], "a\n\nb\n\nc", STEPS[2]], problem=PROBLEM)
    assert len(inner.values) == 3
    assert inner.values[0] == pytest.approx(prm.score(STEPS, problem=PROBLEM).values[0], abs=1e-5)


def test_8_aggregation_device_and_gradients_are_as_asked():
    """A wrapper dropped its aggregation method, ignored its device, and kept gradients."""
    prm = MCPRM(tiny_prm("qwen")[0], device="cpu", dtype="bfloat16")
    scores = prm.score(STEPS, problem=PROBLEM)
    assert scores.aggregate() == scores.aggregate("prod")
    assert scores.aggregate("min") == min(scores.values)
    body = prm._load().body
    assert (body.device.type, body.dtype, body.training) == ("cpu", torch.bfloat16, False)
    assert not any(parameter.requires_grad for parameter in body.parameters())
    calls = []
    handle = body.register_forward_hook(lambda *_: calls.append(1))
    MCPRM.score(prm, STEPS, problem=PROBLEM)
    handle.remove()
    assert len(calls) == 1  # one pass, not one a step


def test_9_nothing_is_truncated_silently(tmp_path):
    """Cut on the left the problem is lost, on the right the tags; here the policy says which steps have no score."""
    folder, _, _ = save(tmp_path / "short", "qwen", context=128)
    steps = ["This is a step of some length, 2 + 2 = 4."] * 12
    scores = {
        policy: MCPRM(folder, device="cpu", length=policy).score(steps, problem=PROBLEM)
        for policy in ("error", "window", "drop_leading")
    }
    assert (scores["error"].status, set(scores["error"].reasons)) == ("error", {"too_large"})
    assert None not in scores["window"].values
    dropped = scores["drop_leading"]
    kept = sum(value is not None for value in dropped.values)
    assert 0 < kept < 12
    assert dropped.reasons == ("truncated",) * (12 - kept) + (None,) * kept
    short = MCPRM(folder, device="cpu").score(steps[:kept], problem=PROBLEM)
    assert dropped.values[-kept:] == pytest.approx(short.values, abs=1e-5)
    long_problem = MCPRM(folder, device="cpu", length="window").score(["a"], problem="why " * 300)
    assert (long_problem.status, long_problem.reasons) == ("error", ("too_large",))


def test_10_a_failed_request_is_no_zero():
    with fake_server(failures=[500] * 9) as server:
        scores = HttpPRM(server.url, attempts=1).score_batch([Rollout("", STEPS), Rollout("", STEPS[:1])])
    assert [one.values for one in scores] == [(None,) * 3, (None,)]
    assert [one.aggregate() for one in scores] == [None, None]
    assert {reason for one in scores for reason in one.reasons} == {"transport"}


def test_out_of_memory_halves_the_batch(monkeypatch):
    from stepgauge.prm import checkpoint

    prm = MCPRM(tiny_prm("qwen")[0], device="cpu")
    rollouts = [Rollout(PROBLEM, [f"{k} + {k} = {2 * k}.", "So it is."]) for k in range(12)]
    expected = prm.score_batch(rollouts)
    whole, sizes = checkpoint.hidden_states, []

    def tight(body, rows):
        sizes.append(len(rows))
        if len(rows) > 2:
            raise torch.OutOfMemoryError
        return whole(body, rows)

    monkeypatch.setattr(checkpoint, "hidden_states", tight)
    progress = []
    found = prm.score_batch(rollouts, progress=progress.append)
    assert max(sizes) == 12
    assert sum(progress) == 12
    for a, b in zip(found, expected, strict=True):
        assert a.values == pytest.approx(b.values, abs=1e-5)


def test_one_failing_rollout_leaves_the_others(monkeypatch):
    from stepgauge.prm import checkpoint

    prm = MCPRM(tiny_prm("qwen")[0], device="cpu")
    prm.score(STEPS)
    bad = prm._load().layout.step("", "zebra", 0, first=True)[0]
    whole = checkpoint.hidden_states

    def fail(body, rows):
        if any(bad in row for row in rows):
            raise RuntimeError("device-side assert")
        return whole(body, rows)

    monkeypatch.setattr(checkpoint, "hidden_states", fail)
    good, broken = prm.score_batch([Rollout(PROBLEM, ["2 + 2 = 4."]), Rollout(PROBLEM, ["zebra"])])
    assert good.status == "ok"
    assert (broken.status, broken.reasons) == ("error", ("model",))
    assert "device-side assert" in broken.summary["message"]
