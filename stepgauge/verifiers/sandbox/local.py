"""Programs in a process of this machine: starts the runner by a command and talks to it over pipes."""

from __future__ import annotations

import json
import os
import secrets
import select
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, Self

from stepgauge.verifiers.sandbox.protocol import DeadlinePassed, Limits, Reply, SandboxError
from stepgauge.verifiers.sandbox.seccomp import filter_program

__all__ = [
    "LIBRARIES",
    "LocalProgram",
    "LocalSandbox",
    "hidden_in",
    "may_be_anyone",
    "own_uid",
    "python_command",
    "python_folders",
    "single_source",
]

LIBRARIES = ("/usr/lib", "/usr/lib64", "/usr/lib32", "/lib", "/lib64")
_HIDDEN = ("site-packages", "dist-packages", "test")  # other people's code, and perhaps the tests' data
_FIRST_UID, _LAST_UID = 1_000_000_000, 2_000_000_000

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


def python_folders() -> list[str]:
    """The folders that Python needs: its standard library and the C libraries."""
    prefix = os.path.realpath(sys.base_prefix)
    return [path for path in dict.fromkeys([*LIBRARIES, f"{prefix}/lib", f"{prefix}/lib64"]) if os.path.isdir(path)]


def hidden_in(folder: str) -> list[str]:
    """The folders in there that a program must not see."""
    found = sorted(map(str, Path(folder).glob("python*/*")))
    return [p for p in found if os.path.basename(p) in _HIDDEN and os.path.isdir(p) and not os.path.islink(p)]


def may_be_anyone() -> bool:
    """Whether we are root over all user numbers, rather than root of a small user namespace."""
    if os.geteuid() != 0:
        return False
    maps = Path("/proc/self/uid_map").read_text(encoding="ascii").split()
    return maps == ["0", "0", "4294967295"]


def own_uid() -> int | None:
    """A user number that nothing else on the machine has, where we may take one."""
    return secrets.randbelow(_LAST_UID - _FIRST_UID) + _FIRST_UID if may_be_anyone() else None


class _Runner:
    """The process in which the runner runs, and the two pipes to it."""

    def __init__(self, command: list[str]) -> None:
        environment = {"PYTHONHASHSEED": "0", "LANG": "C.UTF-8", "PATH": "/usr/bin:/bin"}
        pipe = subprocess.PIPE
        try:
            self.process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, cwd="/", start_new_session=True
            )
        except OSError as error:
            raise SandboxError(f"{command[0]} could not be started: {error}") from error
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.pipes = (self.process.stdin, self.process.stdout, self.process.stderr)
        os.set_blocking(self.process.stdin.fileno(), False)
        self.unread = b""

    def exchange(
        self, message: dict[str, Any], patience_s: float, room: int, deadline: float | None, *, first: bytes = b""
    ) -> dict[str, Any]:
        """Send one line and read one; bounded in time (seconds) and size (bytes), whatever the other side does."""
        write, read = self.pipes[0].fileno(), self.pipes[1].fileno()
        data = first + json.dumps(message, ensure_ascii=True).encode("ascii") + b"\n"
        late = time.monotonic() + patience_s
        stop = late if deadline is None else min(late, deadline)
        received = bytearray(self.unread)
        while b"\n" not in received:
            left = stop - time.monotonic()
            if left <= 0:
                if stop < late:
                    raise DeadlinePassed("the deadline passed while a program was being tested")
                raise SandboxError(f"the sandbox did not answer within {patience_s:g} s")
            readable, writable, _ = select.select([read], [write] if data else [], [], left)
            if writable:
                try:
                    data = data[os.write(write, data[:65536]) :]
                except BlockingIOError:
                    pass
                except BrokenPipeError:
                    data = b""
            if readable:
                chunk = os.read(read, 65536)
                received += chunk
                if not chunk:
                    raise SandboxError(f"the sandbox ended unexpectedly: {self._last_words()}")
            if len(received) > room:
                raise SandboxError("the sandbox answered with more than the output limit")
        line, _, rest = bytes(received).partition(b"\n")
        self.unread = rest
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _last_words(self) -> str:
        code = self.process.wait(timeout=GRACE_S)
        os.set_blocking(self.pipes[2].fileno(), False)
        words = self.pipes[2].read() or b""
        return f"exit code {code}; {words[-500:].decode('utf-8', 'replace').strip() or 'it said nothing'}"

    def close(self) -> None:
        """Kill it; everything below it dies with it."""
        self.process.kill()
        for pipe in self.pipes:
            pipe.close()
        self.process.wait()


