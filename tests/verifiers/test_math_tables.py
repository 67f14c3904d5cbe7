"""Tables of (gold, prediction, same?) by topic, with as many negatives as positives."""

from __future__ import annotations

import pytest

from stepgauge.verifiers import Policy, verify

SAME = {
    "fractions": [("3/4", "0.75"), (r"\frac{7}{8}", r"\dfrac78"), ("5/2", "2 1/2"), (r"-\frac{1}{3}", r"\frac{-1}{3}")],
    "numbers": [
        ("1e6", "1,000,000"),
        ("2 500 000", "2500000"),
        ("7", "7.0"),
        ("0.25", ".25"),
        ("½", "0.5"),
        ("٤", "4"),
    ],
    "decimals": [(r"\pi", "3.14159"), ("2/7", "0.2857142857"), (r"\sqrt{5}", "2.236")],
    "roots": [(r"\sqrt{18}", r"3\sqrt2"), (r"\frac{1}{\sqrt{7}}", r"\frac{\sqrt7}{7}"), (r"\sqrt[3]{-27}", "-3")],
    "trig": [(r"\sin 30^\circ", r"\frac12"), (r"\cos^2 x", r"1-\sin^2 x"), (r"\sin 2x", r"2\sin x\cos x")],
    "logs": [
        (r"\log_3 81", "4"),
        (r"\ln(ab)", r"\ln a+\ln b"),
        (r"\log_9 x", r"\frac{1}{2}\log_3 x"),
        (r"\log 1000", "3"),
    ],
    "algebra": [
        ("(x-3)(x+5)", "x^2+2x-15"),
        (r"\frac{1}{x-1}-\frac{1}{x+1}", r"\frac{2}{x^2-1}"),
        ("3^{n+1}", r"3\cdot 3^n"),
    ],
    "complex": [("(2+i)(2-i)", "5"), (r"e^{i\pi/2}", "i"), (r"\frac{2}{1-i}", "1+i")],
    "names": [("x=7", "7"), ("f(x)=x+1", "1+x"), ("AB=5", "5"), (r"x\in\{2,9\}", r"x=9\text{ or }x=2")],
    "equations": [("2x+6y=8", "x+3y=4"), (r"\frac{a}{b}=c", "a=bc"), ("(x-1)^2+y^2=4", "x^2-2x+y^2=3")],
    "inequalities": [("x>3", "3<x"), ("-2x<4", "x>-2"), ("|x-1|<2", "(-1,3)"), ("x^2>9", r"x<-3\text{ or }x>3")],
    "intervals": [("[0,2)", r"0\le x<2"), (r"(-\infty,\infty)", r"\mathbb{R}"), (r"[0,1]\cup[1,2]", "[0,2]")],
    "sets": [
        (r"\{3,1,2\}", r"\{1,2,3\}"),
        (r"\pm 6", r"\{-6,6\}"),
        ("4, 9", r"9\text{ and }4"),
        (r"\emptyset", r"\{\}"),
    ],
    "tuples": [("(1,2)", r"(1,\frac{4}{2})"), ("(x,y)=(3,4)", "(3,4)"), ("(1,2),(3,4)", "(3,4),(1,2)")],
    "matrices": [(r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{bmatrix}1&2\\3&\frac{8}{2}\end{bmatrix}")],
    "units": [
        ("5 km", r"5\text{ km}"),
        ("5 km", "5000 m"),
        ("7 apples", "7"),
        (r"90^\circ", r"\frac{\pi}{2}"),
        ("$4", "4"),
    ],
    "percent": [(r"40\%", "0.4"), ("40%", "40 percent")],
    "relations": [("6:4", "3:2"), (r"x\equiv 9\pmod 7", r"x\equiv 2\pmod{7}"), (r"a\ne b", r"b\neq a")],
    "text": [(r"\text{Yes}", "yes"), ("(C)", "C"), (r"\textbf{odd}", "odd"), ("Tuesday", r"\text{tuesday}")],
    "operators": [(r"\sum_{k=1}^{5}k", "15"), (r"\binom{7}{2}", "21"), (r"\int_0^2 x\,dx", "2"), ("4!", "24")],
}
OTHER = {
    "fractions": [("3/4", "4/3"), (r"\frac{7}{8}", "78"), ("2 1/2", "21/2"), (r"\frac13", "0.3")],
    "numbers": [
        ("1000000", "1000001"),
        ("7", "-7"),
        ("100", "10^3"),
        ("0", "0/0"),
        ("9007199254740993", "9007199254740992"),
    ],
    "decimals": [(r"\pi", "3.15"), ("2/7", "0.29"), ("5", "5.001"), ("1e-9", "2e-9"), (r"\sqrt{5}", "2.237")],
    "roots": [(r"\sqrt{18}", r"2\sqrt3"), (r"\sqrt{x^2}", "x"), (r"\sqrt[3]{5}", r"\sqrt5")],
    "trig": [(r"\sin 30^\circ", r"\frac{\sqrt3}{2}"), (r"\cos^2 x", r"1+\sin^2 x"), (r"\sin x", r"\cos x")],
    "logs": [(r"\log_3 81", "3"), (r"\ln(a+b)", r"\ln a+\ln b"), (r"\ln 1000", "3")],
    "algebra": [("(x-3)(x+5)", "x^2-2x-15"), ("(a+b)^2", "a^2+b^2"), ("3^{n+1}", "3^n+1"), ("x+10^{-40}", "x")],
    "complex": [("1+i", "1-i"), ("i", "-i"), ("i^2", "1")],
    "names": [("x=7", "y=7"), ("x+y=7", "7"), ("AB=5", "6"), ("x=2", "x=-2")],
    "equations": [("2x+6y=8", "x+3y=8"), ("y=x+1", "y=x-1"), ("xy=0", "x=0")],
    "inequalities": [("x>3", "x<3"), ("x>3", r"x\ge 3"), ("|x|<2", "|x|>2"), ("x>3", "3")],
    "intervals": [("[0,2)", "[0,2]"), ("(0,1)", "(0,2)"), ("[1,2]", "[2,1]")],
    "sets": [(r"\{1,2\}", r"\{1,2,3\}"), (r"\pm 6", "6"), ("4, 9", "4"), ("2,3", "23"), (r"\{5\}", "5")],
    "tuples": [("(1,2)", "(2,1)"), ("(1,2)", "(1,2,3)"), ("(1,2)", "1.2"), ("(6,2)", "6,2,0")],
    "matrices": [(r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{pmatrix}1&3\\2&4\end{pmatrix}")],
    "units": [("5 km", "5 cm"), ("3 hours", "3 minutes"), ("7 apples", "7 pears"), ("$5c$", "5"), ("$3t$", "3")],
    "percent": [(r"40\%", "0.04"), ("40%", "4")],
    "relations": [("3:4", "4:3"), (r"x\equiv 3\pmod 7", r"x\equiv 3\pmod 5"), ("12:00", "1:00")],
    "text": [(r"\text{Yes}", "no"), ("C", "(B)"), ("B", "ABCD"), ("odd", "oddd"), ("AB", "BA"), ("$x$", "$X$")],
    "operators": [(r"\sum_{k=1}^{5}k", "14"), (r"\binom{7}{2}", "42"), ("4!", "4"), (r"\int_0^2 x\,dx", "1")],
}


@pytest.mark.parametrize(("gold", "prediction"), [pair for pairs in SAME.values() for pair in pairs])
def test_same(gold, prediction):
    assert verify(gold, prediction).verdict == "equal"
    assert verify(prediction, gold).verdict == "equal"


@pytest.mark.parametrize(("gold", "prediction"), [pair for pairs in OTHER.values() for pair in pairs])
def test_other(gold, prediction):
    assert verify(gold, prediction).verdict == "different"
    assert verify(prediction, gold).verdict == "different"


MALFORMED = [r"\frac{2}{}", "(", "x ( x + 1", "||x|", r"\cos^2", r"\sqrt{}", "1 +", r"\left(1", "2^"]
UNREADABLE = ["", "1 2", "   ", "\u202e24", r"\unknowncommand{3}", "x" * 20_000, r"\phantom{3}"]


@pytest.mark.parametrize("prediction", MALFORMED)
def test_malformed_is_not_the_answer(prediction):
    assert verify("2", prediction).verdict == "different"


@pytest.mark.parametrize("prediction", UNREADABLE)
def test_unreadable_is_invalid(prediction):
    assert verify("2", prediction).verdict == "invalid"


HUGE = ["9^{9^{9^{9}}}", "10^{10^{10}}!", r"e^{e^{e^{e^{e}}}}", r"\cos(10^{10^{10}})"]


@pytest.mark.parametrize("prediction", HUGE)
def test_what_cannot_be_told_is_undecided(prediction):
    assert verify("3", prediction).verdict == "undecided"


POLICIES = [
    ("40", r"40\%", Policy(percent_sign="required"), "different"),
    ("40", r"40\%", Policy(), "equal"),
    ("5 m", "5", Policy(missing_unit=False), "different"),
    (r"\frac13", "0.3333", Policy(decimals=False), "different"),
    ("x=3", "3", Policy(names=False), "different"),
    ("1,2,3", "3, 2, 1", Policy(unordered=False), "different"),
    ("101_2", "101", Policy(base_suffix=False), "different"),
    ("(1,2)", r"\{2,1\}", Policy(tuple_as_set=True), "equal"),
    (r"\text{Yes}", r"\text{yes}", Policy(fold_case=False), "different"),
]


@pytest.mark.parametrize(("gold", "prediction", "policy", "verdict"), POLICIES)
def test_policies(gold, prediction, policy, verdict):
    assert verify(gold, prediction, policy=policy).verdict == verdict


def test_unknown_policy():
    with pytest.raises(ValueError, match="policy must be"):
        verify("1", "1", policy="lenient")


def test_only_text():
    with pytest.raises(TypeError, match="two strings"):
        verify(1, "1")
