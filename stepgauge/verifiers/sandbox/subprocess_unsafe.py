"""A plain subprocess: NOT a sandbox. Only for code you would run yourself, and only where it is asked for by name."""

from __future__ import annotations

from stepgauge.verifiers.sandbox.local import LocalProgram, python_command
from stepgauge.verifiers.sandbox.protocol import Limits

__all__ = ["UnsafeSubprocess"]


class UnsafeSubprocess:
    """Runs programs as the current user. Time, memory and output are limited, and new processes, signals, sockets and
    writing files are refused; but a program reads every file that you can read."""

    level = "unsafe-subprocess"

    def open(
        self, source: str, limits: Limits, *, trusted: bool = False, deadline: float | None = None
    ) -> LocalProgram:
        """See ``Sandbox.open``."""
        return LocalProgram(
            python_command(), source, limits, trusted=trusted, uid=None, count_processes=False, deadline=deadline
        )
