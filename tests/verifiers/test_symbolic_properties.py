"""Properties of the engine on random formulas: symmetry, reflexivity, printing, rewrites, corruptions."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepgauge.verifiers import verify
from stepgauge.verifiers.symbolic import cost
from stepgauge.verifiers.symbolic.balls import NotNumeric, evaluate
from stepgauge.verifiers.symbolic.nodes import Add, Const, Dec, Div, Fn, Int, Mul, Neg, Pow, Sym
from stepgauge.verifiers.symbolic.parser import Invalid, parse
from stepgauge.verifiers.symbolic.printer import to_latex

# the strategies of formulas are deep, and hypothesis prints them
pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")

_ALPHABET = r"0123456789abcexyznik+-*/^_(){}[]|,.;:=<>!%$& \'" + '"\\√πα½²٣°≤∞∪'
_WORDS = [
    r"\frac",
    r"\sqrt",
    r"\left(",
    r"\right)",
    r"\text{",
    r"\sin",
    r"\log",
    r"\pi",
    r"\sum_{k=1}^",
    r"\int",
    "dx",
    r"\boxed{",
    r"\begin{pmatrix}",
]

_leaves = st.one_of(
    st.integers(0, 99).map(Int),
    st.sampled_from("abnxyzkm").map(Sym),
    st.sampled_from(["pi", "e"]).map(Const),
    st.builds(Dec, st.integers(1, 999), st.integers(1, 3)),
)


def _grow(inner):
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        several.filter(lambda args: not any(isinstance(arg, Add) for arg in args[:1])).map(Add),
        several.map(Mul),
        st.builds(Div, inner, inner),
        st.builds(Pow, inner, st.integers(1, 4).map(Int)),
        inner.map(Neg),
        st.builds(lambda name, arg: Fn(name, (arg,)), st.sampled_from(["sin", "cos", "ln", "arctan", "abs"]), inner),
        inner.map(lambda arg: Fn("root", (arg, Int(2)))),
    )


_formulas = st.recursive(_leaves, _grow, max_leaves=8)


@st.composite
def _formula(draw):
    return draw(_formulas)  # a short name in reports: the strategy's own runs to pages


formulas = _formula()
texts = st.lists(st.one_of(st.text(_ALPHABET, max_size=4), st.sampled_from(_WORDS)), max_size=12).map("".join)


@given(formulas)
@settings(max_examples=120)
def test_parse_undoes_print(formula):
    printed = to_latex(formula)
    again = parse(printed)
    assert not isinstance(again, Invalid), printed
    assert to_latex(again) == printed
    assert parse(to_latex(again)) == again


@given(formulas, formulas)
@settings(max_examples=60)
def test_symmetric(a, b):
    left, right = to_latex(a), to_latex(b)
    assert verify(left, right).verdict == verify(right, left).verdict


@given(texts, texts)
@settings(max_examples=100)
def test_symmetric_on_any_text(a, b):
    assert verify(a, b).verdict == verify(b, a).verdict


@given(texts)
@settings(max_examples=120)
def test_what_parses_equals_itself(text):
    if any(char.isalnum() for char in text) and not isinstance(parse(text), Invalid):
        assert verify(text, text).verdict == "equal"


def _rewrite(node, rng: random.Random):
    """An equal formula, written in another way."""
    if isinstance(node, (Add, Mul)):
        args = [_rewrite(arg, rng) for arg in node.args]
        rng.shuffle(args)
        return type(node)(tuple(args))
    if isinstance(node, Div):
        return Mul((_rewrite(node.num, rng), Pow(_rewrite(node.den, rng), Neg(Int(1)))))
    if isinstance(node, Neg):
        return Mul((Neg(Int(1)), _rewrite(node.arg, rng)))
    if isinstance(node, Pow) and isinstance(node.exp, Int) and 2 <= node.exp.value <= 4 and rng.random() < 0.5:
        return Mul((_rewrite(node.base, rng),) * node.exp.value)
    if isinstance(node, Int) and node.value > 1 and rng.random() < 0.4:
        part = rng.randint(1, node.value)
        return Add((Int(node.value - part), Int(part)))
    if isinstance(node, Fn):
        return Fn(node.name, (_rewrite(node.args[0], rng), *node.args[1:]))
    return node


def _has_values(formula) -> bool:
    try:
        return all(evaluate(formula, point, 128).is_finite() for point in range(5))
    except (NotNumeric, cost.Undefined, cost.TooLarge):
        return False


@given(formulas, st.integers(0, 2**32))
@settings(max_examples=100)
def test_rewrites_stay_equal(formula, seed):
    if not _has_values(formula):
        return  # 1/0 has none to keep
    other = to_latex(_rewrite(formula, random.Random(seed)))
    assert verify(to_latex(formula), other).verdict == "equal", (to_latex(formula), other)


def _corrupt(node, rng: random.Random):
    """The formula with one number, name, sign or function changed; None where there is nothing to change."""
    places: list = []

    def collect(part, path):
        places.append(path)
        for index, child in enumerate(getattr(part, "args", ()) or ()):
            collect(child, (*path, index))

    collect(node, ())
    path = rng.choice(places)

    def change(part, left):
        if left:
            args = list(part.args)
            args[left[0]] = change(args[left[0]], left[1:])
            return type(part)(tuple(args)) if not isinstance(part, Fn) else Fn(part.name, tuple(args))
        if isinstance(part, Int):
            return Int(part.value + rng.choice([1, 2, 10]))
        if isinstance(part, Sym):
            return Sym("w")
        if isinstance(part, Dec):
            return Dec(part.digits + 1, part.scale)
        if isinstance(part, Fn) and part.name == "sin":
            return Fn("cos", part.args)
        return Add((part, Int(1)))

    return change(node, path)


_plain_formulas = st.recursive(
    st.one_of(st.integers(1, 99).map(Int), st.sampled_from("abnxyz").map(Sym)),
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda args: Add(tuple(args))),
        st.lists(inner, min_size=2, max_size=3).map(lambda args: Mul(tuple(args))),
        inner.map(lambda arg: Fn("sin", (arg,))),
    ),
    max_leaves=8,
)


@st.composite
def _plain(draw):
    return draw(_plain_formulas)


def test_corruptions_are_caught():
    caught = seen = 0

    @given(_plain(), st.integers(0, 2**32))
    @settings(max_examples=300, database=None)
    def run(formula, seed):
        nonlocal caught, seen
        seen += 1
        caught += not verify(to_latex(formula), to_latex(_corrupt(formula, random.Random(seed)))).equal

    run()
    assert caught >= 0.99 * seen, f"{caught} of {seen}"


@given(st.text(max_size=60))
@settings(max_examples=120)
def test_parser_is_total(text):
    parse(text)


@pytest.mark.slow
def test_parser_is_total_on_a_million_texts():
    from benchmarks.fuzz_parser import fuzz

    report = fuzz(1_000_000)
    assert report["exceptions"] == 0
    assert report["worst_ms"] < 50
