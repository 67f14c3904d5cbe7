import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepgauge.data import SPLITTERS, answer_start, locate, rollout_from_text, split, think_is_open, thinking_spans

TAGS = ("<think>", "</think>")
PARTS = st.sampled_from(
    ["\n", "\n\n", " \n\t\n", "\r\n", ". ", "$", "$$", r"\(", r"\]", "```", "~~~", "\nStep 1: ", "\n2) "]
)
MORE = st.sampled_from(
    ["3.14", "e.g. ", "<think>", "</think>", "<thi", "\u2028", "\x85", "😀", "日本。語", "\n**Step 2.**"]
)
TEXTS = st.lists(st.one_of(PARTS, MORE, st.text(max_size=8)), max_size=30).map("".join)


def steps_of(text, how="auto"):
    return [text[a:b] for a, b in split(text, how)]


@pytest.mark.parametrize("how", SPLITTERS)
@given(text=TEXTS)
def test_spans_and_gaps_reassemble_the_text(how, text):
    at, rebuilt = 0, ""
    for start, end in split(text, how):
        gap, step = text[at:start], text[start:end]
        for tag in TAGS:
            gap = gap.replace(tag, "")
        assert at <= start < end
        assert gap.strip() == ""
        assert step == step.strip() != ""
        assert not any(tag in step for tag in TAGS)
        rebuilt += text[at:end]
        at = end
    rest = text[at:]
    assert rebuilt + rest == text
    for tag in TAGS:
        rest = rest.replace(tag, "")
    assert rest.strip() == ""


CASES = [
    # how, text, steps, why
    (
        "blank_line",
        "a\n\nb\n \nc\n\n\n\nd\n",
        ["a", "b", "c", "d"],
        "spaces are blank, several are one",
    ),
    ("blank_line", "a\r\n\r\nb", ["a", "b"], "Windows line ends"),
    ("blank_line", "a\nb", ["a\nb"], "no blank line"),
    ("newline", "a\n\n b \nc", ["a", "b", "c"], "spaces around a step are separator"),
    ("newline", "x\n```py\na\n\nb\n```\ny", ["x", "```py\na\n\nb\n```", "y"], "code is one step"),
    ("newline", "x\n```py\na\nb", ["x", "```py\na\nb"], "an open fence runs to the end"),
    (
        "newline",
        "x\n````\n```\na\n````\ny",
        ["x", "````\n```\na\n````", "y"],
        "a shorter fence closes nothing",
    ),
    ("newline", "use ```x``` here\nb", ["use ```x``` here", "b"], "inline code is no fence"),
    ("newline", "so\n\\[\nx = 1\n\\]\nend", ["so", "\\[\nx = 1\n\\]", "end"], "display math is one step"),
    ("newline", "\\[ x\n\ny \\]", ["\\[ x", "y \\]"], "math does not span a blank line"),
    ("newline", "costs $5\npays 6$ more", ["costs $5", "pays 6$ more"], "a dollar does not span lines"),
    ("step_label", "Plan.\nStep 1: a\nb\nStep 2: c", ["Plan.", "Step 1: a\nb", "Step 2: c"], "the preamble is a step"),
    ("step_label", "**Step 1.** a\n**Step 2** b", ["**Step 1.** a", "**Step 2** b"], "bold"),
    ("step_label", "### Step 1 Add\nx\n## STEP 2\ny", ["### Step 1 Add\nx", "## STEP 2\ny"], "headings"),
    ("step_label", "Step 1 is easy\nstep 2 too", ["Step 1 is easy\nstep 2 too"], "prose about steps is no label"),
    ("numbered", "Go:\n1. a\n2) b\n   (3) c", ["Go:", "1. a", "2) b", "(3) c"], "three ways to number"),
    ("numbered", "1.5 is\n2020 was", ["1.5 is\n2020 was"], "numbers are no list"),
    ("sentence", "Pi is 3.14. So, e.g. 2 is less. Done!", ["Pi is 3.14.", "So, e.g. 2 is less.", "Done!"], "decimals"),
    (
        "sentence",
        "Dr. Who asks. See Fig. 3. It is no. So?",
        ["Dr. Who asks.", "See Fig. 3.", "It is no.", "So?"],
        "abbr.",
    ),
    ("sentence", "We take $x. Y$ here. Ok.", ["We take $x. Y$ here.", "Ok."], "a formula is not cut"),
    ("sentence", "It is $5. He has $6. Sum.", ["It is $5.", "He has $6.", "Sum."], "prices are no formula"),
    ("sentence", r"So \(a. B\) ok. \$5. X", [r"So \(a. B\) ok.", r"\$5.", "X"], "brackets and escaped dollars"),
    ("sentence", "1. Add them. 2 more.\nStep 2. Stop.", ["1. Add them.", "2 more.", "Step 2. Stop."], "markers stay"),
    ("sentence", "是的。它是4。", ["是的。", "它是4。"], "no space after a Chinese stop"),
    ("sentence", 'He said "Go." Then left.', ['He said "Go."', "Then left."], "quotes belong to the sentence"),
    ("auto", "Step 1: a\n\nb\nStep 2: c", ["Step 1: a\n\nb", "Step 2: c"], "two labels win"),
    ("auto", "Step 1: a\n\nb", ["Step 1: a", "b"], "one label does not"),
    ("auto", "a\nb\n\nc", ["a\nb", "c"], "then blank lines"),
    ("auto", "a\nb\n\n", ["a", "b"], "a blank line at the end separates nothing"),
    ("auto", "<think>\na\n\nb\n</think>\n\nc\nd", ["a", "b", "c", "d"], "thinking and answer are split apart"),
    ("auto", " \n\t\n", [], "blank"),
]


