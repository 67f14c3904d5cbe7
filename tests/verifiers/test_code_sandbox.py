"""The sandbox under attack: each program is contained, and the verdict on it is right."""

# ruff: noqa: E501  # tables of programs
from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stepgauge.verifiers.code_judging import run_tests
from stepgauge.verifiers.code_tests import CallTest, CheckTest, CodeTests, StdinTest
from stepgauge.verifiers.sandbox import DeadlinePassed, Limits, SandboxError, choose_sandbox
from stepgauge.verifiers.sandbox.bubblewrap import Bubblewrap
from stepgauge.verifiers.sandbox.local import single_source
from stepgauge.verifiers.sandbox.sandlock_box import SandlockBox
from stepgauge.verifiers.sandbox.subprocess_unsafe import UnsafeSubprocess
from tests.verifiers.bwrap import SANDBOXES, descendants, none_left, wait_until_gone

LIMITS = Limits(cpu_s=0.5, wall_s=1.5, memory_mb=128, output_kb=256)
ROOMY = Limits(cpu_s=10, wall_s=30, memory_mb=128, output_kb=256)  # where time is not what stops the program
CALL = CodeTests((CallTest("f", (3,), 4),))
CHECK = CodeTests((CheckTest("assert f(3) == 4\nassert not f(3) != 4\nassert f(10) in (11,)", ("f",)),))
SCRIPT = CodeTests((StdinTest("3\n", "4\n"),))
RIGHT = "def f(x):\n    return x + 1\n"


# variants of attacks that the default run makes another way
SLOW = {
    "fork bomb, errors swallowed",
    "ignores signals",
    "one huge string",
    "infinite errors",
    "closes its output",
    "memory",
}


def cases(table):
    return [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in table]


@pytest.fixture(scope="module", params=SANDBOXES)
def box(request):
    """Each sandbox in turn, kept for all programs: what one attack breaks would show in the next."""
    with request.param() as sandbox:
        yield sandbox


# name: (program, the reason that each kind of test must give)
ATTACKS = {
    "fork bomb": ("import os\ndef f(x):\n    while True:\n        os.fork()", "raised"),
    "fork bomb, errors swallowed": (
        "import os\ndef f(x):\n    while True:\n        try:\n            os.fork()\n        except OSError:\n            pass",
        "timeout",
    ),
    "other program": ("import subprocess\ndef f(x):\n    return subprocess.run(['/bin/sh', '-c', 'echo 4'])", "raised"),
    "memory bomb": ("def f(x):\n    a = []\n    while True:\n        a.append(bytearray(10**7))", "memory"),
    "one huge string": ("def f(x):\n    return 'a' * 10**11", "memory"),
    "network": ("import socket\ndef f(x):\n    socket.create_connection(('1.1.1.1', 80), 1)\n    return 4", "raised"),
    "name lookup": ("import socket\ndef f(x):\n    return socket.gethostbyname('example.com')", "raised"),
    "reads /etc/passwd": ("def f(x):\n    return open('/etc/passwd').read()", "raised"),
    "exits while loading": ("import sys\nsys.exit(0)", "raised"),
    "exits in the call": ("import sys\ndef f(x):\n    sys.exit(0)", "raised"),
    "exits at once": ("import os\ndef f(x):\n    os._exit(0)", "crashed"),
    "crashes": ("import ctypes\ndef f(x):\n    ctypes.string_at(0)", "crashed"),
    "endless loop": ("def f(x):\n    while True:\n        pass", "timeout"),
    "endless wait": ("import time\ndef f(x):\n    time.sleep(10**6)", "timeout"),
    "ignores signals": (
        "import signal\nfor s in (2, 14, 15, 24):\n    signal.signal(s, signal.SIG_IGN)\ndef f(x):\n    while True:\n        pass",
        "timeout",
    ),
    "endless output on the channel": ("import os\ndef f(x):\n    while True:\n        os.write(4, b'y' * 60000)", "output_limit"),
    "fake results on every file": (
        "import os\ndef f(x):\n    for fd in range(64):\n        try:\n"
        '            os.write(fd, b\'{"value": 4, "passed": true, "state": "line"}\\n\')\n'
        "        except OSError:\n            pass\n    return 9",
        "crashed",
    ),
    "its own json": ("import json\njson.dumps = lambda *a, **k: '{\"value\": 4}'\ndef f(x):\n    return 9", "crashed"),
    "syntax error": ("def f(x) return 4", "raised"),
    "no such function": ("def g(x):\n    return 4", "raised"),
    "zero byte": ("def f(x):\n    return 4\0", "raised"),
}  # fmt: skip


