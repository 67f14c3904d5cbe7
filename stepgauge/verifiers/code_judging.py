"""Run a program against its tests in a sandbox. What it returns or prints is compared here, in this process."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Literal, assert_never

from stepgauge.verifiers.code_compare import encode_plain, same_output, same_value
from stepgauge.verifiers.code_tests import CallTest, CheckTest, CodeTests, StdinTest
from stepgauge.verifiers.sandbox.protocol import Limits, Program, Reply, Sandbox, SandboxError

__all__ = ["Returned", "TestVerdict", "call_outputs", "run_tests"]

SHOWN = 200  # characters of a value in a message
CHECKS_OUTPUT_KB = 64 * 1024  # tests are trusted: their arguments may be long
TestReason = Literal["passed", "wrong_output", "raised", "crashed", "timeout", "memory", "output_limit", "not_run"]


@dataclass(frozen=True, slots=True)
class TestVerdict:
    """What one test says: ``passed`` or not, the reason, a message for people, and its time on the clock in ms."""

    __test__ = False  # no test class, whatever its name

    passed: bool
    reason: TestReason
    message: str = ""
    ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Returned:
    """What a call of the program returned: tagged JSON of a hostile process, to be compared with ``same_value``."""

    value: Any


def run_tests(
    source: str,
    tests: CodeTests,
    sandbox: Sandbox,
    limits: Limits,
    *,
    stop_at_failure: bool = True,
    deadline: float | None = None,
) -> list[TestVerdict]:
    """Run a program against its tests, all in one start of the sandbox; (T,) verdicts in order.

    Args:
        source: the program; hostile. ``tests.prompt`` is put before it.
        tests: trusted; no expected value of a ``CallTest`` or ``StdinTest`` enters the sandbox, and a ``CheckTest``
            runs in another one.
        stop_at_failure: leave the tests after the first failed one "not_run".
        deadline: on the ``time.monotonic`` clock.

    Raises:
        SandboxError: the sandbox is missing or failed. DeadlinePassed: the deadline passed before the end.

    Example:
        >>> from stepgauge.verifiers.sandbox import choose_sandbox
        >>> tests = CodeTests((CallTest("add", (1, 2), 3),))
        >>> run_tests("def add(a, b): return a - b", tests, choose_sandbox(), Limits())[0].reason  # doctest: +SKIP
        'wrong_output'
    """
    prompt = tests.prompt if tests.prompt.endswith("\n") or not tests.prompt else tests.prompt + "\n"
    verdicts: list[TestVerdict] = []
    with ExitStack() as stack:
        program = stack.enter_context(sandbox.open(prompt + source, limits, deadline=deadline))
        judge = _Judge(tests.setup, sandbox, limits, deadline, stack)
        for test in tests.tests:
            if stop_at_failure and verdicts and not verdicts[-1].passed:
                verdicts.append(TestVerdict(False, "not_run"))
                continue
            started = time.monotonic()
            verdict = _run_test(test, program, judge)
            verdicts.append(replace(verdict, ms=(time.monotonic() - started) * 1000))
    return verdicts


def call_outputs(
    source: str, calls: Sequence[tuple[str, Sequence[Any]]], sandbox: Sandbox, limits: Limits
) -> list[Returned | None]:
    """What a program returns for each call.

    None where the call raised, was stopped, or gave no answer.

    Args:
        source: the program; hostile.
        calls: (C,) pairs (function, arguments); the arguments are plain data.
        limits: for each call.

    Raises:
        SandboxError: the sandbox is missing or failed. TypeError: arguments that are not plain data.
    """
    outputs: list[Returned | None] = []
    with sandbox.open(source, limits) as program:
        for function, arguments in calls:
            answer = _answer(program, _call(function, arguments, {}), None, None)
            if isinstance(answer, TestVerdict) or "value" not in answer:
                outputs.append(None)
            else:
                outputs.append(Returned(answer["value"]))
    return outputs


def _call(function: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "do": "call",
        "target": {"$ref": function},
        "args": encode_plain(list(args)),
        "kwargs": encode_plain(dict(kwargs)),
    }


def _run_test(test: CallTest | StdinTest | CheckTest, program: Program, judge: _Judge) -> TestVerdict:
    if isinstance(test, StdinTest):
        return _judge_output(program.run(test.stdin), test.stdout)
    if isinstance(test, CallTest):
        return _judge_call(test, program)
    if isinstance(test, CheckTest):
        return judge.run(test, program)
    assert_never(test)


def _stopped(reply: Reply) -> TestVerdict | None:
    """The verdict on a program that was stopped, None where it came to an end of its own."""
    if reply.state == "timeout":
        return TestVerdict(False, "timeout", f"stopped after {reply.cpu_s:.2f} s of CPU, {reply.wall_s:.2f} s in all")
    if reply.state == "output_limit":
        return TestVerdict(False, "output_limit", "wrote more than it may")
    return None


def _judge_output(reply: Reply, expected: str) -> TestVerdict:
    stopped = _stopped(reply)
    if stopped:
        return stopped
    if reply.code != 0:
        memory = "MemoryError" in reply.err.rstrip().rpartition("\n")[2]
        if reply.code is not None and reply.code < 0:
            return TestVerdict(False, "crashed", f"ended by signal {-reply.code}")
        return TestVerdict(False, "memory" if memory else "raised", f"exit code {reply.code}: {reply.err[-SHOWN:]}")
    if same_output(reply.out, expected):
        return TestVerdict(True, "passed")
    return TestVerdict(False, "wrong_output", f"expected {expected!r:.{SHOWN}}, got {reply.out!r:.{SHOWN}}")


def _judge_call(test: CallTest, program: Program) -> TestVerdict:
    answer = _answer(program, _call(test.function, test.args, test.kwargs), None, None)
    if isinstance(answer, TestVerdict):
        return answer
    if "raised" in answer:
        return _raised(answer)
    expected = encode_plain(test.expected)
    if same_value(answer.get("value"), expected, tuples_as_lists=test.tuples_as_lists):
        return TestVerdict(True, "passed")
    shown = [json.dumps(value)[:SHOWN] for value in (expected, answer.get("value"))]
    return TestVerdict(False, "wrong_output", f"expected {shown[0]}, got {shown[1]}")


def _raised(answer: dict[str, Any]) -> TestVerdict:
    name = str(answer["raised"])[:SHOWN]
    where = " while it was loaded" if answer.get("phase") == "load" else ""
    reason: TestReason = "memory" if name == "MemoryError" else "raised"
    return TestVerdict(False, reason, f"{name}{where}: {str(answer.get('text', ''))[:SHOWN]}")


def _answer(
    program: Program, request: dict[str, Any], cpu_s: float | None, wall_s: float | None
) -> dict[str, Any] | TestVerdict:
    """Ask the program; its answer, or the verdict on a program that gives none. The answer is hostile data."""
    nonce = secrets.token_hex(16)  # so that an answer written ahead of its question does not count
    reply = program.ask(request | {"nonce": nonce}, cpu_s=cpu_s, wall_s=wall_s)
    stopped = _stopped(reply)
    if stopped:
        return stopped
    if reply.state == "ended":
        return TestVerdict(False, "crashed", f"the process ended with code {reply.code} instead of answering")
    try:
        answer = json.loads(reply.line)
    except (ValueError, RecursionError) as error:
        return TestVerdict(False, "crashed", f"its answer cannot be read ({type(error).__name__})")
    if not isinstance(answer, dict) or answer.get("nonce") != nonce:
        return TestVerdict(False, "crashed", "it answered out of turn")
    return answer | {"cpu_s": reply.cpu_s}


class _Judge:
    """Runs ``CheckTest``s in a sandbox of their own and carries their calls to the program and back."""

    def __init__(self, setup: str, sandbox: Sandbox, limits: Limits, deadline: float | None, stack: ExitStack) -> None:
        self.setup = setup
        self.sandbox = sandbox
        self.limits = limits
        self.deadline = deadline
        self.stack = stack
        self.tests: Program | None = None

    def run(self, test: CheckTest, program: Program) -> TestVerdict:
        """Run one test; its calls together have the time of one test."""
        stop = time.monotonic() + self.limits.wall_s
        cpu_left = self.limits.cpu_s
        message: dict[str, Any] = {"check": test.source, "names": list(test.names)}
        while True:
            said = self._tell(message, max(stop - time.monotonic(), 0.01))
            if isinstance(said, TestVerdict):
                return said
            if "ask" not in said:
                return _checked(said)
            wall_left = stop - time.monotonic()
            if cpu_left <= 0 or wall_left <= 0:
                return self._abandon(TestVerdict(False, "timeout", "too slow over all calls of the test"))
            answer = _answer(program, said["ask"], cpu_left, wall_left)
            if isinstance(answer, TestVerdict):
                return self._abandon(answer)
            if answer.get("phase") == "load" or answer.get("raised") == "MemoryError":
                return self._abandon(_raised(answer))
            cpu_left -= answer["cpu_s"]
            message = answer

    def _abandon(self, verdict: TestVerdict) -> TestVerdict:
        """Leave a test in the middle, where its process waits for an answer."""
        self.tests = None
        return verdict

    def _tell(self, message: dict[str, Any], wall_s: float) -> dict[str, Any] | TestVerdict:
        if self.tests is None:
            limits = replace(self.limits, output_kb=CHECKS_OUTPUT_KB)
            opened = self.sandbox.open(self.setup, limits, trusted=True, deadline=self.deadline)
            self.tests = self.stack.enter_context(opened)
        reply = self.tests.ask(message, cpu_s=wall_s, wall_s=wall_s)
        if reply.state == "line":
            said: dict[str, Any] = json.loads(reply.line)
            return said
        self.tests = None
        stopped = _stopped(reply)
        if stopped and stopped.reason == "timeout":
            return stopped
        raise SandboxError(f"the process of the tests failed: {stopped.message if stopped else f'code {reply.code}'}")


def _checked(said: dict[str, Any]) -> TestVerdict:
    if said["passed"]:
        return TestVerdict(True, "passed")
    reason: TestReason = "wrong_output" if said["raised"] == "AssertionError" else "raised"
    return TestVerdict(False, reason, f"{said['raised']}: {said['text']}"[:SHOWN])
