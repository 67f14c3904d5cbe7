"""Tiny random checkpoints in the layout of every published family, for tests."""

import json
import tempfile
from functools import cache
from pathlib import Path

import torch
from safetensors.torch import save_file

from stepgauge.data import bundled

QWEN_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA3 = (
    "{{ bos_token }}{% for m in messages %}{{ '<|start_header_id|>' + m['role'] + '<|end_header_id|>\n\n' + "
    "m['content'] | trim + '<|eot_id|>' }}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
SPECIAL = {
    "qwen": ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<extra_0>"],
    "llama": ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"],
}


def _texts():
    plain = [rollout.text for rollout in bundled()[:40]]
    return [*plain, *["a ки b + c - d и ки +\n- 2 + 3 - 1 \n\n\n\n\nки"] * 300]


def byte_level(kind):
    """A byte-level BPE tokenizer with Qwen's word pattern and the control tokens of Qwen or Llama 3."""
    import transformers
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    raw = Tokenizer(models.BPE())
    words = pre_tokenizers.Split(Regex(QWEN_WORDS), "isolated")
    raw.pre_tokenizer = pre_tokenizers.Sequence(
        [words, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    raw.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        special_tokens=SPECIAL[kind],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    raw.train_from_iterator(_texts(), trainer)
    if kind == "llama":
        made = transformers.PreTrainedTokenizerFast(
            tokenizer_object=raw, bos_token="<|begin_of_text|>", eos_token="<|eot_id|>"
        )
        made.chat_template = LLAMA3
    else:
        made = transformers.PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<|im_end|>")
        made.chat_template = CHATML
    return made


def sentencepiece():
    """A tokenizer like Mistral's: BPE over "▁", byte fallback, no words; the tag is one token."""
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=500, show_progress=False)
    trained.train_from_iterator([text.replace("\n", " ") for text in _texts()], trainer)
    spec = json.loads(trained.to_str())["model"]
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2} | {f"<0x{byte:02X}>": 3 + byte for byte in range(256)}
    for token in spec["vocab"]:
        vocab.setdefault(token, len(vocab))
    merges = [tuple(pair) for pair in spec["merges"]]
    raw = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    raw.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    raw.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    raw.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    raw.add_special_tokens(["<unk>", "<s>", "</s>"])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


def _shape(vocab, context):
    return {
        "vocab_size": vocab,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 48,
        "max_position_embeddings": context,
        "initializer_range": 0.3,
        "tie_word_embeddings": False,
    }


def linear(rows, columns, seed=7):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, columns, generator=generator) * 0.5


HEADS = {
    "qwen": lambda: {
        "score.0.weight": linear(32, 32, 1),
        "score.0.bias": linear(1, 32, 2)[0],
        "score.2.weight": linear(2, 32, 3),
        "score.2.bias": linear(1, 2, 4)[0],
    },
    "skywork": lambda: {"v_head.summary.weight": linear(1, 32, 5), "v_head.summary.bias": linear(1, 1, 6)[0]},
    "universal": lambda: {"v_head.weight": linear(1, 32, 7), "v_head.bias": linear(1, 1, 8)[0]},
    "pqm": lambda: {"v_head.weight": linear(1, 32, 9), "v_head.bias": linear(1, 1, 10)[0]},
    "reason_eval": lambda: {"score_head.weight": linear(3, 32, 11), "score_head.bias": linear(1, 3, 12)[0]},
}
FOLDER_NAMES = {  # of the published checkpoints, where the tensors alone do not tell
    "math_shepherd": "math-shepherd-mistral-7b-prm",
    "rlhflow": "Llama3.1-8B-PRM-Deepseek-Data",
    "er_prm": "Llama3.1-Math-PRM",
    "pure": "PURE-PRM-7B",
    "universal": "Universal-PRM-7B",
    "math_psa": "math-psa",
    "reason_eval": "ReasonEval-7B",
    "pqm": "pqm",
    "trl_named": "Qwen2.5-Math-1.5B-Instruct-PRM-0.2",
}


def save(folder, family, *, context=2048, seed=0):
    """Write a tiny random checkpoint of ``family`` and return (folder, tokenizer, model)."""
    import transformers as tf

    tokenizer = {"math_shepherd": sentencepiece, "reason_eval": sentencepiece}.get(
        family, lambda: byte_level("llama" if family in ("rlhflow", "er_prm", "pqm") else "qwen")
    )()
    if family == "pqm":
        tokenizer.add_special_tokens({"additional_special_tokens": ["[PRM]"]})
    if family == "skywork":
        tokenizer.add_special_tokens({"bos_token": "<|endoftext|>"})
    shape = _shape(len(tokenizer) + 6, context)
    torch.manual_seed(seed)
    if family in ("math_shepherd", "reason_eval"):
        model = tf.MistralForCausalLM(tf.MistralConfig(**shape))
    elif family in ("rlhflow", "er_prm", "pqm"):
        model = tf.LlamaForCausalLM(tf.LlamaConfig(**shape))
    elif family in ("trl", "trl_named", "pure"):
        model = tf.Qwen2ForTokenClassification(tf.Qwen2Config(**shape, num_labels=2))
        torch.nn.init.normal_(model.score.bias)
    else:
        model = tf.Qwen2ForCausalLM(tf.Qwen2Config(**shape))
    model = model.eval()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if family in HEADS:
        tensors = {name: value.contiguous() for name, value in model.state_dict().items()}
        if family in ("qwen", "reason_eval"):
            tensors = {name: value for name, value in tensors.items() if not name.startswith("lm_head.")}
        save_file(tensors | HEADS[family](), Path(folder) / "model.safetensors", metadata={"format": "pt"})
        config = json.loads((Path(folder) / "config.json").read_text())
        config |= {"architectures": ["RemoteForPrm"], "auto_map": {"AutoModel": "modeling_remote.RemoteForPrm"}}
        (Path(folder) / "config.json").write_text(json.dumps(config))
    return str(folder), tokenizer, model


@cache
def tiny_prm(family):
    """(folder, tokenizer, model) of a family, made once a run."""
    place = tempfile.TemporaryDirectory()
    _folders.append(place)
    return save(Path(place.name) / FOLDER_NAMES.get(family, f"tiny-{family}"), family)


_folders = []  # removed when the run ends
FAMILIES = (
    "math_shepherd",
    "rlhflow",
    "qwen",
    "skywork",
    "er_prm",
    "trl",
    "pure",
    "universal",
    "math_psa",
    "pqm",
    "reason_eval",
)
