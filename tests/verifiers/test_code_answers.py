"""The ``code`` scorer: programs out of responses, verdicts, the first wrong step, failures that are ours."""

# ruff: noqa: E501  # tables of programs
from __future__ import annotations

import pickle

import pytest

from stepgauge import Rollout, load
from stepgauge.testing import SCORER_CHECKS
from stepgauge.verifiers.code_answers import MAX_CHARS, CodeScorer, extract_program
from stepgauge.verifiers.code_formats import humaneval_tests, mbpp_tests
from stepgauge.verifiers.code_judging import run_tests
from stepgauge.verifiers.code_tests import CallTest, CheckTest, CodeTests, StdinTest
from stepgauge.verifiers.sandbox import Limits
from stepgauge.verifiers.sandbox.bubblewrap import Bubblewrap
from tests.verifiers.bwrap import needs_bwrap, none_left
from tests.verifiers.code_tasks import TASKS, wrong_bodies

ADD = CodeTests((CallTest("add", (1, 2), 3), CallTest("add", (2, 2), 4), CallTest("add", (0, 5), 5)))
RIGHT = ("def add(a, b):", "    total = a + b", "    return total")


@pytest.mark.parametrize(
    ("text", "program"),
    [
        ("x = 1\n", "x = 1\n"),
        ("```python\nx = 1\n```", "x = 1\n"),
        ("a\n```py\nx = 1\n```\nb\n```python\nx = 2\n```\n```\nout\n```\n", "x = 2\n"),
        ("```\nx = 1\n```\nso\n```\nx = 2\n```", "x = 2\n"),
        ("```text\nx = 1\n```", "x = 1\n"),
        ("```python\nx = 1", "x = 1"),
        ("~~~\n", "~~~\n"),
        ("<think>```python\nx = 1\n```</think>```python\nx = 2\n```", "x = 2\n"),
        ("<think>\n```python\nx = 1\n```", None),
        ("", None),
        ("  \n ", None),
        ("```python\n```", None),
    ],
)
def test_extract_program(text, program):
    assert extract_program(text) == program


@needs_bwrap
def test_outcome_on_the_last_step():
    scorer = load("code")
    right, wrong = scorer.score_batch(
        [Rollout("", RIGHT, reference=ADD), Rollout("", (*RIGHT[:2], "    return a"), reference=ADD.to_json())]
    )
    assert (right.values, right.status, right.reasons[:2]) == ((None, None, 1.0), "ok", ("no_claim", "no_claim"))
    assert right.summary == {"verdict": "passed", "passed": 3, "tests": 3, "sandbox": "bubblewrap"}
    assert (wrong.values, wrong.first_error()) == ((None, None, 0.0), 2)
    assert wrong.summary["reason"] == "wrong_output"
    assert wrong.summary["message"] == "expected 3, got 1"
    assert [test["reason"] for test in wrong.details[2]["tests"]] == ["wrong_output", "not_run", "not_run"]


@needs_bwrap
def test_partial_credit():
    steps = ("def add(a, b):", "    return 3 if a == 1 else 4")
    scores = CodeScorer(partial=True).score(steps, reference=ADD)
    assert scores.values == (None, 2 / 3)
    assert [test["passed"] for test in scores.details[1]["tests"]] == [True, True, False]
    assert scores.summary["verdict"] == "failed"


@pytest.mark.parametrize(
    ("rollout", "reason"),
    [
        (Rollout("", RIGHT), "no_reference"),
        (Rollout("", RIGHT, reference="assert add(1, 2) == 3"), "no_reference"),
        (Rollout("", ("<think>", "never ends"), reference=ADD), "unparsed"),
        (Rollout("", (" ", ""), reference=ADD), "unparsed"),
        (Rollout("", ("x = 1\n" * MAX_CHARS,), reference=ADD), "too_large"),
    ],
)
def test_abstains(rollout, reason):
    (scores,) = CodeScorer().score_batch([rollout])
    assert (scores.status, set(scores.reasons)) == ("abstain", {reason})


