"""Tests from the rows of public data sets: HumanEval, MBPP, LiveCodeBench, lists of inputs and outputs (APPS, TACO)."""

from __future__ import annotations

import ast
import base64
import json
import pickletools
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from stepgauge.verifiers.code_tests import CallTest, CheckTest, CodeTests, StdinTest, Test, check_tests

__all__ = ["humaneval_tests", "livecodebench_tests", "mbpp_tests", "read_tests"]

MAX_PRIVATE_BYTES = 512 * 2**20
# What solutions on contest sites may use without importing it.
CONTEST_PROMPT = """\
from typing import *
from collections import *
from functools import *
from itertools import *
from heapq import *
from bisect import *
from math import *
import collections, functools, heapq, itertools, math, random, re, string, sys
"""


def humaneval_tests(prompt: str, test: str, entry_point: str) -> CodeTests:
    """HumanEval: ``test`` defines ``check(candidate)``; the program completes ``prompt``, or defines the function anew.

    Example:
        >>> tests = humaneval_tests("def one():\\n    ...\\n", "def check(c):\\n    assert c() == 1\\n", "one")
        >>> tests.tests[0].names
        ('one',)
    """
    return CodeTests((CheckTest(f"{test}\ncheck({entry_point})\n", (entry_point,)),), prompt, _complete(prompt))


def _complete(prompt: str) -> str:
    """The prompt as set-up code of the tests, which use its helpers; '' where it stops in the middle of a function."""
    try:
        ast.parse(prompt)
    except SyntaxError:
        return ""
    return prompt


def mbpp_tests(test_list: Sequence[str], setup: str = "") -> CodeTests:
    """MBPP: a list of ``assert`` statements, and the imports they need.

    Example:
        >>> mbpp_tests(["assert add(1, 2) == 3"]).to_json()
        {'tests': [{'call': 'add', 'args': [1, 2], 'expected': 3}]}
    """
    return CodeTests(tuple(test for source in test_list for test in check_tests(source, setup)), setup=setup)


def livecodebench_tests(cases: Sequence[Mapping[str, Any]], function: str | None) -> CodeTests:
    """LiveCodeBench: cases {input, output, testtype "stdin" or "functional"}; ``function`` is named in its metadata.

    The input of a functional case is one JSON value a line; a tuple equals a list, as in the benchmark.
    """
    tests: list[Test] = []
    for case in cases:
        if case.get("testtype") != "functional":
            tests.append(StdinTest(case["input"], case["output"]))
        elif function is None:
            raise ValueError("a functional case needs the function's name: metadata must hold 'func_name'")
        else:
            args = tuple(json.loads(line) for line in case["input"].split("\n") if line.strip())
            tests.append(CallTest(function, args, json.loads(case["output"]), tuples_as_lists=True))
    return CodeTests(tuple(tests), CONTEST_PROMPT)


def _private_cases(text: str) -> list[dict[str, Any]]:
    """The private cases: JSON, or JSON in a pickled string, zlib and base64; the pickle is read, never loaded."""
    if text.lstrip().startswith("["):
        return list(json.loads(text))
    unpack = zlib.decompressobj()
    data = unpack.decompress(base64.b64decode(text), MAX_PRIVATE_BYTES)
    if unpack.unconsumed_tail:
        raise ValueError(f"private_test_cases unpack to more than {MAX_PRIVATE_BYTES} bytes")
    strings = [
        value
        for code, value, _ in pickletools.genops(data)
        if code.name in ("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8")
    ]
    if len(strings) != 1:
        raise ValueError(f"private_test_cases must hold one pickled text, found {len(strings)}")
    return list(json.loads(str(strings[0])))


def _inputs_outputs(inputs: Sequence[Any], outputs: Sequence[Any], function: str | None) -> CodeTests:
    if len(inputs) != len(outputs):
        raise ValueError(f"inputs and outputs must pair up, got {len(inputs)} and {len(outputs)}")
    if function is None:
        return CodeTests(tuple(StdinTest(i, o) for i, o in zip(inputs, outputs, strict=True)), CONTEST_PROMPT)
    calls = (CallTest(function, i, o, tuples_as_lists=True) for i, o in zip(inputs, outputs, strict=True))
    return CodeTests(tuple(calls), CONTEST_PROMPT)


def _loaded(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


def read_tests(row: Mapping[str, Any]) -> CodeTests:
    """The tests of a data set's row, recognised by its columns.

    ``tests`` (or ``reference``): as ``CodeTests.to_json`` writes them · ``test`` + ``entry_point``: HumanEval ·
    ``test_list``: MBPP · ``public_test_cases``: LiveCodeBench · ``input_output``, or ``inputs`` + ``outputs``: APPS and
    TACO.

    Raises:
        ValueError: none of these columns, or one that is malformed.
    """
    try:
        for name in ("tests", "reference"):
            if row.get(name) is not None:
                data = _loaded(row[name])
                return CodeTests.from_json({"tests": data} if isinstance(data, list) else data)
        if row.get("entry_point") is not None and row.get("test") is not None:
            return humaneval_tests(row.get("prompt") or "", row["test"], row["entry_point"])
        if row.get("test_list") is not None:
            imports = [*(row.get("test_imports") or []), row.get("test_setup_code") or ""]
            return mbpp_tests(_loaded(row["test_list"]), "\n".join(imports).strip())
        if row.get("public_test_cases") is not None:
            cases = [*_loaded(row["public_test_cases"]), *_private_cases(row.get("private_test_cases") or "[]")]
            return livecodebench_tests(cases, _loaded(row.get("metadata") or {}).get("func_name"))
        data = _loaded(row["input_output"]) if row.get("input_output") is not None else row
        if data.get("inputs") is not None and data.get("outputs") is not None:
            return _inputs_outputs(data["inputs"], data["outputs"], data.get("fn_name"))
    except (KeyError, TypeError, AttributeError, ValueError, zlib.error) as error:
        raise ValueError(f"the tests of this row are malformed ({type(error).__name__}: {error})") from error
    raise ValueError(
        "found no tests in this row; give a column 'tests' (or test + entry_point, test_list, public_test_cases, "
        f"input_output); it has: {', '.join(map(str, row))}"
    )
