"""The sandlock sandbox: Landlock, seccomp and a supervisor, without namespaces; for machines without bubblewrap."""

from __future__ import annotations

import importlib.util
import json
import os
import sys

from stepgauge.verifiers.sandbox.local import (
    LocalSandbox,
    hidden_in,
    may_be_anyone,
    own_uid,
    python_command,
    python_folders,
)
from stepgauge.verifiers.sandbox.protocol import SandboxError

__all__ = ["SandlockBox"]

# The supervisor: a process of its own, which dies with its sandbox and never sees a program.
_LAUNCH = """
import ctypes, json, os, sys
ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG: die with the parent
packages, policy, command = json.loads(sys.argv[1])
sys.path.append(packages)
os.environ["HOME"] = "/"  # sandlock wants one
import sandlock
have, need = sandlock.landlock_abi_version(), sandlock.min_landlock_abi()
if have < need:
    sys.exit(f"sandlock needs Landlock ABI {need} (Linux 6.12), this kernel has {have}")
sys.exit(sandlock.Sandbox(**policy).run_interactive(command))
"""


class SandlockBox(LocalSandbox):
    """Runs programs under sandlock. Needs Linux 6.12 on x86-64 and the package ``sandlock``, as root or as a user.

    As root each program gets a user number of its own, which nothing else on the machine has.
    """

    level = "sandlock"

    def __init__(self) -> None:
        super().__init__()
        self.count_processes = may_be_anyone()

    def command(self) -> list[str]:
        """See ``LocalSandbox.command``."""
        package = importlib.util.find_spec("sandlock")
        if package is None or package.origin is None:
            raise SandboxError("sandlock is not installed: `pip install 'stepgauge[sandlock]'`")
        packages = os.path.dirname(os.path.dirname(package.origin))
        command = python_command()
        policy = {
            "fs_readable": [*python_folders(), command[0]],
            "fs_writable": ["/dev/null"],
            "fs_denied": [hidden for folder in python_folders() for hidden in hidden_in(folder)],
            "clean_env": True,
            "env": {"PYTHONHASHSEED": "0", "LANG": "C.UTF-8"},
            "cwd": "/",
        }
        return [sys.executable, "-I", "-S", "-B", "-c", _LAUNCH, json.dumps([packages, policy, command])]

    def uid(self) -> int | None:
        """See ``LocalSandbox.uid``."""
        return own_uid()