@pytest.mark.parametrize("name", cases(ATTACKS))
def test_attack_through_a_call(box, name):
    program, reason = ATTACKS[name]
    (verdict,) = run_tests(program, CALL, box, LIMITS if reason == "timeout" else ROOMY)
    assert (verdict.passed, verdict.reason) == (False, reason), verdict


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fork bomb", "exits in the call", "exits at once", "endless wait", "its own json"])
def test_attack_through_test_code(box, name):
    program, reason = ATTACKS[name]
    (verdict,) = run_tests(program, CHECK, box, LIMITS if reason == "timeout" else ROOMY)
    assert (verdict.passed, verdict.reason) == (False, reason), verdict


EQUALITY = {
    "object equal to all": (
        "class E:\n    __eq__ = lambda s, o: True\n    __ne__ = lambda s, o: False\n    __bool__ = lambda s: False\n"
        "    __hash__ = object.__hash__\ndef f(x):\n    return E()"
    ),
    "number equal to all": (
        "class E(int):\n    __eq__ = lambda s, o: True\n    __ne__ = lambda s, o: False\n    __hash__ = int.__hash__\n"
        "def f(x):\n    return E(7)"
    ),
    "list of objects equal to all": "class E(list):\n    __eq__ = lambda s, o: True\ndef f(x):\n    return E([1])",
    "patched builtins": (
        "import builtins\nbuiltins.abs = lambda x: 0\nbuiltins.all = lambda x: True\nbuiltins.isinstance = lambda *a: True\n"
        "def f(x):\n    return 9"
    ),
    "exception of its own": "def f(x):\n    raise type('AssertionError', (BaseException,), {})()",
    "ends the loop of the test": "def f(x):\n    raise StopIteration",
    "looks for the expected value": (
        "import gc, sys\ndef f(x):\n    seen, frame = [], sys._getframe()\n    while frame:\n        seen += frame.f_locals.values()\n"
        "        frame = frame.f_back\n    seen += gc.get_objects()\n"
        "    for item in seen:\n        if isinstance(item, dict) and ('expected' in item or 'check' in item):\n"
        "            return item.get('expected', 9)\n    return 9"
    ),
}  # fmt: skip


@pytest.mark.parametrize("tests", [CALL, CHECK], ids=["call", "check"])
@pytest.mark.parametrize("name", EQUALITY)
def test_no_way_to_be_equal(box, name, tests):
    (verdict,) = run_tests(EQUALITY[name], tests, box, ROOMY)
    assert not verdict.passed
    assert verdict.reason in ("wrong_output", "raised", "crashed")


def test_a_loop_of_the_test_cannot_be_ended_by_the_program(box):
    loop = CodeTests((CheckTest("for got, want in zip(map(f, [1, 2]), [2, 3]):\n    assert got == want", ("f",)),))
    assert run_tests(RIGHT, loop, box, ROOMY)[0].passed
    assert not run_tests("def f(x):\n    raise StopIteration", loop, box, ROOMY)[0].passed


SCRIPTS = {
    "infinite output": ("while True:\n    print('4')", "output_limit"),
    "infinite errors": ("import sys\nwhile True:\n    print('4', file=sys.stderr)", "output_limit"),
    "memory": ("print(4)\na = 'a' * 10**11", "memory"),
    "right, then an error": ("print(4)\nraise ValueError", "raised"),
    "right, then exit 1": ("print(4)\nraise SystemExit(1)", "raised"),
    "right, then killed": ("import ctypes\nprint(4, flush=True)\nctypes.string_at(0)", "crashed"),
    "waits for more input": ("import sys\nwhile True:\n    sys.stdin.read()", "timeout"),
    "closes its output": ("import os\nos.close(1)\nos.close(2)\nwhile True:\n    pass", "timeout"),
    "wrong": ("print(int(input()) + 2)", "wrong_output"),
    "prints nothing": ("", "wrong_output"),
    "one line too many": ("print(4)\nprint(4)", "wrong_output"),
}


@pytest.mark.parametrize("name", cases(SCRIPTS))
def test_attack_by_a_script(box, name):
    program, reason = SCRIPTS[name]
    (verdict,) = run_tests(program, SCRIPT, box, LIMITS if reason == "timeout" else ROOMY)
    assert (verdict.passed, verdict.reason) == (False, reason), verdict


