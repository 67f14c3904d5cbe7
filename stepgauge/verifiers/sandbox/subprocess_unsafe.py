"""A plain subprocess: NOT a sandbox. Only for code you would run yourself, and only where it is asked for by name."""

from __future__ import annotations

from stepgauge.verifiers.sandbox.local import LocalSandbox, python_command

__all__ = ["UnsafeSubprocess"]


class UnsafeSubprocess(LocalSandbox):
    """Runs programs as the current user. Time, memory and output are limited, and new processes, signals and sockets
    are refused; but a program reads every file that you can read, and can delete files that you can delete."""

    level = "unsafe-subprocess"
    count_processes = False

    def command(self) -> list[str]:
        """See ``LocalSandbox.command``."""
        return python_command()
