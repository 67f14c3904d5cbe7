"""Tiny random language models, for tests of what runs one."""

import tempfile
from functools import cache

import torch

from stepgauge.data import bundled

TEMPLATE = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
TEMPLATE += "{{ '<|im_start|>assistant\n' }}"


def tiny_model(folder, kind="llama", context=4096):
    """A tiny random model with a byte-level tokenizer and 30 rows of padding in its head."""
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    raw.post_processor = processors.ByteLevel(trim_offsets=True)  # as GPT-2's: its offsets leave out spaces
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=["<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    raw.train_from_iterator([rollout.text for rollout in bundled()[:50]], trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<|im_end|>")
    shape = {"vocab_size": 630, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    shape |= {"intermediate_size": 48, "max_position_embeddings": context, "initializer_range": 0.3}
    torch.manual_seed(0)
    if kind == "llama":
        tokenizer.chat_template = TEMPLATE
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**shape, tie_word_embeddings=True))
    else:
        model = transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(**shape))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@cache
def tiny_llama():
    """The folder of a tiny Llama, made once a run."""
    folder = tempfile.TemporaryDirectory()
    _folders.append(folder)
    return tiny_model(folder.name)


_folders = []  # removed when the run ends