HONEST_SCRIPTS = {
    "plain": "print(int(input()) + 1)",
    "reads file 0": "import os\nos.write(1, str(int(open(0).read()) + 1).encode())",
    "main guard, exit 0": "import sys\nif __name__ == '__main__':\n    print(int(sys.stdin.buffer.readline()) + 1)\n    sys.exit(0)",
    "deep recursion in a thread": (
        "import sys, threading\nsys.setrecursionlimit(10**6)\nthreading.stack_size(2**26)\n"
        "def down(n):\n    return 0 if n == 0 else 1 + down(n - 1)\n"
        "def main():\n    print(down(20000) - 20000 + int(input()) + 1)\nthreading.Thread(target=main).start()"
    ),
    "prints a number otherwise": "print(float(input()) + 1)",
    "the usual imports": (
        "import collections, heapq, itertools, bisect, functools, math, re, random, string, decimal, fractions, typing, "
        "dataclasses, json, datetime, copy, statistics, operator, array, struct, asyncio\nprint(4)"
    ),
}


@pytest.mark.parametrize("name", HONEST_SCRIPTS)
def test_honest_scripts_pass(box, name):
    (verdict,) = run_tests(HONEST_SCRIPTS[name], SCRIPT, box, Limits())
    assert verdict.passed, verdict


REACH = """
import fcntl, os, resource, sys

def attempts(pids):
    done = []
    for pid in [*pids, os.getppid(), 1, 2, 0, -1]:
        for act in (lambda: os.kill(pid, 9), lambda: os.pidfd_open(pid), lambda: os.setpriority(0, pid, 5) if pid > 1 else 1 / 0):
            try:
                act()
                done.append(f"signal or look at {pid}")
            except (OSError, ZeroDivisionError, OverflowError):
                pass
    for path in ("/x", "/tmp/x", "/dev/x", "/dev/shm/x", "/usr/x", "/usr/lib/x", sys.prefix + "/x", sys.prefix + "/lib/x", os.__file__):
        for how in ("w", "a"):
            try:
                open(path, how).close()
                done.append(f"write {path}")
            except OSError:
                pass
    for act, name in (
        (lambda: os.setuid(0), "become root"), (lambda: os.mkdir("/m"), "make a folder"), (lambda: os.chroot("/"), "chroot"),
        (lambda: os.remove(os.__file__), "remove"), (lambda: os.memfd_create("x"), "memory file"),
        (lambda: resource.setrlimit(resource.RLIMIT_AS, (-1, -1)), "lift the memory limit"),
        (lambda: os.listdir("/etc"), "see /etc"), (lambda: os.listdir("/proc"), "see /proc"), (lambda: os.listdir("/home"), "see /home"),
        (lambda: os.listdir("/tmp"), "see /tmp"), (lambda: os.listdir(os.path.dirname(os.__file__) + "/site-packages")[0], "see site-packages"),
        (lambda: os.symlink("/etc", "/usr/lib/x"), "make a link"), (lambda: os.setgid(0), "become root's group"),
        (lambda: os.execv(sys.executable, ["x"]), "start a program"),
        (lambda: fcntl.fcntl(3, fcntl.F_SETOWN, os.getppid()), "signal by a file"),
        (lambda: fcntl.fcntl(3, 10, 9), "choose that signal"), (lambda: fcntl.ioctl(3, 0x8901, b"1234"), "signal by ioctl"),
        (lambda: os.setpriority(0, os.getppid(), 9), "slow the supervisor"),
        (lambda: resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (3, 3)), "limit the supervisor"),
    ):
        try:
            act()
            done.append(name)
        except (OSError, ValueError, IndexError):
            pass
    return done, sorted({*os.environ} - {"PWD"})
"""


def test_nothing_outside_can_be_reached(box, tmp_path):
    victim = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    secret = tmp_path / "secret"
    secret.write_text("x", encoding="utf-8")
    try:
        with box.open(REACH, ROOMY) as program:
            request = {"do": "call", "target": {"$ref": "attempts"}, "args": [[victim.pid, os.getpid()]], "kwargs": {}}
            line = program.ask(request | {"nonce": ""}).line
        assert '"value": {"$tuple": [[], ["LANG", "PYTHONHASHSEED"]]}' in line, line
        assert victim.poll() is None
        with box.open(f"def f():\n    return open({str(secret)!r}).read()", ROOMY) as program:
            line = program.ask({"do": "call", "target": {"$ref": "f"}, "args": [], "kwargs": {}, "nonce": ""}).line
        assert "FileNotFoundError" in line or "PermissionError" in line
    finally:
        victim.kill()
        victim.wait()


