"""The first process inside the sandbox: it forks a child for the program under test, relays lines, enforces limits.

Its source text goes to ``python -c``, so it imports the standard library only. It never decides a verdict and never
holds an expected value; it hands the child's bytes to the parent, which compares.

A byte "+" announces a program. Then one line of JSON each way: first the setup, answered by ``{"ready": true}``; then
any number of requests, each with an ``id`` that the answer repeats, and ``{"do": "close"}``, answered by
``{"closed": true}``:
``{"do": "run", "stdin"}`` runs the program as a script;
``{"do": "ask", "line"}`` gives a line to a child that serves the program, and returns the line it answers with.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import time
from collections.abc import Callable
from typing import Any

from stepgauge.verifiers.sandbox.child import TAIL, confine, prctl, run_script, serve_checks, serve_program

POLL_S = 0.05
READY = b"R"  # the first byte of a child, sent once it is confined


class Child:
    """A confined process. ``fds`` says which file becomes which number in it; all others are closed there."""

    def __init__(self, setup: dict[str, Any], body: Callable[[], int | None], fds: dict[int, int], first: int) -> None:
        self.pid = os.fork()
        if self.pid == 0:
            become(setup, body, fds)
        for fd in set(fds.values()):
            os.close(fd)
        self.exit_fd = os.pidfd_open(self.pid)
        word = os.read(first, 1)
        if word != READY:
            message = (word + os.read(first, TAIL)).decode("utf-8", "replace")
            raise OSError(f"the program could not be confined: {message}")

    def cpu_s(self) -> float:
        """CPU seconds used so far, all threads."""
        try:
            return time.clock_gettime((~self.pid << 3) | 2)  # the CPU clock of another process
        except OSError:
            return 0.0

    def finish(self, state: str) -> dict[str, Any]:
        """Kill and reap it; how it ended."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, 9)
        os.close(self.exit_fd)
        _, status, usage = os.wait4(self.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        return {"state": state, "code": code, "cpu_s": usage.ru_utime + usage.ru_stime}


def become(setup: dict[str, Any], body: Callable[[], int | None], fds: dict[int, int]) -> None:
    """In the child: take the files, give up all rights, run the body, end."""
    code: int | None = 1
    try:
        moved = {number: os.dup2(fd, number + 100) for number, fd in fds.items()}  # out of each other's way
        for number, fd in moved.items():
            os.dup2(fd, number)
        os.closerange(max(fds) + 1, 1024)
        out = 4 if 4 in fds else 1
        try:
            confine(setup)
        except BaseException as error:
            os.write(out, f"{type(error).__name__}: {error}".encode())
        else:
            os.write(out, READY)
            code = body()
    finally:
        os._exit(code or 0)


def watch(
    child: Child, limits: dict[str, Any], reads: dict[int, bytearray], *, write: int = -1, data: bytes = b""
) -> str:
    """Move bytes until the child ends ("ended"), answers a line ("line"), or passes "timeout" or "output_limit".

    ``reads`` collects what comes out of each fd. With ``write`` the child is asked: data goes in, one line comes out.
    """
    poll = select.poll()
    for fd in (*reads, child.exit_fd):
        poll.register(fd, select.POLLIN)
    if data:
        poll.register(write, select.POLLOUT)
    stop, cpu_stop = time.monotonic() + limits["wall_s"], child.cpu_s() + limits["cpu_s"]
    room = limits["output_kb"] * 1024
    ended = False
    while True:
        events = poll.poll(0 if ended else POLL_S * 1000)
        for fd, _ in events:
            if fd == child.exit_fd:
                ended = True  # go on reading: the pipes may hold its last words
                poll.unregister(fd)
            elif fd == write:
                try:
                    data = data[os.write(write, data) :]
                except BlockingIOError:
                    continue
                except BrokenPipeError:
                    data = b""
                if not data:
                    poll.unregister(write)
            else:
                chunk = os.read(fd, 65536)
                if not chunk:
                    poll.unregister(fd)
                reads[fd] += chunk
                room -= len(chunk)
        if room < 0:
            return "output_limit"
        if write >= 0 and any(b"\n" in buffer for buffer in reads.values()):
            return "line"
        if ended and not any(fd in reads for fd, _ in events):
            return "ended"
        if time.monotonic() > stop or child.cpu_s() > cpu_stop:
            return "timeout"


class Runner:
    """Serves requests about one program, one at a time."""

    def __init__(self, setup: dict[str, Any]) -> None:
        self.setup = setup
        self.served: tuple[Child, int, int] | None = None  # the child that has the program loaded, and its pipes

    def run(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run the program as a script, in a child of its own."""
        stdin = os.memfd_create("stdin")
        data = request["stdin"].encode("utf-8", "surrogatepass")
        while data:
            data = data[os.write(stdin, data) :]
        os.lseek(stdin, 0, os.SEEK_SET)
        (out, out_end), (err, err_end) = os.pipe(), os.pipe()
        fds = {0: stdin, 1: out_end, 2: err_end}
        child = Child(self.setup, lambda: run_script(self.setup["program"]), fds, out)
        reads = {out: bytearray(), err: bytearray()}
        answer = child.finish(watch(child, self.setup["limits"] | request["limits"], reads))
        os.close(out)
        os.close(err)
        answer["out"] = reads[out].decode("utf-8", "replace")
        answer["err"] = reads[err][-TAIL:].decode("utf-8", "replace")
        return answer

    def serve(self) -> tuple[Child, int, int]:
        """Start a child that has the program loaded and answers lines."""
        (there, write), (read, back) = os.pipe(), os.pipe()
        os.set_blocking(write, False)
        null = os.open("/dev/null", os.O_RDWR)
        fds = {0: null, 1: null, 2: null, 3: there, 4: back}
        serve = serve_checks if self.setup["trusted"] else serve_program
        return Child(self.setup, lambda: serve(self.setup["program"]), fds, read), read, write

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """One line to the serving child, one line back."""
        self.served = self.served or self.serve()
        child, read, write = self.served
        reads = {read: bytearray()}
        before = child.cpu_s()
        line = request["line"].encode("ascii") + b"\n"
        state = watch(child, self.setup["limits"] | request["limits"], reads, write=write, data=line)
        if state == "line":
            answer = bytes(reads[read]).partition(b"\n")[0].decode("utf-8", "replace")
            return {"state": "line", "line": answer, "cpu_s": child.cpu_s() - before}
        return self.close(state) or {}

    def close(self, state: str = "closed") -> dict[str, Any] | None:
        """End the serving child, if there is one."""
        if self.served is None:
            return None
        child, read, write = self.served
        self.served = None
        os.close(read)
        os.close(write)
        return child.finish(state)


def supervise(channel: int, out: int) -> None:
    """Serve the parent's requests about one program, from its setup to "close"."""

    def reply(message: dict[str, Any]) -> None:
        data = json.dumps(message).encode("ascii") + b"\n"
        while data:
            data = data[os.write(out, data) :]

    with os.fdopen(os.dup(channel), "rb") as lines:
        runner = Runner(json.loads(lines.readline()))
        reply({"ready": True})
        for line in lines:
            request = json.loads(line)
            if request["do"] == "close":
                break
            started = time.monotonic()
            try:
                answer = runner.run(request) if request["do"] == "run" else runner.ask(request)
            except OSError as error:
                answer = {"state": "failed", "message": f"{type(error).__name__}: {error}"}
            reply(answer | {"id": request["id"], "wall_s": time.monotonic() - started})
    runner.close()
    reply({"closed": True})


def main() -> None:
    """Fork a supervisor for each program that the parent announces with one byte, one after another.

    This process sees no program, no input and no output, so nothing of one program is in the memory of the next.
    """
    channel, out = os.dup(0), os.dup(1)
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1):
        os.dup2(null, fd)
    die_with_parent = 1  # PR_SET_PDEATHSIG
    prctl(die_with_parent, 9)
    while os.read(channel, 1) == b"+":
        pid = os.fork()
        if pid == 0:
            try:
                prctl(die_with_parent, 9)
                supervise(channel, out)
                os._exit(0)
            finally:
                os._exit(1)
        if os.waitpid(pid, 0)[1] != 0:
            break


if __name__ == "__main__":
    main()
