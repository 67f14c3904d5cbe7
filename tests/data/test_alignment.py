import itertools
import time
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepgauge.data import align, bundled, rollout_from_text, split, step_of_token, step_token_spans, token_spans
from stepgauge.scoring import Rollout


@cache
def byte_level():
    """A byte-level BPE trained on the bundled rollouts, with merges over blank lines."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1500,
        special_tokens=["<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
        max_token_length=12,
    )
    tokenizer.train_from_iterator(
        [r.text.replace("\n", "\n\n")[:200] for r in bundled()[:100]] + ["so 😀"] * 9, trainer
    )
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>")
    fast.add_tokens(["<tool>"])  # not special: it shows in the text
    return fast


@cache
def sentencepiece():
    """Mistral's 32,000-piece SentencePiece model (byte fallback, leading space), as transformers' Llama tokenizer."""
    data = Path(pytest.importorskip("mistral_common", reason="needs the dev extra").__file__).parent / "data"
    sp = pytest.importorskip("sentencepiece", reason="needs the dev extra")
    from transformers import LlamaTokenizerFast
    from transformers.tokenization_utils_base import generate_merges

    model = sp.SentencePieceProcessor(model_file=str(data / "tokenizer.model.v1"))
    vocab = {model.id_to_piece(index): index for index in range(model.get_piece_size())}
    scores = {piece: model.get_score(index) for piece, index in vocab.items()}
    return LlamaTokenizerFast(vocab=vocab, merges=generate_merges(vocab, scores))


TOKENIZERS = {"byte_level": byte_level, "sentencepiece": sentencepiece}
# not "▁", which SentencePiece takes for a space, so that no decoded text has it
PARTS = st.sampled_from(["\n", "\n\n", ".\n\n", " ", "  ", "Step 1: ", "so ", "12 + 3", "😀", "👩‍👩‍👧", "é"])
MORE = st.sampled_from(["e\u0301", "日本", "<0x0A>", "\x00", "\ufffd"])
WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="▁"), max_size=4)
TEXTS = st.lists(PARTS | MORE | WORDS, max_size=12).map("".join)


def check(tokenizer, ids, text, spans):
    """Spans are ordered, and the tokens up to any point show the text up to there: checked against ``decode``."""
    assert len(spans) == len(ids)
    assert all(0 <= start <= end <= len(text) for start, end in spans)
    for (start, end), (later, _) in itertools.pairwise(spans):
        assert start <= later <= end
    for cut in range(1, len(ids) + 1):
        shown = tokenizer.decode(ids[:cut], clean_up_tokenization_spaces=False)
        # a byte run that is not UTF-8 shows U+FFFD for all of it, its space too, which alone decodes to nothing
        comparable = "\ufffd" not in shown and (shown or "\ufffd" not in text)
        if comparable and text.startswith(shown) and not text.startswith(" "):  # decode may drop it
            assert max(end for _, end in spans[:cut]) == len(shown)


@pytest.mark.parametrize("name", TOKENIZERS)
@given(text=TEXTS)
def test_given_ids_of_any_text(name, text):
    tokenizer = TOKENIZERS[name]()
    ids = tokenizer.encode(text, add_special_tokens=False)
    spans = token_spans(tokenizer, ids, text)
    check(tokenizer, ids, text, spans)
    covered = {i for a, b in spans for i in range(a, b)}
    assert covered == set(range(len(text)))


@pytest.mark.parametrize("name", TOKENIZERS)
@given(ids=st.lists(st.integers(0, 1400), max_size=12), skip=st.booleans())
def test_any_sampled_ids(name, ids, skip):
    """A policy may sample ids that no text encodes to: bytes that are not UTF-8, special tokens in the middle."""
    tokenizer = TOKENIZERS[name]()
    text = tokenizer.decode(ids, skip_special_tokens=skip, clean_up_tokenization_spaces=False)
    if skip and any(i in tokenizer.all_special_ids for i in ids) and "\ufffd" in tokenizer.decode(ids):
        return  # decode joins bytes across the token it leaves out
    check(tokenizer, ids, text, token_spans(tokenizer, ids, text))


@pytest.mark.parametrize("name", TOKENIZERS)
@given(parts=st.lists(TEXTS, min_size=1, max_size=4), gap=st.sampled_from(["\n\n", "\n", " ", ""]))
def test_each_step_owns_its_characters(name, parts, gap):
    tokenizer = TOKENIZERS[name]()
    text = gap.join(parts)
    steps = split(text, "newline")
    spans = token_spans(tokenizer, tokenizer.encode(text, add_special_tokens=False), text)
    owners = step_of_token(spans, steps)
    for (start, end), owner in zip(spans, owners, strict=True):
        shared = [i for i, (a, b) in enumerate(steps) if max(a, start) < min(b, end)]
        assert owner == (shared[0] if shared else None)
    for step, (first, last) in enumerate(step_token_spans(spans, steps)):
        assert owners[first:last].count(step) == owners.count(step)
        assert {owner for owner in owners[first:last] if owner is not None} <= {step}


def test_a_token_over_the_boundary_belongs_to_the_earlier_step():
    tokenizer = byte_level()
    text = "The answer is 4.\n\nThe answer is 5."
    ids = tokenizer.encode(text)
    rollout = Rollout("", [text[a:b] for a, b in split(text)], text=text, spans=split(text), token_ids=ids)
    (first, last), (second, end) = align(rollout, tokenizer)
    straddling = tokenizer.convert_ids_to_tokens(ids[last - 1])
    assert straddling.startswith(".ĊĊ")
    assert (first, end) == (0, len(ids))
    assert last == second


def test_special_tokens():
    tokenizer = byte_level()
    end = tokenizer.eos_token_id
    tool = tokenizer.convert_tokens_to_ids("<tool>")
    a, b = tokenizer.encode("a"), tokenizer.encode("b")
    ids = [end, *a, end, tool, *b, end]
    assert token_spans(tokenizer, ids, "a<tool>b") == [(0, 0), (0, 1), (1, 1), (1, 7), (7, 8), (8, 8)]
    assert token_spans(tokenizer, ids, "<|end|>a<|end|><tool>b<|end|>")[2:4] == [(8, 15), (15, 21)]
    with pytest.raises(ValueError, match="do not spell the text"):
        token_spans(tokenizer, ids, "ab")  # an added token that is not special is part of the text


def test_sentencepiece_spaces_and_bytes():
    tokenizer = sentencepiece()
    ids = [1, *tokenizer.encode("Hi 😀\n", add_special_tokens=False)]
    tokens = tokenizer.convert_ids_to_tokens(ids)
    assert (tokens[0], tokens[-1]) == ("<s>", "<0x0A>")
    spans = token_spans(tokenizer, ids, "Hi 😀\n")
    assert (spans[0], spans[1], spans[-1]) == ((0, 0), (0, 2), (4, 5))
    assert [span for span in spans if span[1] == 4][-1] == (3, 4)  # the bytes of the emoji
    assert token_spans(tokenizer, ids, " Hi 😀\n")[1] == (0, 3)  # the space shown
    pad = [2, *tokenizer.encode("x", add_special_tokens=False)]
    assert token_spans(tokenizer, [*ids, *pad], "Hi 😀\n</s>x")[-1] == (9, 10)


def test_an_emoji_cut_off_at_the_end():
    for make in TOKENIZERS.values():
        tokenizer = make()
        ids = tokenizer.encode("ab 👩‍👩‍👧", add_special_tokens=False)
        for end in range(1, len(ids) + 1):
            text = tokenizer.decode(ids[:end])
            spans = token_spans(tokenizer, ids[:end], text)
            assert spans[-1][1] == len(text)


def test_errors_say_what_to_do():
    tokenizer = byte_level()
    with pytest.raises(ValueError, match=r"do not spell the text: at character 2 .*'b', the text has 'c'.*pass"):
        token_spans(tokenizer, tokenizer.encode("a b"), "a c")
    with pytest.raises(ValueError, match="do not spell the text: at character 3"):
        token_spans(tokenizer, tokenizer.encode("a b"), "a b c")
    with pytest.raises(ValueError, match=r"token_ids\[1\] = 99999 is not in the tokenizer's vocabulary"):
        token_spans(tokenizer, [5, 99999], "a")
    with pytest.raises(TypeError, match="needs a fast tokenizer"):
        token_spans(object(), [1], "a")
    with pytest.raises(ValueError, match="token_ids is None"):
        align(Rollout("", ["a"]), tokenizer)
    with pytest.raises(ValueError, match="step 1 begins at 1, before step 0 ends"):
        step_of_token([(0, 1)], [(0, 2), (1, 3)])


def test_empty_steps_own_no_token():
    assert step_of_token([(0, 4), (4, 6)], [(0, 2), (3, 3), (4, 6)]) == [0, 2]
    assert step_token_spans([(0, 4), (4, 6)], [(0, 2), (3, 3), (4, 6)]) == [(0, 1), (1, 1), (1, 2)]
    assert step_token_spans([], [(0, 0)]) == [(0, 0)]


def test_bundled_rollouts_align():
    tokenizer = byte_level()
    for rollout in bundled("dev_1.5b")[:40]:
        ids = tokenizer.encode(rollout.text)
        given_ids = rollout_from_text("", rollout.text)
        spans = align(Rollout("", given_ids.steps, text=rollout.text, spans=given_ids.spans, token_ids=ids), tokenizer)
        for step, (first, last) in zip(rollout.steps, spans, strict=True):
            assert step.strip() in tokenizer.decode(ids[max(0, first - 1) : last])


@pytest.mark.parametrize("name", TOKENIZERS)
def test_linear_time(name):
    tokenizer = TOKENIZERS[name]()
    text = "Step 1: we add 😀 12.\n\n" * 10_000
    ids = tokenizer.encode(text, add_special_tokens=False)
    start = time.perf_counter()
    spans = token_spans(tokenizer, ids, text)
    step_of_token(spans, split(text))
    assert time.perf_counter() - start < 10