def test_ordinary_file_commands_still_work(box):
    program = "import fcntl, os\ndef f(x):\n    r, w = os.pipe()\n    os.set_blocking(r, False)\n    fcntl.fcntl(w, fcntl.F_GETFL)\n    return x + 1"
    assert run_tests(program, CALL, box, Limits())[0].passed


def test_threads_are_counted(box):
    if not box.count_processes:
        pytest.skip("as an ordinary user sandlock cannot count threads")
    bomb = (
        "import threading, time\nthreading.stack_size(32768)\ndef f(x):\n    n = 0\n    try:\n        while True:\n"
        "            threading.Thread(target=time.sleep, args=(9,), daemon=True).start()\n            n += 1\n"
        "    except RuntimeError:\n        return n > 5 and n < 40"
    )
    tests = CodeTests((CallTest("f", (3,), True),))
    assert run_tests(bomb, tests, box, Limits(memory_mb=1024))[0].passed


def test_one_spoiled_test_does_not_spoil_the_next(box):
    program = "import os\ndef f(x):\n    if x == 0:\n        os._exit(0)\n    if x == 1:\n        while True: pass\n    return x + 1"
    tests = CodeTests(tuple(CallTest("f", (x,), x + 1) for x in range(4)))
    verdicts = run_tests(program, tests, box, Limits(cpu_s=1, wall_s=10), stop_at_failure=False)
    assert [verdict.reason for verdict in verdicts] == ["crashed", "timeout", "passed", "passed"]
    stopped = run_tests(program, tests, box, Limits(cpu_s=1, wall_s=10))
    assert [verdict.reason for verdict in stopped] == ["crashed", "not_run", "not_run", "not_run"]


@pytest.mark.parametrize("kind", SANDBOXES)
def test_nothing_is_left_running(kind):
    before = descendants(os.getpid())
    program = "import threading, time\nthreading.Thread(target=time.sleep, args=(99,), daemon=True).start()\n" + RIGHT
    assert run_tests(program, CALL, kind(), ROOMY)[0].passed
    run_tests(ATTACKS["endless wait"][0], CALL, kind(), LIMITS)
    none_left(before)


@pytest.mark.parametrize("kind", SANDBOXES)
def test_nothing_is_left_when_we_are_killed(kind):
    code = (
        "import threading, os, time\nfrom tests.verifiers.bwrap import descendants\n"
        "from tests.verifiers.test_code_sandbox import *\n"
        "t = threading.Thread(target=run_tests, args=(ATTACKS['endless wait'][0], CALL, "
        f"{kind.__name__}(), Limits()))\n"
        "t.start()\ntime.sleep(1.5)\nprint(*descendants(os.getpid()), flush=True)\nos.kill(os.getpid(), 9)"
    )
    root = Path(__file__).parents[2]
    env = {**os.environ, "PYTHONPATH": str(root)}
    killed = subprocess.run([sys.executable, "-c", code], cwd=root, env=env, capture_output=True, text=True)
    assert killed.returncode == -9, killed.stderr
    pids = set(map(int, killed.stdout.split()))
    assert len(pids) >= 4, "bwrap and its first process, or sandlock; the runner, the supervisor, the program"
    wait_until_gone(pids)


def test_a_deadline_is_no_verdict(box):
    with pytest.raises(DeadlinePassed):
        run_tests(ATTACKS["endless wait"][0], CALL, box, LIMITS, deadline=time.monotonic() + 0.5)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may read the memory of the runner")
@pytest.mark.parametrize("kind", SANDBOXES)
def test_programs_of_one_sandbox_share_no_memory(kind):
    """Every program is forked from the runner, whose memory holds nothing of the programs before."""
    first = "def f(x):\n    return 'answer-' + str(6 * 7) * 50"
    before = descendants(os.getpid())
    with kind() as sandbox:
        with sandbox.open(first, Limits()) as program:
            line = program.ask({"do": "call", "target": {"$ref": "f"}, "args": [1], "kwargs": {}, "nonce": ""}).line
            assert "answer-4242" in line
        (runner,) = sandbox._idle
        assert run_tests(RIGHT, CALL, sandbox, Limits())[0].passed
        assert sandbox._idle == [runner], "the second program had the same runner"
        memory = memory_of(runner_pid(runner.process.pid))
        assert b"answer-" not in memory
        assert b"return x + 1" not in memory
        assert b"serve_program" in memory, "the search finds what is there"
    none_left(before)


