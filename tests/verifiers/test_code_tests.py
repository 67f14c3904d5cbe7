"""Tests as data: the formats people have, to JSON and back, and what is refused."""

from __future__ import annotations

import base64
import json
import pickle
import zlib

import pytest

from stepgauge import Rollout
from stepgauge.scoring import rollout_key
from stepgauge.verifiers.code_formats import humaneval_tests, mbpp_tests, read_tests
from stepgauge.verifiers.code_tests import CallTest, CheckTest, CodeTests, StdinTest, check_tests, free_names

ALL = CodeTests(
    (
        CallTest("f", ((1, {2}), b"x", 10**30), {"a": [None, 1.5], 3: (True,)}, kwargs={"k": 1j}),
        CallTest("g", (), [1], tuples_as_lists=True),
        StdinTest("1\n", "2\n"),
        CheckTest("assert f(1) > 2", ("f",)),
    ),
    prompt="import math\n",
    setup="eps = 1e-6\n",
)


def test_json_and_back():
    assert CodeTests.from_json(json.loads(json.dumps(ALL.to_json()))) == ALL
    assert len(rollout_key(Rollout("p", ("a",), reference=ALL))) == 32


def test_json_written_by_hand():
    data = {"tests": [{"call": "f", "args": [{"a": 1}], "expected": [1]}, {"check": "assert f({}) is None"}]}
    assert CodeTests.from_json(data).tests == (
        CallTest("f", ({"a": 1},), [1]),
        CheckTest("assert f({}) is None", ("f",)),
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "need a list 'tests'"),
        ({"tests": []}, "tests is empty"),
        ({"tests": [{}]}, r"tests\[0\] must have 'call', 'stdin' or 'check'"),
        ({"tests": [3]}, r"tests\[0\] is malformed"),
        ({"tests": [{"call": "f", "args": [1]}]}, r"tests\[0\] is malformed .*expected"),
        ({"tests": [{"call": "os.system", "args": [], "expected": 0}]}, "name of a function"),
        ({"tests": [{"call": "f", "args": [{"$ref": 0}], "expected": 0}]}, "cannot hold"),
        ({"tests": [{"stdin": 1, "stdout": ""}]}, "stdin must be text"),
        ({"tests": [{"check": "assert f(", "names": ["f"]}]}, "must be Python code"),
        ({"tests": [{"check": "assert 1 == 1"}]}, "tests nothing"),
        ({"tests": [{"stdin": "", "stdout": ""}], "setup": "def"}, "setup must be Python code"),
        ({"tests": [{"stdin": "", "stdout": ""}], "prompt": 3}, "'prompt' must be text"),
    ],
)
def test_malformed_json_is_refused(data, message):
    with pytest.raises(ValueError, match=message):
        CodeTests.from_json(data)


def test_only_tests_and_plain_values():
    with pytest.raises(TypeError, match="plain data"):
        CallTest("f", (object(),), 1)
    with pytest.raises(TypeError, match=r"tests\[0\] must be a CallTest"):
        CodeTests(("assert f(1)",))


@pytest.mark.parametrize(
    ("source", "tests"),
    [
        ("assert f(1, [2]) == (3,)", [CallTest("f", (1, [2]), (3,))]),
        ("assert {1} == f(x=-1.5)", [CallTest("f", (), {1}, {"x": -1.5})]),
        ("assert f(1) != 2", [CheckTest("assert f(1) != 2", ("f",))]),
        ("assert f(1)", [CheckTest("assert f(1)", ("f",))]),
        ("assert set(f(1)) == {1}", [CheckTest("assert set(f(1)) == {1}", ("f",))]),
        ("assert f(f(1)) == 1", [CheckTest("assert f(f(1)) == 1", ("f",))]),
        ("assert f(*[1]) == 1", [CheckTest("assert f(*[1]) == 1", ("f",))]),
        ("assert f(1) == g(2)", [CheckTest("assert f(1) == g(2)", ("f", "g"))]),
        ("assert s.f(1) == 1", [CheckTest("assert s.f(1) == 1", ("s",))]),
        ("x = 3\nassert f(x) == 4", [CheckTest("x = 3\nassert f(x) == 4", ("f",))]),
        ("x = 3\nassert f(3) == 4", [CheckTest("x = 3\nassert f(3) == 4", ("f",))]),
    ],
)
def test_asserts(source, tests):
    assert list(check_tests(source)) == tests