def test_a_missing_sandbox_is_an_error_and_never_0(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    scores = CodeScorer().score(RIGHT, reference=ADD)
    assert (scores.status, scores.values, scores.reasons[0]) == ("error", (None,) * 3, "internal")
    assert "apt-get install bubblewrap" in scores.summary["message"]


def test_a_malformed_reference_is_an_error():
    scores = CodeScorer().score(RIGHT, reference={"tests": [{"call": "add"}]})
    assert (scores.status, scores.reasons[0]) == ("error", "internal")
    assert "tests[0] is malformed" in scores.summary["message"]


@needs_bwrap
def test_a_deadline_in_the_middle_is_an_error_timeout():
    rollouts = [
        Rollout("", ("def add(a, b):\n    while True: pass",), reference=ADD),
        Rollout("", RIGHT, reference=ADD),
    ]
    slow, _ = CodeScorer(workers=1).score_batch(rollouts, deadline_s=1.0)
    assert (slow.status, slow.reasons) == ("error", ("timeout",))


@needs_bwrap
@pytest.mark.parametrize("check", ["batch_equals_loop", "no_silent_zero", "threads", "session", "pickle_and_spawn"])
def test_conformance_on_programs(check):
    tests = CodeTests((CallTest("f", (1,), 2),))
    rollouts = [
        Rollout("", ("def f(x):", "    return x + 1"), reference=tests),
        Rollout("", ("def f(x):", "    return x"), reference=tests),
    ]
    SCORER_CHECKS[check](CodeScorer(), rollouts)


def complete_addition(problem, prefix, n):
    """A policy that always ends well, unless the prefix has spoiled it."""
    return ["    return total\n", "    return None\n"][:n]


class Failing:
    def __call__(self, problem, prefix, n):
        raise ConnectionError("no server")


@needs_bwrap
@pytest.mark.parametrize(
    ("steps", "error_step"),
    [
        (RIGHT, -1),
        (("def add(a, b):", "    total = a", "    total = total - b", "    x = 1", "    return total"), 2),
        (("def add(a, c):", "    total = a + b", "    return total"), 0),
        (("def add(a, b):", "    total = a + b", "    y = 2", "    return y"), 3),
    ],
)
def test_first_failing_step(steps, error_step):
    def complete(problem, prefix, n):
        return (
            ["    total = total + b\n    return total\n", "    total = a + b\n    return total\n"]
            if _open(prefix)
            else [""]
        )

    def _open(prefix):
        return "b)" in prefix and "- b" not in prefix

    scores = CodeScorer(completer=complete).score(steps, reference=ADD)
    assert scores.error_step == scores.first_error() == error_step
    expected: list = [None] * len(steps)
    expected[-1] = float(error_step == -1)
    if error_step >= 0:
        expected[error_step] = 0.0
        assert scores.summary["probes"]
    assert list(scores.values) == expected


@needs_bwrap
def test_a_completer_that_fails_is_an_error():
    scores = CodeScorer(completer=Failing()).score(("def add(a, b):", "    return a"), reference=ADD)
    assert (scores.status, scores.reasons) == ("error", ("internal", "internal"))
    assert "no server" in scores.summary["message"]


def test_fingerprint_and_pickle():
    names = {
        scorer.fingerprint
        for scorer in (
            CodeScorer(),
            CodeScorer(partial=True),
            CodeScorer(cpu_s=2),
            CodeScorer("unsafe-subprocess"),
            CodeScorer(completer=complete_addition),
            CodeScorer(completer=complete_addition, completions=2),
        )
    }
    assert len(names) == 6
    assert CodeScorer(workers=3).fingerprint == CodeScorer().fingerprint
    assert pickle.loads(pickle.dumps(CodeScorer(completer=complete_addition))).fingerprint in names


HUMANEVAL = {task.entry_point: humaneval_tests(task.prompt, task.test, task.entry_point) for task in TASKS}


@needs_bwrap
def test_canonical_solutions_pass_and_mutated_ones_fail():
    cases = [(task.entry_point, task.body, True) for task in TASKS]
    cases += [(task.entry_point, body, False) for task in TASKS for body in wrong_bodies(task)]
    assert sum(right for *_, right in cases) == 14
    assert sum(not right for *_, right in cases) == 42
    rollouts = [Rollout("", (body,), reference=HUMANEVAL[name]) for name, body, _ in cases]
    misjudged = [
        (name, body, dict(scores.summary))
        for (name, body, right), scores in zip(cases, CodeScorer().score_batch(rollouts), strict=True)
        if scores.values != (float(right),) or scores.summary.get("reason") not in (None, "wrong_output", "raised")
    ]
    assert misjudged == []
    none_left()


@needs_bwrap
def test_whole_functions_and_fenced_blocks_pass_too():
    rollouts = [
        Rollout("", (f"Sure:\n```python\n{task.prompt}{task.body}```\nDone.",), reference=HUMANEVAL[task.entry_point])
        for task in TASKS[:4]
    ]
    assert [scores.values for scores in CodeScorer().score_batch(rollouts)] == [(1.0,)] * 4


CLASSES = """
class Pair:
    def __init__(self, a, b):
        self.a, self.b = a, b

class Stack:
    def __init__(self):
        self.items = []
    def push(self, x):
        self.items.append(x)
        return self
    def pop(self):
        return self.items.pop()
    def __len__(self):
        return len(self.items)
    def __iter__(self):
        return iter(self.items)

def longest(pairs):
    return max(pair.b for pair in pairs)

def apply(f, x):
    return f(x)

def double(x):
    return 2 * x
"""


@needs_bwrap
@pytest.mark.parametrize(
    ("test", "passes"),
    [
        ("assert longest([Pair(1, 2), Pair(3, 9)]) == 9", True),
        ("assert longest([Pair(1, 2), Pair(3, 9)]) == 8", False),
        ("s = Stack()\ns.push(1)\ns.push(2).push(3)\nassert s.pop() == 3 and len(s) == 2 and list(s) == [1, 2]", True),
        ("s = Stack()\ns.push(1)\nassert s.items == [1]\nassert s.pop() == 2", False),
        ("assert apply(double, 4) == 8", True),
        ("assert Stack() == Stack()", False),
        ("assert Stack() != Stack()", False),
        ("assert not Stack()", False),
        ("try:\n    Stack().pop()\nexcept IndexError:\n    pass\nelse:\n    assert False", True),
        ("try:\n    Stack().pop()\nexcept KeyError:\n    pass", False),
    ],
)
def test_objects_of_the_program_can_be_used_never_compared(test, passes):
    names = ("Pair", "Stack", "longest", "apply", "double")
    (verdict,) = run_tests(CLASSES, CodeTests((CheckTest(test, names),)), Bubblewrap(), Limits())
    assert verdict.passed is passes, verdict


@needs_bwrap
def test_contest_style_class_and_imports():
    program = (
        "class Solution:\n    def pick(self, xs: List[int]) -> Tuple:\n        return tuple(heapq.nlargest(2, xs))"
    )
    tests = CodeTests(
        (CallTest("pick", ([1, 3, 2],), [3, 2], tuples_as_lists=True),), prompt="from typing import *\nimport heapq"
    )
    assert run_tests(program, tests, Bubblewrap(), Limits())[0].passed
    strict = CodeTests((CallTest("pick", ([1, 3, 2],), [3, 2]),), prompt=tests.prompt)
    assert not run_tests(program, strict, Bubblewrap(), Limits())[0].passed


@needs_bwrap
def test_mbpp_and_scripts():
    tests = mbpp_tests(
        ["assert area(2) == 12", "assert math.isclose(area(0.5), 0.75)", "assert not area(0)"], "import math"
    )
    assert CodeScorer().score(("def area(r):", "    return 3 * r * r"), reference=tests).values == (None, 1.0)
    assert CodeScorer().score(("def area(r):", "    return 3 * r * r + 1"), reference=tests).values == (None, 0.0)
    echo = CodeTests(tuple(StdinTest(f"{n}\n", f"{n * n}\n") for n in range(5)))
    assert CodeScorer().score(("n = int(input())", "print(n * n)"), reference=echo).values == (None, 1.0)
    assert CodeScorer(partial=True).score(("n = int(input())", "print(n)"), reference=echo).values == (None, 0.4)


@needs_bwrap
@pytest.mark.slow
def test_many_programs_with_bombs():
    """300 programs on all CPUs, one in a hundred a bomb: every verdict right, nothing left."""
    bombs = [
        "import os\ndef add(a, b):\n    while True:\n        try:\n            os.fork()\n        except OSError:\n            pass",
        "def add(a, b):\n    x = []\n    while True:\n        x.append(bytearray(10**7))",
        "import time\ndef add(a, b):\n    time.sleep(10**6)",
    ]
    wrong = (*RIGHT[:2], "    return a")
    steps = [(bombs[i // 100],) if i % 100 == 50 else RIGHT if i % 2 else wrong for i in range(300)]
    scorer = CodeScorer(cpu_s=1, wall_s=4, memory_mb=256)
    results = scorer.score_batch([Rollout("", one, reference=ADD) for one in steps])
    assert [scores.values[-1] for scores in results] == [float(one is RIGHT) for one in steps]
    none_left()