def runner_pid(outermost):
    """The runner: the innermost process, once the supervisor of the last program has ended."""
    time.sleep(0.3)
    return max(descendants(outermost), key=lambda pid: len(descendants(pid)) == 0)


def memory_of(pid):
    chunks = []
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps, open(f"/proc/{pid}/mem", "rb") as memory:
        for line in maps:
            span, rights, *_ = line.split()
            start, end = (int(part, 16) for part in span.split("-"))
            if "rw" in rights:
                try:
                    memory.seek(start)
                    chunks.append(memory.read(end - start))
                except OSError:
                    continue
    return b"".join(chunks)


def test_without_bubblewrap_it_refuses(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(SandboxError, match="apt-get install bubblewrap.*unsafe-subprocess"):
        run_tests(RIGHT, CALL, choose_sandbox("bubblewrap"), LIMITS)


def test_a_sandbox_that_breaks_is_our_failure(monkeypatch, tmp_path):
    for script, message in (("echo no namespaces >&2; exit 1", "no namespaces"), ("exit 0", "ended unexpectedly")):
        fake = tmp_path / "bwrap"
        fake.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        fake.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        with pytest.raises(SandboxError, match=message):
            run_tests(RIGHT, CALL, Bubblewrap(), LIMITS)


def test_auto_is_bubblewrap_else_sandlock_else_an_error(monkeypatch):
    for kind in (Bubblewrap, SandlockBox):
        monkeypatch.setattr(kind, "command", UnsafeSubprocess.command)  # stands for one that works
    auto = importlib.import_module("stepgauge.verifiers.sandbox.choose")._strongest.__wrapped__
    assert auto(None) is Bubblewrap
    monkeypatch.setattr(Bubblewrap, "command", lambda self: ["/bin/sh", "-c", "echo no namespaces >&2; exit 1"])
    assert auto(None) is SandlockBox
    monkeypatch.setattr(SandlockBox, "command", lambda self: ["/bin/sh", "-c", "echo old kernel >&2; exit 1"])
    with pytest.raises(SandboxError, match=r"bubblewrap: .*no namespaces.*sandlock: .*old kernel"):
        auto(None)


def test_without_sandlock_it_refuses(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SandboxError, match="pip install 'stepgauge\\[sandlock\\]'"):
        run_tests(RIGHT, CALL, choose_sandbox("sandlock"), LIMITS)


def test_unknown_sandbox():
    with pytest.raises(
        ValueError, match="sandbox must be 'auto', 'bubblewrap', 'sandlock', 'unsafe-subprocess' or the URL"
    ):
        choose_sandbox("docker")


@pytest.mark.parametrize(
    ("limits", "message"), [({"cpu_s": 0}, "cpu_s"), ({"cpu_s": 9, "wall_s": 3}, "at least cpu_s")]
)
def test_limits_make_sense(limits, message):
    with pytest.raises(ValueError, match=message):
        Limits(**limits)


def test_the_plain_subprocess_gives_the_same_verdicts_on_code_that_means_no_harm():
    unsafe = choose_sandbox("unsafe-subprocess")
    assert unsafe.level == "unsafe-subprocess"
    for tests in (CALL, CHECK):
        assert run_tests(RIGHT, tests, unsafe, ROOMY)[0].passed
        assert not run_tests("def f(x):\n    return x", tests, unsafe, ROOMY)[0].passed
    assert run_tests(HONEST_SCRIPTS["plain"], SCRIPT, unsafe, ROOMY)[0].passed
    assert run_tests(ATTACKS["fork bomb"][0], CALL, unsafe, ROOMY)[0].reason == "raised"
    assert run_tests(ATTACKS["endless loop"][0], CALL, unsafe, LIMITS)[0].reason == "timeout"


def test_the_runner_has_no_imports_from_here():
    source = single_source("plain.py", "child.py", "runner.py")
    assert "stepgauge" not in source.replace("stepgauge.verifiers.sandbox", "")
    compile(source, "runner", "exec")
