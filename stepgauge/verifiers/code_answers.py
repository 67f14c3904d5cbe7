"""The ``code`` scorer: does the program pass its tests, and which step spoiled it?"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

from stepgauge import __version__
from stepgauge.scoring import Progress, Reason, Rollout, Scorer, StepScores, score_each
from stepgauge.verifiers.code_judging import TestVerdict, run_tests
from stepgauge.verifiers.code_tests import CodeTests
from stepgauge.verifiers.first_error import FirstError, first_error_search
from stepgauge.verifiers.sandbox import DeadlinePassed, Limits, Sandbox, SandboxError, TransportError, choose_sandbox

__all__ = ["CodeScorer", "Completer", "extract_program"]

# (problem, the text so far, n) -> n texts that go on from there
Completer = Callable[[str, str, int], Sequence[str]]
Run = Callable[..., list[TestVerdict]]  # run_tests, all but the program given
MAX_CHARS = 1_000_000
_PYTHON = frozenset(("python", "python3", "py", "py3"))


def extract_program(text: str) -> str | None:
    """Extract the program of a response: the last fenced block marked as Python, else the last fenced block, else all.

    Looks behind the last ``</think>``. None where a ``<think>`` never closes, or where there is no text. A block that
    is never closed goes on to the end.

    Example:
        >>> extract_program("Like this:\\n```python\\nprint(1)\\n```\\nIt prints 1.")
        'print(1)\\n'
    """
    if text.rfind("<think>") > text.rfind("</think>"):
        return None
    text = text.rpartition("</think>")[2]
    blocks = list(_blocks(text))
    marked = [code for mark, code in blocks if mark in _PYTHON]
    program = marked[-1] if marked else blocks[-1][1] if blocks else text
    return program if program.strip() else None


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """(mark, code) of every fenced block; the fence may be indented, its code then is too."""
    mark: str | None = None
    lines: list[str] = []
    for line in text.splitlines(keepends=True):
        fence = line.strip()
        if mark is None and fence.startswith("```"):
            mark, lines = fence.strip("`").strip().lower().partition(" ")[0], []
        elif mark is not None and fence == "```":
            yield mark, "".join(lines)
            mark = None
        elif mark is not None:
            lines.append(line)
    if mark is not None:
        yield mark, "".join(lines)


def _text(steps: Sequence[str]) -> str:
    """Steps are lines or blocks of code, or text around fenced code: each starts on a line of its own."""
    return "".join(step if step.endswith("\n") else step + "\n" for step in steps)


def _tests(reference: object) -> CodeTests | None:
    if isinstance(reference, CodeTests):
        return reference
    if isinstance(reference, Mapping) and "tests" in reference:
        return CodeTests.from_json(reference)
    return None


class CodeScorer(Scorer):
    """Outcome verifier for programs: on the last step 1 where all tests pass and 0 where one fails; None elsewhere.

    ``Rollout.reference`` holds the tests: a ``CodeTests`` or its JSON. Without tests, and where the response holds no
    program, it abstains; where the sandbox is missing or fails, the status is "error": never a 0. ``summary`` names the
    sandbox, the counts and the first failed test; the last entry of ``details`` has the verdict of every test.

    With a ``completer`` it also finds the first step from which no completion passes any more, by binary search:
    ``error_step``, scored 0.

    Args:
        sandbox: see ``choose_sandbox``; "auto" takes bubblewrap where it works, else sandlock, else nothing runs.
        cpu_s, wall_s: seconds a test may use, of CPU and on the clock. memory_mb: address space, MB.
        partial: run all tests and score the share that pass, in place of all or nothing.
        completer: gives n texts that go on from a prefix: ``completer(problem, prefix, n)``.
        completions: how many to ask for at each prefix.
        workers: programs tested at the same time; None = one a CPU.

    Example:
        >>> from stepgauge.verifiers.code_tests import CallTest
        >>> tests = CodeTests((CallTest("add", (1, 2), 3),))
        >>> CodeScorer().score(["def add(a, b):", "    return a + b"], reference=tests).values  # doctest: +SKIP
        (None, 1.0)
    """

    name = "code"
    kind = "correctness"

    def __init__(
        self,
        sandbox: str = "auto",
        *,
        cpu_s: float = 5.0,
        wall_s: float = 15.0,
        memory_mb: int = 512,
        partial: bool = False,
        completer: Completer | None = None,
        completions: int = 4,
        workers: int | None = None,
    ) -> None:
        self.sandbox = sandbox
        self.cpu_s = cpu_s
        self.wall_s = wall_s
        self.memory_mb = memory_mb
        self.partial = partial
        self.completer = completer
        self.completions = completions
        self.workers = workers

    @property
    def fingerprint(self) -> str:
        """See ``Scorer.fingerprint``: a completer is known by its own ``fingerprint``, else by its name."""
        parts: list[object] = [__version__, sys.version, self.sandbox, self.cpu_s, self.memory_mb, self.partial]
        if self.completer is not None:
            name = getattr(self.completer, "__qualname__", type(self.completer).__qualname__)
            parts += [getattr(self.completer, "fingerprint", name), self.completions]
        return f"code:{parts!r}"

    def score_batch(
        self, rollouts: Sequence[Rollout], *, deadline_s: float | None = None, progress: Progress | None = None
    ) -> list[StepScores]:
        """See ``Scorer.score_batch``."""
        deadline = None if deadline_s is None else time.monotonic() + deadline_s

        mine = threading.local()  # a sandbox is for one thread, and its runners die with the thread that started them

        def one(rollout: Rollout) -> StepScores:
            if not hasattr(mine, "sandbox"):
                mine.sandbox = stack.enter_context(choose_sandbox(self.sandbox))
            left = None if deadline is None else deadline - time.monotonic()
            judge = functools.partial(self._judge, sandbox=mine.sandbox, deadline=deadline)
            return score_each(judge, [rollout], kind="correctness", deadline_s=left)[0]

        results = []
        workers = self.workers or len(os.sched_getaffinity(0))
        with ThreadPoolExecutor(workers) as pool, ExitStack() as stack:
            for scores in pool.map(one, rollouts):
                results.append(scores)
                if progress is not None:
                    progress(1)
        return results

    def _judge(self, rollout: Rollout, sandbox: Sandbox, deadline: float | None) -> StepScores:
        n_steps = len(rollout.steps)
        if n_steps == 0:
            return StepScores.abstain(0, "correctness", "no_claim")
        tests = _tests(rollout.reference)
        if tests is None:
            return StepScores.abstain(n_steps, "correctness", "no_reference")
        text = rollout.text if rollout.text is not None else _text(rollout.steps)
        source = extract_program(text)
        if source is None:
            return StepScores.abstain(n_steps, "correctness", "unparsed")
        if len(source) > MAX_CHARS:
            return StepScores.abstain(n_steps, "correctness", "too_large")
        limits = Limits(cpu_s=self.cpu_s, wall_s=self.wall_s, memory_mb=self.memory_mb)
        run = functools.partial(run_tests, tests=tests, sandbox=sandbox, limits=limits, deadline=deadline)
        try:
            return self._scores(rollout, run, source, sandbox.level)
        except DeadlinePassed as error:
            return StepScores.error(n_steps, "correctness", "timeout", str(error))
        except SandboxError as error:
            reason: Reason = "transport" if isinstance(error, TransportError) else "internal"
            return StepScores.error(n_steps, "correctness", reason, str(error))

    def _scores(self, rollout: Rollout, run: Run, source: str, level: str) -> StepScores:
        verdicts = run(source, stop_at_failure=not self.partial)
        passed = sum(verdict.passed for verdict in verdicts)
        failed = next((index for index, verdict in enumerate(verdicts) if not verdict.passed), None)
        word = "passed" if failed is None else "failed"
        summary: dict[str, Any] = {"verdict": word, "passed": passed, "tests": len(verdicts), "sandbox": level}
        if failed is not None:
            summary |= {"first_failed": failed, "reason": verdicts[failed].reason, "message": verdicts[failed].message}
        values: list[float | None] = [None] * len(rollout.steps)
        values[-1] = passed / len(verdicts) if self.partial else float(failed is None)
        error_step = None
        if self.completer is not None:
            found = FirstError(-1, (), ()) if failed is None else self._first_error(rollout, run, self.completer)
            error_step = found.step
            summary["probes"] = [asdict(probe) for probe in found.probes]
            if error_step >= 0:
                values[error_step] = values[error_step] or 0.0
        reasons: list[Reason | None] = ["no_claim" if value is None else None for value in values]
        details: list[dict[str, Any]] = [{} for _ in values]
        details[-1] = {"tests": [asdict(verdict) for verdict in verdicts]}
        return StepScores(
            tuple(values), "correctness", "ok", tuple(reasons), error_step, summary=summary, details=tuple(details)
        )

    def _first_error(self, rollout: Rollout, run: Run, completer: Completer) -> FirstError:
        """The first step from which no completion passes; the whole program is known to fail."""

        def oracle(step: int) -> tuple[int, int]:
            if step == len(rollout.steps) - 1:
                return 0, 1
            prefix = _text(rollout.steps[: step + 1])
            texts = list(completer(rollout.problem, prefix, self.completions))
            programs = [extract_program(prefix + text) for text in texts]
            passed = [
                all(verdict.passed for verdict in run(program, stop_at_failure=True))
                for program in programs
                if program is not None
            ]
            return sum(passed), len(texts)

        return first_error_search(oracle, len(rollout.steps))
