"""What tests of the sandbox share."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from stepgauge.verifiers.sandbox.bubblewrap import Bubblewrap
from stepgauge.verifiers.sandbox.sandlock_box import SandlockBox

_SANDLOCK = "needs sandlock (pip install 'stepgauge[sandlock]') and Linux 6.12"


def _sandlock_works() -> bool:
    try:
        import sandlock
    except (ImportError, OSError):
        return False
    return bool(sandlock.landlock_abi_version() >= sandlock.min_landlock_abi())


needs_bwrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap: apt-get install bubblewrap")
needs_sandlock = pytest.mark.skipif(not _sandlock_works(), reason=_SANDLOCK)
SANDBOXES = [
    pytest.param(Bubblewrap, marks=needs_bwrap, id="bubblewrap"),
    pytest.param(SandlockBox, marks=needs_sandlock, id="sandlock"),
]


def _parent(folder: Path) -> int:
    """The parent of a process, 0 for one that is gone or a zombie."""
    try:
        fields = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] == "Z" else int(fields[1])


def descendants(pid: int) -> set[int]:
    """The processes below one, those in other process namespaces too."""
    parents = {int(folder.name): _parent(folder) for folder in Path("/proc").iterdir() if folder.name.isdigit()}
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def wait_until_gone(pids: set[int]) -> None:
    """Fail if a process is still alive after 5 s."""
    stop = time.monotonic() + 5
    while left := {pid for pid in pids if _parent(Path(f"/proc/{pid}")) != 0}:
        assert time.monotonic() < stop, f"still running: {left}"
        time.sleep(0.05)


def none_left(before: Iterable[int] = ()) -> None:
    """Fail if a sandbox below this process, other than those before, is still alive after 5 s."""
    wait_until_gone({pid for pid in descendants(os.getpid()) if b"serve_program" in _command(pid)}.difference(before))


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