def test_free_names():
    source = (
        "def h(a, *b, c=1, **d):\n    import re\n    return [e for e in (f(a), math.pi, len(b))]\n"
        "try:\n    h(g)\nexcept E as err:\n    err"
    )
    assert set(free_names(source, "import math")) == {"g", "E", "f"}


def test_humaneval():
    prompt = 'def helper(x):\n    return x\n\n\ndef f(x):\n    """Doc."""\n'
    tests = humaneval_tests(prompt, "def check(candidate):\n    assert candidate(helper(1)) == 2\n", "f")
    assert tests.prompt == tests.setup == prompt
    assert tests.tests[0].source.endswith("\ncheck(f)\n")
    assert humaneval_tests("def f(x):\n", "def check(c):\n    assert c(1)\n", "f").setup == ""


def test_mbpp():
    tests = mbpp_tests(["assert f(1) == 2", "assert math.isclose(f(0.5), 1.5)"], "import math")
    assert [type(test) for test in tests.tests] == [CallTest, CheckTest]
    assert tests.tests[1].names == ("f",)
    assert tests.setup == "import math"


CASES = [
    {"input": "[1, 2]\n3\n", "output": "[1, 5]", "testtype": "functional"},
    {"input": '"a"\n0', "output": "null", "testtype": "functional"},
]


def test_rows_of_public_data_sets():
    row = {"public_test_cases": json.dumps(CASES), "metadata": json.dumps({"func_name": "f"})}
    expected = (
        CallTest("f", ([1, 2], 3), [1, 5], tuples_as_lists=True),
        CallTest("f", ("a", 0), None, tuples_as_lists=True),
    )
    assert read_tests(row).tests == expected
    packed = base64.b64encode(zlib.compress(pickle.dumps(json.dumps(CASES)))).decode()
    assert read_tests(row | {"private_test_cases": packed}).tests == expected * 2
    assert read_tests(row | {"private_test_cases": json.dumps(CASES[:1])}).tests == expected + expected[:1]
    stdin = [{"input": "1\n", "output": "2\n", "testtype": "stdin"}]
    assert read_tests({"public_test_cases": stdin}).tests == (StdinTest("1\n", "2\n"),)
    apps = {"input_output": json.dumps({"inputs": [[1]], "outputs": [2], "fn_name": "f"})}
    assert read_tests(apps).tests == (CallTest("f", (1,), 2, tuples_as_lists=True),)
    assert read_tests({"inputs": ["1"], "outputs": ["2"]}).tests == (StdinTest("1", "2"),)
    assert read_tests({"task_id": 3, "test_list": ["assert f(1) == 2"]}).tests == (CallTest("f", (1,), 2),)
    assert read_tests({"tests": ALL.to_json()}) == ALL
    assert read_tests({"tests": ALL.to_json()["tests"]}).tests == ALL.tests


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was loaded",))


@pytest.mark.parametrize("content", [Bomb(), ["[]", "[]"], 3], ids=["code", "two texts", "no text"])
def test_pickled_cases_are_read_but_never_loaded(content):
    packed = base64.b64encode(zlib.compress(pickle.dumps(content))).decode()
    with pytest.raises(ValueError, match=r"malformed"):
        read_tests({"public_test_cases": "[]", "private_test_cases": packed})


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"id": 1}, "found no tests .* it has: id"),
        ({"public_test_cases": CASES}, "func_name"),
        ({"inputs": ["1"], "outputs": []}, "pair up"),
        ({"inputs": [1], "outputs": [2]}, "must be text"),
        ({"test_list": ["assert"]}, "must be Python code"),
        ({"tests": "[{"}, "malformed"),
    ],
)
def test_rows_without_tests_are_refused(row, message):
    with pytest.raises(ValueError, match=message):
        read_tests(row)