@pytest.mark.parametrize(("how", "text", "steps", "why"), CASES)
def test_cases(how, text, steps, why):
    assert steps_of(text, how) == steps, why


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match=r"split\(how\) must be one of auto, blank_line.*got 'words'"):
        split("a", "words")
    with pytest.raises(TypeError, match="takes a string, got list"):
        split(["a"])


@given(st.lists(st.text(max_size=5), max_size=8), st.text(max_size=3))
def test_given_steps_are_located_in_order(steps, gap):
    text = gap.join(steps)
    spans = locate(text, steps)
    assert [text[a:b] for a, b in spans] == steps
    assert spans == sorted(spans)


def test_a_step_that_is_not_in_the_text_is_named():
    with pytest.raises(ValueError, match=r"steps\[1\] = 'a' is not in the text after character 1"):
        locate("a b", ["a", "a"])


@pytest.mark.parametrize(
    ("text", "thinking", "answer", "is_open"),
    [
        ("4", [], "4", False),
        ("<think>x</think>4", ["x"], "4", False),
        ("x</think>4", ["x"], "4", False),
        ("<think>x", ["x"], "", True),
        ("<think>a<think>b</think>4", ["a<think>b"], "4", False),
        ("<think>a</think>4<think>b</think>5", ["a", "b"], "5", False),
        ("<think>a</think>4<think>b", ["a", "b"], "", True),
        ("", [], "", False),
    ],
)
def test_thinking(text, thinking, answer, is_open):
    assert [text[a:b] for a, b in thinking_spans(text)] == thinking
    assert text[answer_start(text) :] == answer
    assert think_is_open(text) == is_open


def test_rollout_from_text():
    rollout = rollout_from_text("p", "<think>a\nb", gold="1", id="x", meta={"k": 1})
    assert rollout.steps == ("a", "b")
    assert rollout.meta == {"k": 1, "truncated": True}
    assert rollout_from_text("p", "<think>a</think>b").meta == {}


def test_a_text_of_30000_tokens():
    lines = [f"Line {i}: we add {i} and {i + 1}, so the sum is {2 * i + 1}." for i in range(2000)]
    text = "<think>\n" + "\n\n".join(lines) + "\n</think>\nStep 1: Add.\nStep 2: The answer is 3999."
    assert len(text.split()) > 23_000  # about 1.5 tokens a word: well over 30,000
    assert steps_of(text) == [*lines, "Step 1: Add.", "Step 2: The answer is 3999."]
    assert text[answer_start(text) :].lstrip().startswith("Step 1")


HOSTILE = ["\n", ".", ". ", "a. ", "$", "$a", "$ \\$", "``` ", "```\n", "\\[", "\\[\n", "\n ", "<think>", "Step 1"]
HOSTILE += ["Step 1:\n", "1. ", ")", "!)", "**", "\n**", "a b"]


@pytest.mark.parametrize("unit", HOSTILE)
def test_hostile_text_takes_linear_time(unit):
    text = unit * (100_000 // len(unit))
    start = time.perf_counter()
    for how in ("auto", "numbered", "sentence"):
        split(text, how)
    assert time.perf_counter() - start < 5  # quadratic time would be minutes


@pytest.mark.slow
@pytest.mark.parametrize("how", SPLITTERS)
def test_ten_megabytes(how):
    text = "So we add 3.5 and $x + 1$, which gives 7. Then we go on.\n\n" * 170_000
    start = time.perf_counter()
    assert len(split(text, how)) >= 1
    assert time.perf_counter() - start < 30
