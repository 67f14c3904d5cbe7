"""The math scorer and the drop-ins: right is 1, wrong is 0, and what cannot be told is no score."""

from __future__ import annotations

import pytest

from stepgauge import load
from stepgauge.verifiers import answer_classes, extract_answer, verify_many
from stepgauge.verifiers.math_verify_compat import accuracy_reward, parse, verify

ROWS = [
    ("14", "The answer is 14.", 1.0, None),
    ("14", "The answer is 15.", 0.0, None),
    ("14", r"\boxed{9^{9^{9^{9}}}}", None, "undecided"),
    ("14", r"\boxed{\unknown{3}}", None, "unparsed"),
    (r"\frac{1}{", "The answer is 14.", None, "unparsed"),  # our gold answer is broken, not the response
    (None, "The answer is 14.", None, "no_gold"),
]


@pytest.mark.parametrize(("gold", "last", "value", "reason"), ROWS)
def test_scorer(gold, last, value, reason):
    scores = load("math").score(["First.", last], gold=gold)
    assert scores.values == (None, value)
    assert scores.reasons[-1] == reason


def test_accuracy_reward_abstains():
    completions = [
        [{"role": "assistant", "content": text}] for text in (r"\boxed{1/2}", r"\boxed{2}", r"\boxed{9^{9^{9^{9}}}}")
    ]
    assert accuracy_reward(completions, ["0.5", "3", "7"]) == [1.0, 0.0, None]
    with pytest.raises(ValueError, match="one solution a completion"):
        accuracy_reward(completions, ["1"])


def test_math_verify_calls():
    assert verify(parse("$1/2$"), parse("The answer is 0.5."))
    assert not verify(parse("$1/2$"), parse("The answer is 0.6."))
    assert not verify(parse("1"), [])


def test_spans_hold_the_answer():
    for response in (
        r"So \boxed{4}.",
        "The answer is 42.",
        "#### 18",
        "<answer>7</answer>",
        "最终答案：12",
        "<think>1</think> So 2 + 3 = 5",
    ):
        found = extract_answer(response)
        start, end = found.span
        assert response[start:end] == found.text
    assert extract_answer("<think>The answer is 7") is None


def test_classes_need_few_comparisons(monkeypatch):
    from stepgauge.verifiers import answers

    calls = 0
    real = answers.verify

    def counted(*args, **kwargs):
        nonlocal calls
        calls += 1
        return real(*args, **kwargs)

    monkeypatch.setattr(answers, "verify", counted)
    votes = [f"{n}/{d}" for n in range(1, 8) for d in (2, 4, 8)] + [r"\sqrt{8}", r"2\sqrt2", "x+1", "1+x", None, "0.5"]
    classes = answer_classes(votes * 10)
    assert classes[0] == 0
    assert classes[votes.index(r"\sqrt{8}")] == classes[votes.index(r"2\sqrt2")]
    assert classes[votes.index("x+1")] == classes[votes.index("1+x")]
    assert classes[votes.index("0.5")] == classes[votes.index("1/2")]
    assert classes[votes.index(None)] is None
    assert calls < len(votes) ** 2 / 4


def test_many_keeps_order_and_length():
    pairs = [("1", "1"), ("1", "2"), ("1", "9^{9^{9^{9}}}"), ("1", "1")]
    assert [verdict.verdict for verdict in verify_many(pairs)] == ["equal", "different", "undecided", "equal"]


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("She pays $7. The cars cost $5 a ride.", "$5"),
        ("Each ride costs $7. The bumper cars cost $", "$7"),
        ("He has $10 to spend, and $3 is gone, so $7 is left.", "$7"),
        ("It is $7 a ride and the price is $5", "$5"),
        ("So $x = 7$. Then $y = 5$.", "$y = 5$"),
        ("Its length is $5 \\text{ cm and a bit}$", "$5 \\text{ cm and a bit}$"),
        ("Its length is $5 cm$", "$5 cm$"),
        ("We get $3, 4$", "$3, 4$"),
    ],
)
def test_amounts_of_money_are_no_formula(response, answer):
    """Two dollar signs with a sentence between them are two amounts; a formula stays one."""
    assert extract_answer(response).text == answer


def test_an_echoed_problem_is_not_an_answer():
    verdict = verify_many([("7", "$7. The bumper cars cost $5")])[0]
    assert verdict.verdict != "equal"