class LocalSandbox(ABC):
    """Runs programs in processes of this machine.

    Inside ``with`` it keeps its runners for the next program, which saves their start; a program never shares a process
    with another one. For one thread.
    """

    level: ClassVar[str]
    count_processes: bool  # whether the user inside has no other processes, so that they can be counted

    def __init__(self) -> None:
        self._idle: list[_Runner] = []
        self._keep = False

    @abstractmethod
    def command(self) -> list[str]:
        """What to execute: the runner listens on its stdin and answers on its stdout. Raises SandboxError."""

    def uid(self) -> int | None:
        """The user that a program becomes, where the runner is root; None = the runner's."""
        return None

    def open(
        self, source: str, limits: Limits, *, trusted: bool = False, deadline: float | None = None
    ) -> LocalProgram:
        """See ``Sandbox.open``."""
        return LocalProgram(self, source, limits, trusted=trusted, deadline=deadline)

    def take(self) -> _Runner:
        """A runner without a program."""
        return self._idle.pop() if self._idle else _Runner(self.command())

    def give_back(self, runner: _Runner) -> None:
        """Keep a runner for the next program, or end it."""
        if self._keep:
            self._idle.append(runner)
        else:
            runner.close()

    def __enter__(self) -> Self:
        self._keep = True
        return self

    def __exit__(self, *exc: object) -> None:
        self._keep = False
        while self._idle:
            self._idle.pop().close()


class LocalProgram:
    """One program in a local sandbox; started by its first request. For one thread, from open to close."""

    def __init__(
        self, sandbox: LocalSandbox, source: str, limits: Limits, *, trusted: bool, deadline: float | None
    ) -> None:
        self.sandbox = sandbox
        self.limits = limits
        self.deadline = deadline
        self.room = 8 * limits.output_kb * 1024 + 100_000  # JSON escapes make text longer
        self.setup = {
            "program": source,
            "trusted": trusted,
            "limits": asdict(limits),
            "uid": sandbox.uid(),
            "count_processes": sandbox.count_processes,
            "seccomp": filter_program().hex(),
        }
        self._runner: _Runner | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        runner, self._runner = self._runner, None
        if runner is None:
            return
        try:
            if exc[0] is None and runner.exchange({"do": "close"}, GRACE_S, self.room, None) == {"closed": True}:
                self.sandbox.give_back(runner)
                return
        except SandboxError:
            pass  # it had given its verdicts; a runner that does not close is ended
        runner.close()

    def run(self, stdin: str) -> Reply:
        """See ``Program.run``."""
        return self._request({"do": "run", "stdin": stdin}, {})

    def ask(self, request: dict[str, Any], *, cpu_s: float | None = None, wall_s: float | None = None) -> Reply:
        """See ``Program.ask``."""
        lower = {"cpu_s": cpu_s, "wall_s": wall_s}
        line = json.dumps(request, ensure_ascii=True)
        return self._request({"do": "ask", "line": line}, {name: s for name, s in lower.items() if s is not None})

    def _request(self, request: dict[str, Any], lower: dict[str, float]) -> Reply:
        if self._runner is None:
            self._runner = self.sandbox.take()
            self._runner.exchange(self.setup, START_S, self.room, self.deadline, first=b"+")
        nonce = secrets.token_hex(16)
        patience_s = lower.get("wall_s", self.limits.wall_s) + GRACE_S
        answer = self._runner.exchange(request | {"id": nonce, "limits": lower}, patience_s, self.room, self.deadline)
        if answer.get("id") != nonce:
            raise SandboxError("the runner answered another request than the one it was sent")
        state = answer["state"]
        if state == "failed":
            raise SandboxError(f"the sandbox failed: {answer['message']}")
        if state == "ended" and answer["code"] == -9:  # the program cannot send signals, and the runner did not
            raise SandboxError("the program was killed from outside, probably because the machine ran out of memory")
        names = ("code", "line", "out", "err", "cpu_s", "wall_s")
        return Reply(state, **{name: answer[name] for name in names if name in answer})
