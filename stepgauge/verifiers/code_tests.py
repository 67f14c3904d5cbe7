"""Tests of a program: what to run, and what must come out. ``CodeTests`` goes into ``Rollout.reference``.

The tests are trusted, the program is not. Reading rows of public data sets: ``code_formats``.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stepgauge.verifiers.code_compare import encode_plain
from stepgauge.verifiers.sandbox.plain import decode

__all__ = ["CallTest", "CheckTest", "CodeTests", "StdinTest", "check_tests", "free_names"]


@dataclass(frozen=True, slots=True)
class CallTest:
    """Calls a function of the program and compares the returned value.

    Args:
        function: its name; a method of a class ``Solution`` counts as a function.
        args, kwargs: plain data (None, bool, numbers, str, bytes, list, tuple, set, dict).
        expected: plain data; compared as Python's ``==`` does.
        tuples_as_lists: a tuple equals a list, for tests that were written as JSON.
    """

    function: str
    args: tuple[Any, ...]
    expected: Any
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    tuples_as_lists: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.function, str) or not self.function.isidentifier():
            raise ValueError(f"CallTest.function must be the name of a function, got {self.function!r:.60}")
        object.__setattr__(self, "args", tuple(self.args))
        self.to_json()  # refuses what is not plain data

    def to_json(self) -> dict[str, Any]:
        """As JSON: ``{"call": "add", "args": [1, 2], "expected": 3}``."""
        data = {"call": self.function, "args": encode_plain(list(self.args)), "expected": encode_plain(self.expected)}
        if self.kwargs:
            data["kwargs"] = encode_plain(dict(self.kwargs))
        return data | ({"tuples_as_lists": True} if self.tuples_as_lists else {})


@dataclass(frozen=True, slots=True)
class StdinTest:
    """Runs the program as a script and compares what it prints; see ``code_compare.same_output``."""

    stdin: str
    stdout: str

    def __post_init__(self) -> None:
        for name in ("stdin", "stdout"):
            if not isinstance(getattr(self, name), str):
                raise TypeError(f"StdinTest.{name} must be text, got {type(getattr(self, name)).__name__}")

    def to_json(self) -> dict[str, Any]:
        """As JSON: ``{"stdin": "1 2", "stdout": "3"}``."""
        return {"stdin": self.stdin, "stdout": self.stdout}


@dataclass(frozen=True, slots=True)
class CheckTest:
    """Runs test code, which passes if it reaches its end without an exception.

    It runs in a process of its own: the names of the program are there as stand-ins, whose calls go to the process of
    the program and come back as plain data. An object that is no plain data can be called and passed, not compared.

    Args:
        source: Python code with ``assert`` statements.
        names: the names that the program defines.

    Raises:
        ValueError: the code cannot be parsed, or it names nothing of the program.
    """

    source: str
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        _parse("CheckTest.source", self.source)
        object.__setattr__(self, "names", tuple(self.names))
        if not self.names:
            raise ValueError(f"CheckTest.names is empty: {self.source!r:.80} tests nothing that the program defines")

    def to_json(self) -> dict[str, Any]:
        """As JSON: ``{"check": "assert abs(f(2) - 1.41) < 0.01", "names": ["f"]}``."""
        return {"check": self.source, "names": list(self.names)}


Test = CallTest | StdinTest | CheckTest


@dataclass(frozen=True, slots=True)
class CodeTests:
    """The tests of one problem.

    Args:
        tests: (T,) at least one.
        prompt: code that stands before the program: imports, or the beginning of a function it completes.
        setup: code that stands before every ``CheckTest``, in its process: imports and helpers of the tests.

    Raises:
        ValueError: no tests, or ``setup`` cannot be parsed. TypeError: a test of another type.

    Example:
        >>> CodeTests((CallTest("add", (1, 2), 3),)).to_json()
        {'tests': [{'call': 'add', 'args': [1, 2], 'expected': 3}]}
    """

    tests: tuple[Test, ...]
    prompt: str = ""
    setup: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "tests", tuple(self.tests))
        if not self.tests:
            raise ValueError("CodeTests.tests is empty; a program that nothing tests would count as right")
        for index, test in enumerate(self.tests):
            if not isinstance(test, (CallTest, StdinTest, CheckTest)):
                raise TypeError(
                    f"CodeTests.tests[{index}] must be a CallTest, StdinTest or CheckTest, got {type(test).__name__}"
                )
        _parse("CodeTests.setup", self.setup)

    def to_json(self) -> dict[str, Any]:
        """As JSON; ``from_json`` gives the same tests back."""
        data: dict[str, Any] = {"tests": [test.to_json() for test in self.tests]}
        return data | {name: getattr(self, name) for name in ("prompt", "setup") if getattr(self, name)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CodeTests:
        """Tests from JSON, as ``to_json`` writes them or as written by hand.

        Raises:
            ValueError: a field is missing or malformed; the message says where.
        """
        tests = data.get("tests")
        if not isinstance(tests, list):
            raise ValueError(f"code tests need a list 'tests', got {type(tests).__name__}")
        texts = {name: data.get(name, "") for name in ("prompt", "setup")}
        for name, text in texts.items():
            if not isinstance(text, str):
                raise ValueError(f"code tests: {name!r} must be text, got {type(text).__name__}")
        return cls(tuple(_test(index, test) for index, test in enumerate(tests)), **texts)


def _test(index: int, data: Any) -> Test:
    try:
        if "call" in data:
            return CallTest(
                data["call"],
                tuple(_plain(data["args"])),
                _plain(data["expected"]),
                _plain(data.get("kwargs", {})),
                bool(data.get("tuples_as_lists", False)),
            )
        if "stdin" in data:
            return StdinTest(data["stdin"], data["stdout"])
        if "check" in data:
            names = data.get("names")
            return CheckTest(data["check"], tuple(names) if names else free_names(data["check"]))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"code tests: tests[{index}] is malformed ({type(error).__name__}: {error})") from error
    raise ValueError(f"code tests: tests[{index}] must have 'call', 'stdin' or 'check', got {sorted(data)!r:.80}")


def _plain(data: Any) -> Any:
    def refuse(reference: dict[str, Any]) -> Any:
        raise ValueError(f"a test value cannot hold {reference!r:.60}")

    return decode(data, refuse)


def _parse(owner: str, source: str) -> ast.Module:
    """Parse trusted test code; never used on a program."""
    try:
        return ast.parse(source)
    except (SyntaxError, TypeError, ValueError) as error:
        raise ValueError(f"{owner} must be Python code: {error}") from error


def free_names(source: str, setup: str = "") -> tuple[str, ...]:
    """The names that test code uses but neither it, its set-up nor Python defines: they must come from the program.

    Example:
        >>> free_names("assert math.isclose(area(2), 4 * math.pi)", "import math")
        ('area',)
    """
    tree = _parse("test code", f"{setup}\n{source}")
    used: dict[str, None] = {}
    bound = set(dir(builtins))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                used[node.id] = None
            else:
                bound.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bound.add(node.name)
    return tuple(name for name in used if name not in bound)


def check_tests(source: str, setup: str = "") -> tuple[Test, ...]:
    """One test for each top-level statement of test code that is an assert.

    ``assert f(1, 2) == 3`` with literal values becomes a ``CallTest``, compared in this process; any other becomes a
    ``CheckTest`` that carries the statements before it which are no asserts.

    Example:
        >>> [type(test).__name__ for test in check_tests("assert f(1) == 2\\nassert abs(f(2) - 3) < 1")]
        ['CallTest', 'CheckTest']
    """
    tests: list[Test] = []
    before: list[str] = []
    for statement in _parse("test code", source).body:
        text = ast.unparse(statement)
        if not isinstance(statement, ast.Assert):
            before.append(text)
            continue
        whole = "\n".join([*before, text])
        names = free_names(whole, setup)
        call = _call_test(statement.test)
        tests.append(call if call and call.function in names and not before else CheckTest(whole, names))
    return tuple(tests)


def _call_test(test: ast.expr) -> CallTest | None:
    """``f(literals) == literal``, or the other way round."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.Eq):
        return None
    call, value = test.left, test.comparators[0]
    if not isinstance(call, ast.Call):
        call, value = value, call
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        return None
    if any(keyword.arg is None for keyword in call.keywords):
        return None
    try:
        args = tuple(ast.literal_eval(arg) for arg in call.args)
        kwargs = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
        return CallTest(call.func.id, args, ast.literal_eval(value), kwargs)
    except (ValueError, TypeError):
        return None
