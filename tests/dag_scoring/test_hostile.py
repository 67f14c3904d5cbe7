"""Texts made to hang or swell the formula reader: each is answered quickly, in a process that may be killed."""

from __future__ import annotations

import multiprocessing
import time

import pytest

from stepgauge.dag_scoring import equal_formulas, extract_formulas
from stepgauge.dag_scoring.quantities import unit_node
from stepgauge.verifiers.symbolic.nodes import Int

N = 100_000
STEPS = {
    "opened brackets": r"\[" * (N // 2),
    "opened parentheses": r"\(" * (N // 2),
    "opened environments": r"\begin{align}" * (N // 13),
    "dollars": "$" * N,
    "dollars apart": "$ " * (N // 2),
    "a comma and spaces": "$a=b," + " " * N + "$",
    "commas": "$a=b" + ", " * (N // 2) + "$",
    "quads": "$a=b" + r"\quad" * (N // 5) + "$",
    "a long head and many links": "$" + "a" * (N // 2) + "=b" * (N // 4) + "$",
    "a box and spaces": r"$\boxed{a=b}" + " " * N + "x$",
    "tags": "$a=b" + r"\tag{" * (N // 5) + "$",
}
FORMULAS = {
    "spaces": "x=1" + " " * N + "+1",
    "a tower": "x=9^{9^{9^{9}}}",
    "factorials": "x=((((9!)!)!)!)",
    "nested": "x=" + "(" * N + "1",
    "digits": "x=" + "9" * N,
    "a sum": r"x=\sum_{k=0}^{10000000}\binom{10000000}{k}",
    "a tower of units": r"x=3\,\text{m^9^9^9^9}",
    "a power of numbers as a unit": r"x=3\,\text{m*(9**9**9)}",
}
UNITS = ["m^9^9^9^9", "m**9**9**9", "m*(9**9**9)", "9**9**9", "m*" * 30, "m**-99", "Ym**99", "__import__", "1/1"]


def _run(kind, name):
    if kind == "step":
        extract_formulas(STEPS[name])
    elif kind == "formula":
        verdict = equal_formulas(FORMULAS[name], "x=1").verdict
        assert verdict not in ("equivalent", "implies", "implied"), verdict
    else:
        unit_node(Int(3), name)


CASES = [("step", name) for name in STEPS] + [("formula", name) for name in FORMULAS] + [("unit", u) for u in UNITS]


def _run_all(cases, done):
    for case in cases:
        start = time.perf_counter()
        _run(*case)
        done.put((case, time.perf_counter() - start))


def test_each_is_answered_within_a_second():
    context = multiprocessing.get_context("spawn")
    done = context.Queue()
    process = context.Process(target=_run_all, args=([("unit", "km/h"), ("formula", "a tower"), *CASES], done))
    process.start()
    try:
        done.get(timeout=60)  # imports, and pint's registry
        done.get(timeout=60)
        for case in CASES:
            answered, seconds = done.get(timeout=20)
            assert answered == case
            assert seconds < 1, f"{case} took {seconds:.1f} s"
        process.join(20)
        assert process.exitcode == 0
    finally:
        process.kill()


@pytest.mark.parametrize("text", ["km/h", "m/s^2", "m/s^{-2}", "J/(kg*K)", "N \\cdot m", "kg m/s", "1/s", "eV"])
def test_units_are_still_read(text):
    assert unit_node(Int(3), text) is not None


@pytest.mark.parametrize("text", ["m^9^9", "2m", "(m)^2", "m**123", "", "m s kg A K mol cd " * 9, "Ym^{99}"])
def test_no_units(text):
    assert unit_node(Int(3), text) is None


@pytest.mark.parametrize(
    ("step", "formulas"),
    [
        (r"\[a=b\] and \(c=d\) and $e=f$ and $$g=h$$", ["a=b", "c=d", "e=f", "g=h"]),
        (r"\begin{align*}a&=b\\c&=d\end{align*}", ["a = b", "c = d"]),
        (r"\[ open, then $a=b$", ["a=b"]),
        ("$ open\n$a=b$", ["a=b"]),
        ("it costs \\$5, so $a=b$", ["a=b"]),
        (r"$$\boxed{a=b}.$$", ["a=b"]),
    ],
)
def test_pieces_of_math(step, formulas):
    assert [f.latex.replace(" ", "") for f in extract_formulas(step)] == [f.replace(" ", "") for f in formulas]
