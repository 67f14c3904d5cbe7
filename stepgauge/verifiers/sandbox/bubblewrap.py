"""The bubblewrap sandbox: own namespaces, no network, a read-only file system with Python's own files and no others."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from stepgauge.verifiers.sandbox.local import (
    LIBRARIES,
    LocalSandbox,
    hidden_in,
    may_be_anyone,
    own_uid,
    python_command,
    python_folders,
)
from stepgauge.verifiers.sandbox.protocol import SandboxError

__all__ = ["Bubblewrap"]


class Bubblewrap(LocalSandbox):
    """Runs programs under ``bwrap``. Needs Linux on x86-64 and the bubblewrap package, as root or as a user.

    As root each program gets a user number of its own, which nothing else on the machine has; as a user the sandbox
    gets a user namespace. Either way the program has no capabilities and cannot get any.
    """

    level = "bubblewrap"
    count_processes = True

    def command(self) -> list[str]:
        """See ``LocalSandbox.command``."""
        return [*_bwrap(may_be_anyone()), *python_command()]

    def uid(self) -> int | None:
        """See ``LocalSandbox.uid``."""
        return own_uid()


def _bwrap(own_uid: bool) -> list[str]:
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        raise SandboxError(
            "bubblewrap is not installed: `apt-get install bubblewrap` (or dnf, pacman); or use a SandboxFusion "
            "server, sandbox='http://HOST:PORT'. It runs unprotected only if sandbox='unsafe-subprocess' asks for it"
        )
    command = [bwrap, "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    command += ["--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL"]
    for name, value in (("PYTHONHASHSEED", "0"), ("LANG", "C.UTF-8")):
        command += ["--setenv", name, value]
    if own_uid:  # the runner gives these up in every child, before the program starts
        command += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_KILL"]
    else:
        command += ["--unshare-user", "--uid", "65534", "--gid", "65534"]
    return [*command, *_files()]


def _files() -> list[str]:
    """The file system: C libraries, Python and its standard library, /dev/null; nothing in it can be written."""
    python = python_command()[0]
    options, made = [], set[str]()

    def show(path: str, how: str) -> None:
        for parent in reversed(list(map(str, Path(path).parents))[:-1]):
            if parent not in made:
                made.add(parent)
                options.extend(["--perms", "0755", "--dir", parent])
        options.extend([how, path, path])

    for path in python_folders():
        if os.path.islink(path) and path in LIBRARIES:
            options += ["--symlink", os.readlink(path), path]
        else:
            show(path, "--ro-bind")
            for hidden in hidden_in(path):
                options += ["--perms", "0755", "--tmpfs", hidden, "--remount-ro", hidden]
    show(python, "--ro-bind")
    show("/dev/null", "--dev-bind")
    return [*options, "--remount-ro", "/", "--chdir", "/"]
