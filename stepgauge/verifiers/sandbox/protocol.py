"""What a sandbox is: it opens a program, and the open program is asked to run or to call its functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self

__all__ = ["DeadlinePassed", "Limits", "Program", "Reply", "Sandbox", "SandboxError", "TransportError"]


class SandboxError(RuntimeError):
    """The sandbox itself failed or is missing: no verdict about the program follows from it."""


class TransportError(SandboxError):
    """A sandbox on another machine could not be reached, or answered nonsense."""


class DeadlinePassed(Exception):
    """The caller's deadline passed before the program was through: no verdict either."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one test may use.

    Args:
        cpu_s: CPU seconds, all threads together; this is the time limit.
        wall_s: seconds on the clock; stops a program that only waits. Keep it above ``cpu_s``: a busy machine is slow.
        memory_mb: address space, MB; an allocation beyond it raises MemoryError in the program.
        processes: threads (new processes are always refused).
        output_kb: kilobytes that the program may write (or return) in one test.

    Raises:
        ValueError: a limit that is not positive, or ``wall_s`` below ``cpu_s``.
    """

    cpu_s: float = 5.0
    wall_s: float = 15.0
    memory_mb: int = 512
    processes: int = 32
    output_kb: int = 1024

    def __post_init__(self) -> None:
        for name in ("cpu_s", "wall_s", "memory_mb", "processes", "output_kb"):
            if not getattr(self, name) > 0:
                raise ValueError(f"Limits.{name} must be positive, got {getattr(self, name)!r}")
        if self.wall_s < self.cpu_s:
            raise ValueError(
                f"Limits.wall_s must be at least cpu_s: got wall_s={self.wall_s:g}, cpu_s={self.cpu_s:g}; "
                "a program that computes needs at least as much time on the clock"
            )


@dataclass(frozen=True, slots=True)
class Reply:
    """What a program did with one request.

    ``state``: "ended" (it came to its end; ``code`` is its exit code, negative for a signal), "line" (it answered with
    ``line``), "timeout" or "output_limit". ``out`` and ``err`` are its output, ``err`` cut to the last 2,000 bytes.
    """

    state: Literal["ended", "line", "timeout", "output_limit"]
    code: int | None = None
    line: str = ""
    out: str = ""
    err: str = ""
    cpu_s: float = 0.0
    wall_s: float = 0.0


class Program(Protocol):
    """A program in a sandbox. Use with ``with``; at its end nothing of the program is left running."""

    def run(self, stdin: str) -> Reply:
        """Run it as a script with this standard input."""
        ...

    def ask(self, request: dict[str, Any], *, cpu_s: float | None = None, wall_s: float | None = None) -> Reply:
        """Have its functions answer a request (see ``child.Answers``); the limits may be lowered for this one."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...


class Sandbox(Protocol):
    """A way to run hostile programs; for one thread. In ``with`` it may keep what it started for the next program."""

    @property
    def level(self) -> str:
        """What runs the programs, for people: "bubblewrap", "sandlock", "unsafe-subprocess"."""
        ...

    def open(self, source: str, limits: Limits, *, trusted: bool = False, deadline: float | None = None) -> Program:
        """Open a program.

        Args:
            source: its text.
            limits: for each test.
            trusted: the source is test code, which asks another program; see ``child.Checks``.
            deadline: on the ``time.monotonic`` clock; from then on every call raises DeadlinePassed.

        Raises:
            SandboxError: the sandbox is missing or failed, here or in any later call.
        """
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...
