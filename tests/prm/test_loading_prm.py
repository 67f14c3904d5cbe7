"""Which convention a checkpoint gets, and what is refused."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from stepgauge.prm import CONVENTIONS, MCPRM, Convention
from stepgauge.prm.conventions import choose_convention
from tests.prm.tiny import FAMILIES, save, tiny_prm

STEPS = ["2 + 2 = 4.", "The answer is 4."]


@pytest.mark.parametrize(
    ("name", "family", "tag"),
    [
        ("peiyi9979/math-shepherd-mistral-7b-prm", "math_shepherd", "ки"),
        ("RLHFlow/Llama3.1-8B-PRM-Mistral-Data", "rlhflow", ""),
        ("RLHFlow/Llama3.1-8B-PRM-Deepseek-Data", "rlhflow", ""),
        ("Qwen/Qwen2.5-Math-PRM-7B", "qwen", "<extra_0>"),
        ("Qwen/Qwen2.5-Math-PRM-72B", "qwen", "<extra_0>"),
        ("Qwen/Qwen2.5-Math-7B-PRM800K", "qwen", "<extra_0>"),
        ("Skywork/Skywork-o1-Open-PRM-Qwen-2.5-7B", "skywork", "\n"),
        ("HanningZhang/Llama3.1-Math-PRM", "er_prm", " ки"),
        ("HuggingFaceH4/Qwen2.5-Math-1.5B-Instruct-PRM-0.2", "trl", "\n\n"),
        ("trl-lib/Qwen2-0.5B-Reward-Math-Sheperd", "trl", "\n"),
        ("jinachris/PURE-PRM-7B", "pure", "\n\n"),
        ("infly/Universal-PRM-7B", "universal", ""),
    ],
)
def test_published_names(name, family, tag):
    row = choose_convention([name], {})
    assert (row.name, row.tag) == (family, tag)


@pytest.mark.parametrize("family", ["qwen", "skywork", "trl"])
def test_a_folder_of_any_name_is_told_by_its_tensors(family):
    assert MCPRM(tiny_prm(family)[0], device="cpu").name == f"prm-{family}"


@pytest.mark.parametrize("name", ["PRIME-RL/EurusPRM-Stage2", "PRIME-RL/ImplicitPRM_DPO"])
def test_an_implicit_checkpoint_is_sent_to_its_scorer(name):
    with pytest.raises(ValueError, match="ImplicitPRM"):
        choose_convention([name], {})


def test_a_head_that_fits_no_family_is_refused():
    with pytest.raises(ValueError, match="pass convention="):
        choose_convention(["mine"], {})
    with pytest.raises(ValueError, match="pass convention="):
        choose_convention(["mine"], {"odd.weight": (3, 4)})
    with pytest.raises(ValueError, match="one of math_shepherd"):
        choose_convention(["mine"], {}, "nonsense")


def test_the_convention_can_be_told():
    folder, _, _ = tiny_prm("trl")
    signed = MCPRM(folder, device="cpu", convention="pure").score(STEPS, problem="2 + 2?")
    own = Convention("mine", head=("score",), tag="\n\n", fresh=True)
    plain = MCPRM(folder, device="cpu", convention=own).score(STEPS, problem="2 + 2?")
    assert signed.values == pytest.approx([2 * p - 1 for p in plain.values], abs=1e-6)
    assert signed.first_error() == plain.first_error()  # threshold 0 of the one is 0.5 of the other


def _broken(tmp_path, family, change, config=None):
    folder = tmp_path / "model"
    shutil.copytree(tiny_prm(family)[0], folder)
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    if config:
        told = json.loads((folder / "config.json").read_text()) | config
        (folder / "config.json").write_text(json.dumps(told))
    return MCPRM(str(folder), device="cpu", convention=family).score(STEPS, problem="2 + 2?")


@pytest.mark.parametrize(
    ("family", "name", "message"),
    [
        ("qwen", "score.2.weight", "score.2.weight"),
        ("qwen", "score.0.bias", "lacks a bias"),
        ("skywork", "v_head.summary.weight", "v_head"),
        ("trl", "score.weight", "score.weight"),
        ("er_prm", "lm_head.weight", "lm_head.weight"),
        ("qwen", "model.layers.1.mlp.up_proj.weight", "up_proj"),
    ],
)
def test_missing_weights_are_an_error_that_names_them(tmp_path, family, name, message):
    scores = _broken(tmp_path, family, lambda tensors: tensors.pop(name))
    assert (scores.status, scores.reasons) == ("error", ("model", "model"))
    assert message in scores.summary["message"]


def test_head_weights_left_over_are_an_error(tmp_path):
    scores = _broken(tmp_path, "er_prm", lambda tensors: tensors.update({"v_head.weight": torch.ones(1, 32)}))
    assert "v_head.weight" in scores.summary["message"]
    assert "another family" in scores.summary["message"]


def test_a_head_of_another_width_is_an_error(tmp_path):
    scores = _broken(tmp_path, "trl", lambda tensors: tensors.update({"score.weight": torch.ones(1, 32)}))
    assert "1 outputs" in scores.summary["message"]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_constant_model_is_refused(tmp_path, family):
    """Every weight of the body zero but one: each text gets the same state, as with lost positions."""

    def zero(tensors):
        for name, tensor in tensors.items():
            if name.startswith("model.") and "norm" not in name:
                tensor.zero_()

    scores = _broken(tmp_path, family, zero)
    assert scores.status == "error"
    assert "same score" in scores.summary["message"]


def test_weights_that_are_not_finite_are_refused(tmp_path):
    scores = _broken(tmp_path, "qwen", lambda tensors: tensors["score.0.weight"].fill_(float("nan")))
    assert "not finite" in scores.summary["message"]


def test_lost_position_buffers_are_refused():
    from stepgauge.prm.weights import prove_positions

    body = tiny_prm("qwen")[2].model
    prove_positions(body)
    kept = body.rotary_emb.inv_freq.clone()
    try:
        body.rotary_emb.inv_freq.zero_()
        with pytest.raises(ValueError, match="positions would be lost"):
            prove_positions(body)
    finally:
        body.rotary_emb.inv_freq.copy_(kept)


def test_a_tokenizer_without_the_tag_is_refused():
    row = Convention("x", head=("score",), tag="<missing_tag>")
    refused = MCPRM(tiny_prm("trl")[0], device="cpu", convention=row).score(STEPS)
    assert refused.status == "error"
    assert "must be one token" in refused.summary["message"]


def test_pickled_weights_are_refused(tmp_path):
    folder, _, model = tiny_prm("qwen")
    target = tmp_path / "bin"
    shutil.copytree(folder, target)
    (target / "model.safetensors").unlink()
    torch.save(model.state_dict(), target / "pytorch_model.bin")
    prm = MCPRM(str(target), device="cpu")
    assert "no *.safetensors" in prm.score(STEPS).summary["message"]


def test_a_config_of_transformers_4_is_read(tmp_path):
    """rope_theta at the top, as the published checkpoints have it."""
    folder = tmp_path / "old"
    save(folder, "qwen")
    config = json.loads((folder / "config.json").read_text())
    theta = config.pop("rope_parameters")["rope_theta"]
    (folder / "config.json").write_text(json.dumps(config | {"rope_theta": theta}))
    fresh = MCPRM(tiny_prm("qwen")[0], device="cpu").score(STEPS, problem="2 + 2?")
    assert MCPRM(str(folder), device="cpu").score(STEPS, problem="2 + 2?").values == pytest.approx(fresh.values)


def test_every_convention_has_a_row_that_says_what_it_means():
    for name, row in CONVENTIONS.items():
        assert row.name == name
        assert bool(row.head) != bool(row.labels)
        assert row.kind in ("correctness", "value")
