"""Rows packed as a tree: the same states as one by one, each distinct token once, on the architectures of the field."""

from __future__ import annotations

import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st

from stepgauge.lm import enable_tree, hidden_states, row_batches
from stepgauge.lm.tree import _padded_states, token_tree, tree_batches

ROWS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12), max_size=12)


def spelled(tree, path):
    return [tree.ids[place] for first, last in path for place in range(first, last)]


@given(ROWS, st.integers(1, 5))
def test_paths_spell_the_rows(rows, min_shared):
    tree = token_tree(rows, min_shared=min_shared)
    for row, path in zip(rows, tree.paths, strict=True):
        assert spelled(tree, path) == row
        assert [tree.positions[place] for a, b in path for place in range(a, b)] == list(range(len(row)))
    ends = [span for span, _ in tree.segments]
    assert [a for a, _ in ends] == [0, *(b for _, b in ends)][: len(ends)]  # side by side, nothing between


@given(ROWS)
def test_segments_know_their_ancestors(rows):
    tree = token_tree(rows, min_shared=1)
    above_of = dict(tree.segments)
    for path in tree.paths:
        assert all(above_of[span] == path[:depth] for depth, span in enumerate(path))


@given(ROWS)
def test_each_distinct_beginning_stands_there_once(rows):
    distinct = {tuple(row[: length + 1]) for row in rows for length in range(len(row))}
    assert len(token_tree(rows, min_shared=1).ids) == len(distinct)


@given(ROWS, st.integers(1, 30))
def test_batches_keep_the_budget(rows, budget):
    batches = list(tree_batches(rows, budget))
    assert sorted(index for batch in batches for index in batch) == list(range(len(rows)))
    for batch in batches:
        distinct = len(token_tree([rows[index] for index in batch], min_shared=1).ids)
        assert distinct <= budget or len(batch) == 1


def test_a_budget_below_one():
    with pytest.raises(ValueError, match="max_tokens"):
        list(tree_batches([[1]], 0))


SHAPE = {
    "vocab_size": 600,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "initializer_range": 0.3,
}
SHAPE |= {
    "intermediate_size": 48,
    "max_position_embeddings": 256,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
}
GROUPED = {**SHAPE, "num_key_value_heads": 2}
PACKED = {
    "llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**GROUPED)),
    "mistral, window": lambda: transformers.MistralForCausalLM(
        transformers.MistralConfig(**GROUPED, sliding_window=20)
    ),
    "qwen2": lambda: transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**GROUPED)),
    "qwen2, labels of tokens": lambda: transformers.Qwen2ForTokenClassification(transformers.Qwen2Config(**GROUPED)),
    "qwen3": lambda: transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**GROUPED, head_dim=8)),
    "gemma3, both windows": lambda: transformers.Gemma3ForCausalLM(
        transformers.Gemma3TextConfig(
            **GROUPED, head_dim=8, sliding_window=20, layer_types=["full_attention", "sliding_attention"]
        )
    ),
    "phi3": lambda: transformers.Phi3ForCausalLM(transformers.Phi3Config(**GROUPED)),
    "neox": lambda: transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(**SHAPE)),
    "gpt2": lambda: transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=600, n_embd=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=1)
    ),
}
NOT_PACKED = {
    "gemma2 caps its attention": lambda: transformers.Gemma2ForCausalLM(
        transformers.Gemma2Config(**GROUPED, head_dim=8)
    ),
    "bloom biases it by position": lambda: transformers.BloomForCausalLM(
        transformers.BloomConfig(vocab_size=600, hidden_size=32, n_layer=2, n_head=4)
    ),
}


def rows_of_a_search():
    """Candidates that leave a common stem at many places, the stem, a beginning of it, a stranger and a duplicate."""
    generator = torch.Generator().manual_seed(0)

    def draw(size):
        return torch.randint(0, 600, (size,), generator=generator).tolist()

    stem = draw(60)
    branches = [[*stem[:at], *draw(length)] for at, length in [(20, 9), (35, 40), (35, 1), (59, 17), (3, 30)]]
    return [*branches, stem, stem[:30], draw(1), branches[0]]


@pytest.mark.parametrize("name", [*PACKED, *NOT_PACKED])
def test_states_are_those_of_each_row_alone(name):
    torch.manual_seed(0)
    model = {**PACKED, **NOT_PACKED}[name]().eval()
    rows = rows_of_a_search()
    seen = []
    with torch.inference_mode():
        alone = [_padded_states(model, [row])[0] for row in rows]
        assert enable_tree(model) == (name in PACKED)
        model.base_model.register_forward_pre_hook(
            lambda module, args, kwargs: seen.append(kwargs["input_ids"].shape), with_kwargs=True
        )
        together = hidden_states(model, rows)
        padded = _padded_states(model, rows)  # the ordinary call still works
    distinct = len(token_tree(rows).ids)
    assert seen[0] == ((1, distinct) if name in PACKED else (len(rows), max(map(len, rows))))
    for a, b, c in zip(together, alone, padded, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(c, b, rtol=1e-4, atol=1e-5)


def test_batches_follow_what_the_model_can():
    torch.manual_seed(0)
    model = PACKED["llama"]().eval()
    rows = [[1, 2, 3, 4], [1, 2, 3, 5], [9]]
    assert list(row_batches(model, rows, 5)) == [[0], [1], [2]]  # padded: two rows of 4 are 8 tokens
    assert enable_tree(model)
    assert list(row_batches(model, rows, 5)) == [[0, 1], [2]]
