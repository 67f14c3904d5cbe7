"""Programs in a process of this machine: starts the runner by a command and talks to it over pipes."""

from __future__ import annotations

import json
import os
import secrets
import select
import subprocess
import sys
import time
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from types import TracebackType
from typing import Any, Self

from stepgauge.verifiers.sandbox.protocol import DeadlinePassed, Limits, Reply, SandboxError
from stepgauge.verifiers.sandbox.seccomp import filter_program

__all__ = ["LocalProgram", "python_command", "single_source"]

GRACE_S = 10.0  # how long the runner may be late with an answer before the sandbox counts as broken
START_S = 60.0


@cache
def single_source(*names: str) -> str:
    """Modules of this folder as one source text, without their imports from this package: it runs anywhere."""
    folder = files("stepgauge.verifiers.sandbox")
    lines = [
        line
        for name in names
        for line in (folder / name).read_text(encoding="utf-8").splitlines()
        if not line.startswith(("from __future__ ", "from stepgauge."))
    ]
    return "\n".join(["from __future__ import annotations", *lines])


def python_command() -> list[str]:
    """The command that runs the runner: this Python, without site packages and without the current folder."""
    python = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    return [python, "-s", "-S", "-P", "-B", "-X", "utf8", "-c", single_source("plain.py", "child.py", "runner.py")]


class LocalProgram:
    """One sandbox with one program in it; starts on the first request. For one thread, from open to close.

    Args:
        command: what to execute; the runner listens on its stdin and answers on its stdout.
        source: the program (``trusted``: the set-up code of tests).
        limits: for each test.
        uid: the user to become inside, where the runner starts as root; None = stay.
        count_processes: whether the user inside has no other processes, so that they can be limited by count.
        deadline: on the monotonic clock.
    """

    def __init__(
        self,
        command: list[str],
        source: str,
        limits: Limits,
        *,
        trusted: bool,
        uid: int | None,
        count_processes: bool,
        deadline: float | None,
    ) -> None:
        self.command = command
        self.limits = limits
        self.deadline = deadline
        self.setup = {
            "program": source,
            "trusted": trusted,
            "limits": asdict(limits),
            "uid": uid,
            "count_processes": count_processes,
            "seccomp": filter_program().hex(),
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._unread = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for pipe in (process.stdin, process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()
        process.wait()

    def run(self, stdin: str) -> Reply:
        """See ``Program.run``."""
        return self._request({"do": "run", "stdin": stdin}, {})

    def ask(self, request: dict[str, Any], *, cpu_s: float | None = None, wall_s: float | None = None) -> Reply:
        """See ``Program.ask``."""
        lower = {"cpu_s": cpu_s, "wall_s": wall_s}
        line = json.dumps(request, ensure_ascii=True)
        return self._request({"do": "ask", "line": line}, {name: s for name, s in lower.items() if s is not None})

    def _request(self, request: dict[str, Any], lower: dict[str, float]) -> Reply:
        if self._process is None:
            self._start()
        nonce = secrets.token_hex(16)
        wall_s = lower.get("wall_s", self.limits.wall_s)
        answer = self._exchange(request | {"id": nonce, "limits": lower}, wall_s + GRACE_S)
        if answer.get("id") != nonce:
            raise SandboxError("the runner answered another request than the one it was sent")
        state = answer["state"]
        if state == "failed":
            raise SandboxError(f"the sandbox failed: {answer['message']}")
        if state == "ended" and answer["code"] == -9:  # the program cannot send signals, and the runner did not
            raise SandboxError("the program was killed from outside, probably because the machine ran out of memory")
        names = ("code", "line", "out", "err", "cpu_s", "wall_s")
        return Reply(state, **{name: answer[name] for name in names if name in answer})

    def _start(self) -> None:
        environment = {"PYTHONHASHSEED": "0", "LANG": "C.UTF-8", "PATH": "/usr/bin:/bin"}
        try:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            raise SandboxError(f"{self.command[0]} could not be started: {error}") from error
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)
        self._exchange(self.setup, START_S)

    def _exchange(self, message: dict[str, Any], patience_s: float) -> dict[str, Any]:
        """Send one line and read one; bounded in time and size, whatever the other side does."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        write, read = self._process.stdin.fileno(), self._process.stdout.fileno()
        data = json.dumps(message, ensure_ascii=True).encode("ascii") + b"\n"
        late = time.monotonic() + patience_s
        stop = late if self.deadline is None else min(late, self.deadline)
        room = 8 * self.limits.output_kb * 1024 + 100_000  # JSON escapes make text longer
        received = bytearray(self._unread)
        while b"\n" not in received:
            left = stop - time.monotonic()
            if left <= 0:
                if stop < late:
                    raise DeadlinePassed("the deadline passed while a program was being tested")
                raise SandboxError(f"the sandbox did not answer within {patience_s:g} s")
            readable, writable, _ = select.select([read], [write] if data else [], [], left)
            try:
                if writable:
                    data = data[os.write(write, data[:65536]) :]
            except (BlockingIOError, BrokenPipeError):
                data = data if self._process.poll() is None else b""
            if readable:
                chunk = os.read(read, 65536)
                received += chunk
                if not chunk:
                    raise SandboxError(f"the sandbox ended unexpectedly: {self._last_words()}")
            if len(received) > room:
                raise SandboxError("the sandbox answered with more than the output limit")
        line, _, rest = bytes(received).partition(b"\n")
        self._unread = rest
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _last_words(self) -> str:
        assert self._process is not None
        assert self._process.stderr is not None
        code = self._process.wait(timeout=GRACE_S)
        os.set_blocking(self._process.stderr.fileno(), False)
        words = self._process.stderr.read() or b""
        return f"exit code {code}; {words[-500:].decode('utf-8', 'replace').strip() or 'it said nothing'}"
