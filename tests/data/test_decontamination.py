from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepgauge.data.decontamination import BenchmarkIndex, normalised_words
from stepgauge.data.formats import read_labelled

WORDS = st.lists(st.sampled_from("alpha beta gamma delta 1 2 3 4 5 6".split()), max_size=30)
LONG = "Tom has 3 apples and buys 4 more apples at the market; how many apples does Tom have now?"


@given(WORDS, WORDS, WORDS, st.integers(1, 6))
def test_a_shared_run_of_n_words_is_found_wherever_it_stands(before, problem, after, n):
    index = BenchmarkIndex([" ".join(problem)], n)
    found = index.overlap(" ".join([*before, *problem, *after]))
    if len(problem) >= n:
        assert found is not None
        assert found.share == 1.0
    elif not problem:
        assert found is None


@given(WORDS, WORDS, st.integers(1, 6))
def test_against_counting(problem, text, n):
    def grams(words):
        return {tuple(words[i : i + n]) for i in range(max(1, len(words) - n + 1))} if words else set()

    found = BenchmarkIndex([" ".join(problem)], n).overlap(" ".join(text))
    shared = grams(problem) & grams(text)
    assert (found is None) == (not shared)
    if found is not None:
        assert found.share == pytest.approx(len(shared) / len(grams(problem)))


@pytest.mark.parametrize(
    "copy",
    [
        LONG.upper(),
        LONG.replace(" ", "\n  "),
        LONG.replace(";", " --"),
        "Question: " + LONG + " Think step by step.",
        LONG.replace("3", "$3$").replace("4", r"\text{4}"),
        LONG.replace("apples", "ａpples"),  # a full-width letter
    ],
)
def test_layout_hides_nothing(copy):
    assert BenchmarkIndex([LONG]).overlap(copy).share == 1.0


@pytest.mark.parametrize("other", ["", "How many apples does Tom have now?", LONG.replace("3", "5").replace("4", "6")])
def test_what_is_no_copy(other):
    assert BenchmarkIndex([LONG]).overlap(other) is None


def test_the_best_match_is_named():
    index = BenchmarkIndex(["a b c d e f", "a b c d x y"], n=3)
    assert (index.overlap("a b c d x y").index, index.overlap("a b c d e f").index) == (1, 0)
    assert index.overlap("z a b c z").index == 0  # equal shares: the first


def test_short_problems_need_the_whole_text():
    index = BenchmarkIndex(["Compute 7 * 8."])
    assert index.overlap("compute 7 8") is not None
    assert index.overlap("To find the area, compute 7 * 8.") is None


@pytest.mark.parametrize("text", [r"\frac{1}{2}", r"\dfrac{1}{2}", r"\left(\tfrac{1}{2}\right)"])
def test_fractions_read_alike(text):
    assert normalised_words(text) == ["1", "2"]


def test_bad_input():
    for arguments in (([], 13), (["a"], 0)):
        with pytest.raises(ValueError, match="BenchmarkIndex"):
            BenchmarkIndex(*arguments)


def _jsonl(path, field):
    return [json.loads(line)[field] for line in path.read_text(encoding="utf-8").splitlines()]


def test_on_real_benchmarks(shared):
    """PRM800K's test problems are those of MATH-500; GSM8K's training set holds almost none of its test set."""
    data = shared / "data"
    math500 = BenchmarkIndex(_jsonl(data / "math500" / "MATH500.jsonl", "problem"))
    source = data / "prmbench" / "prm800k_test_p2_4o_circular.jsonl"
    originals = {item.rollout.meta["original_question"] for item in read_labelled(source, "prmbench")}
    assert sum(math500.overlap(text) is not None for text in originals) > 0.9 * len(originals)
    gsm8k = BenchmarkIndex(_jsonl(data / "gsm8k" / "test.jsonl", "question"))
    train = _jsonl(data / "gsm8k" / "train.jsonl", "question")
    assert sum(gsm8k.overlap(text) is not None for text in train) < 0.02 * len(train)
