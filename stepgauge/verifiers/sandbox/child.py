"""What runs in a child of the runner: it gives up its rights, then runs the program under test or trusted test code.

Runs inside the sandbox, so it imports the standard library only.
"""

from __future__ import annotations

import builtins
import ctypes
import json
import os
import resource
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

from stepgauge.verifiers.sandbox.plain import decode, encode

TAIL = 2_000  # characters of messages that are handed on


def confine(setup: dict[str, Any]) -> None:
    """Give up, for good, everything the program under test must not have. Raises OSError where that fails."""
    limits, uid = setup["limits"], setup["uid"]
    caps = [(resource.RLIMIT_AS, limits["memory_mb"] * 2**20), (resource.RLIMIT_NOFILE, 64)]
    caps += [(resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0)]
    if setup["count_processes"]:
        caps.append((resource.RLIMIT_NPROC, limits["processes"]))
    for name, value in caps:
        resource.setrlimit(name, (value, value))
    if uid is not None:
        prctl(8, 1)  # PR_SET_KEEPCAPS: what is kept is decided below
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    drop_capabilities()
    prctl(1, 9)  # PR_SET_PDEATHSIG: die with the runner
    prctl(38, 1)  # PR_SET_NO_NEW_PRIVS
    rules = bytes.fromhex(setup["seccomp"])
    buffer = ctypes.create_string_buffer(rules, len(rules))

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("rules", ctypes.c_void_p)]

    program = Program(len(rules) // 8, ctypes.addressof(buffer))
    prctl(22, 2, ctypes.addressof(program))  # PR_SET_SECCOMP, filter


def drop_capabilities() -> None:
    """Give up all capabilities but CAP_DAC_READ_SEARCH, if held: Python itself may lie where only root can read."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3, this process
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; then their upper halves
    read_search = 1 << 2
    if libc.capget(header, sets) == 0:
        kept = sets[1] & read_search
        if libc.capset(header, (ctypes.c_uint32 * 6)(kept, kept)) == 0:
            return
    raise OSError(ctypes.get_errno(), "the capabilities could not be dropped")


def prctl(option: int, first: int, second: int = 0) -> None:
    """The system call. Raises OSError where it is refused."""
    call = ctypes.CDLL(None, use_errno=True).prctl
    call.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    if call(option, first, second, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) refused")


def load_module(name: str, source: str) -> dict[str, Any]:
    """Run source text as module ``name`` and return its names."""
    module = types.ModuleType(name)
    sys.modules[name] = module
    sys.argv = [name]
    run_source(source, f"<{name}>", module.__dict__)
    return module.__dict__


def run_source(source: str, label: str, names: dict[str, Any]) -> None:
    """Execute source text: here, in a confined process, and nowhere else."""
    exec(compile(source, label, "exec", dont_inherit=True), names)  # noqa: S102


def run_script(source: str) -> int:
    """Run the program as ``__main__`` on the process's own stdin and stdout; the exit code."""
    code = 0
    try:
        load_module("__main__", source)
        threading._shutdown()  # type: ignore[attr-defined]  # waits for its threads, as the end of a script does
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 1
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        code = code or 1
    return code & 0xFF


class Answers:
    """Answers requests about the loaded program: call a function, read an attribute, list an iterable."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.names: dict[str, Any] | None = None
        self.kept: list[Any] = []

    def keep(self, value: Any) -> dict[str, Any]:
        """Keep what is not plain data here; only its number goes out."""
        self.kept.append(value)
        return {"$ref": len(self.kept) - 1, "type": type(value).__name__}

    def find(self, reference: dict[str, Any]) -> Any:
        """The kept object, or what the program calls by that name; a method of ``Solution`` counts as a function."""
        key = reference["$ref"]
        if isinstance(key, int):
            return self.kept[key]
        names = self.names or {}
        if key in names:
            return names[key]
        if "Solution" in names and hasattr(names["Solution"], key):
            return getattr(names["Solution"](), key)
        raise NameError(f"the program does not define {key!r}")

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Never raises: an exception of the program is an answer too."""
        phase = "load"
        try:
            if self.names is None:
                self.names = load_module("program", self.source)
            phase = "call"
            found = self.find(request["target"])
            if "attr" in request:
                found = getattr(found, request["attr"])
            if request["do"] == "list":
                return {"value": encode(list(found), self.keep)}
            if request["do"] == "get":
                return {"value": encode(found, self.keep)}
            args = decode(request["args"], self.find)
            value = found(*args, **decode(request["kwargs"], self.find))
            return {"value": encode(value, self.keep), "args": encode(args, self.keep)}
        except BaseException as error:
            return {"raised": type(error).__name__, "text": str(error)[:TAIL], "phase": phase}


def serve_program(source: str) -> None:
    """Load the program, read request lines on fd 3 and write answer lines on fd 4 until the runner is gone."""
    answers = Answers(source)
    with os.fdopen(3, "rb") as requests, os.fdopen(4, "wb", buffering=0) as out:
        for line in requests:
            request = json.loads(line)
            answer = answers.answer(request) | {"nonce": request["nonce"]}
            data = json.dumps(answer).encode("ascii") + b"\n"
            while data:
                data = data[out.write(data) :]


class ProgramError(Exception):
    """The program under test raised an exception of its own."""


class Remote:
    """A function or object of the program under test, seen from the tests: it can be used, never compared."""

    def __init__(self, ask: Callable[[dict[str, Any]], Any], key: str | int) -> None:
        self._ask = ask
        self._key = key

    def _request(self, do: str, **more: Any) -> Any:
        return self._ask({"do": do, "target": {"$ref": self._key}, **more})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._request("call", args=list(args), kwargs=kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._request("get", attr=name)

    def __iter__(self) -> Any:
        return iter(self._request("list"))

    def __len__(self) -> int:
        return int(self._special("__len__"))

    def __getitem__(self, key: Any) -> Any:
        return self._special("__getitem__", key)

    def _special(self, name: str, *args: Any) -> Any:
        try:
            return self._request("call", attr=name, args=list(args), kwargs={})
        except AttributeError as error:
            raise TypeError(str(error)) from error  # what Python says of an object without it

    def _refuse(self, *_: Any) -> Any:
        raise TypeError("the program returned an object that is not plain data; it cannot be compared")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __contains__ = _refuse
    __hash__ = object.__hash__


class Checks:
    """Runs trusted test code; its calls to the program under test go through the parent to another process."""

    def __init__(self, setup: str) -> None:
        self.setup = setup
        self.requests = os.fdopen(3, "rb")
        self.out = os.fdopen(4, "wb", buffering=0)

    def send(self, message: dict[str, Any]) -> None:
        """One line to the parent."""
        data = json.dumps(message).encode("ascii") + b"\n"
        while data:
            data = data[self.out.write(data) :]

    def ask(self, request: dict[str, Any]) -> Any:
        """Ask the program; raises what it raised, as far as that is a built-in exception."""
        args = request.get("args", [])
        values = {name: encode(request[name], pack) for name in ("args", "kwargs") if name in request}
        self.send({"ask": request | values})
        answer = json.loads(self.requests.readline())
        if "raised" in answer:
            raise raised(answer["raised"], answer["text"])
        for mine, after in zip(args, self.unpack(answer.get("args", [])), strict=False):
            update(mine, after)
        return self.unpack(answer["value"])

    def unpack(self, data: Any) -> Any:
        """Plain data, with a ``Remote`` for each object that stayed in the program."""
        return decode(data, lambda reference: Remote(self.ask, reference["$ref"]))

    def run(self, test: dict[str, Any]) -> dict[str, Any]:
        """Run one test; passed = its code reached the end."""
        names = types.ModuleType("tests").__dict__
        try:
            run_source(self.setup, "<setup>", names)
            names.update({name: Remote(self.ask, name) for name in test["names"]})
            run_source(test["check"], "<test>", names)
        except BaseException as error:
            return {"passed": False, "raised": type(error).__name__, "text": str(error)[:TAIL]}
        return {"passed": True}


def pack(value: Any) -> Any:
    """How the tests hand a ``Remote`` back to the program; nothing else that is not plain data can cross."""
    if isinstance(value, Remote):
        return {"$ref": value._key}
    raise TypeError(f"a test passes a {type(value).__name__} to the program; only plain data can cross")


def raised(name: str, text: str) -> Exception:
    """The exception that the program raised, in the process of the tests; never one that would end a loop of theirs."""
    kind = getattr(builtins, name, None)
    ends_loops = name in ("StopIteration", "StopAsyncIteration")
    if isinstance(kind, type) and issubclass(kind, Exception) and not ends_loops:
        try:
            return kind(text)
        except TypeError:
            pass
    return ProgramError(f"{name}: {text}")


def update(mine: Any, after: Any) -> None:
    """Let a list, dict or set that the program changed in place change here too."""
    if type(mine) is not type(after):
        return
    if isinstance(mine, list):
        mine[:] = after
    elif isinstance(mine, (dict, set)):
        mine.clear()
        mine.update(after)


def serve_checks(setup: str) -> None:
    """Run the tests that come in on fd 3, until the runner is gone."""
    checks = Checks(setup)
    for line in checks.requests:
        checks.send(checks.run(json.loads(line)))
