"""The last rung: sympy in a killable worker process with wall, CPU and memory limits; works from any thread,
async or child process.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import sys
import threading
from multiprocessing import context, forkserver, popen_forkserver
from typing import Any

from stepgauge.verifiers.symbolic.nodes import Node
from stepgauge.verifiers.symbolic.outcome import Outcome, different, equal, undecided

WALL_S = 2.5  # of one comparison, once its worker has started; a backstop for a loaded machine
CPU_S = 2  # of one comparison
MEMORY_BYTES = 3 << 30  # of address space, beyond what a fresh worker holds
TASKS_PER_WORKER = 64
WORKERS = min(2, os.cpu_count() or 1)  # one stopped comparison never holds up every thread
_PRELOAD = "sympy"
_LOCK = threading.Lock()
_pool: tuple[int, Any] | None = None  # process id, pool


class _Popen(popen_forkserver.Popen):
    """A fork-server child that never imports the user's ``__main__``: it needs none of it, and a script
    without a guard would run twice.
    """

    def _launch(self, process_obj: Any) -> None:
        main = sys.modules["__main__"]
        hidden: dict[str, Any] = {
            name: main.__dict__.pop(name) for name in ("__spec__", "__file__") if name in main.__dict__
        }
        main.__spec__ = None
        try:
            super()._launch(process_obj)  # type: ignore[misc]
        finally:
            main.__dict__.update(hidden)


class _Process(context.ForkServerProcess):
    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        return _Popen(process_obj)


class _Context(context.ForkServerContext):
    Process = _Process


def _context() -> _Context:
    """Workers fork from a server that holds sympy already; what the user asked it to preload stays."""
    found = _Context()
    wanted = getattr(forkserver._forkserver, "_preload_modules", [])
    if _PRELOAD not in wanted:
        found.set_forkserver_preload([*wanted, _PRELOAD])
    return found


def ask(a: Node, b: Node) -> Outcome:
    """Let sympy decide two formulas within the limits; ``undecided`` where it cannot or is stopped."""
    from concurrent.futures import TimeoutError as FutureTimeout

    from pebble import ProcessExpired

    first, second = sorted((a, b), key=repr)
    for attempt in (0, 1):
        try:
            verdict, reason = _current_pool().schedule(_compare, args=(first, second), timeout=WALL_S).result()
        except (FutureTimeout, TimeoutError):
            return undecided("sympy", "stopped after its seconds of wall time")
        except ProcessExpired:
            return undecided("sympy", "the worker reached a limit")
        except (RuntimeError, OSError) as error:  # the pool broke or belongs to a finished interpreter
            close()
            if attempt:
                return undecided("sympy", f"no worker: {error}")
            continue
        return {"equal": equal, "different": different}.get(verdict, undecided)("sympy", reason)
    raise AssertionError("unreachable")


def _current_pool() -> Any:
    """The pool of this process, started on first use and again after a fork."""
    global _pool
    with _LOCK:
        if _pool is None or _pool[0] != os.getpid():
            from pebble import ProcessPool

            config: dict[str, Any] = multiprocessing.current_process()._config  # type: ignore[attr-defined]
            if config.get("daemon"):
                config["daemon"] = (
                    False  # daemonic workers (data loaders, pools) may not have children; ours are killed with the pool
                )
            pool = ProcessPool(max_workers=WORKERS, max_tasks=TASKS_PER_WORKER, initializer=_limit, context=_context())
            _pool = (os.getpid(), pool)
        return _pool[1]


def close() -> None:
    """Stop the worker, if any; the next comparison starts a fresh one."""
    global _pool
    with _LOCK:
        owned, _pool = _pool, None
    if owned is not None and owned[0] == os.getpid():
        owned[1].stop()
        owned[1].join()


atexit.register(close)


def _limit() -> None:
    """In the worker: bound memory for its life, and pay for sympy's lazy imports before any task's clock starts."""
    import resource

    from stepgauge.verifiers.symbolic.sympy_rung import warm_up

    warm_up()
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = now + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def _compare(a: Node, b: Node) -> tuple[str, str]:
    """In the worker: decide two formulas, within the CPU time of one comparison."""
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + CPU_S + 1, hard))
    from stepgauge.verifiers.symbolic.sympy_rung import decide

    try:
        return decide(a, b)
    except (
        ArithmeticError,
        ValueError,
        TypeError,
        AttributeError,
        NotImplementedError,
        RecursionError,
        MemoryError,
        KeyError,
    ) as error:
        return "undecided", f"sympy: {type(error).__name__}"
