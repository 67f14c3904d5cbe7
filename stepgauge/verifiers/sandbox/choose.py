"""Which sandbox: by name, or the strongest one that works here. Never a weaker one than was asked for."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from functools import cache
from typing import Self

from stepgauge.verifiers.sandbox.bubblewrap import Bubblewrap
from stepgauge.verifiers.sandbox.protocol import Limits, Program, Sandbox, SandboxError
from stepgauge.verifiers.sandbox.sandbox_fusion import SandboxFusion
from stepgauge.verifiers.sandbox.sandlock_box import SandlockBox
from stepgauge.verifiers.sandbox.subprocess_unsafe import UnsafeSubprocess

__all__ = ["Auto", "choose_sandbox"]


def choose_sandbox(spec: str = "auto") -> Sandbox:
    """The sandbox of that name.

    Args:
        spec: "auto": bubblewrap where it works, else sandlock; "bubblewrap"; "sandlock"; the URL of a SandboxFusion
            server; or "unsafe-subprocess", which protects nothing and which "auto" never takes.

    Raises:
        ValueError: an unknown name. A sandbox that is missing on this machine raises SandboxError when it is used.

    Example:
        >>> choose_sandbox("bubblewrap").level
        'bubblewrap'
    """
    if spec == "auto":
        return Auto()
    if spec == "bubblewrap":
        return Bubblewrap()
    if spec == "sandlock":
        return SandlockBox()
    if spec == "unsafe-subprocess":
        return UnsafeSubprocess()
    if spec.startswith(("http://", "https://")):
        return SandboxFusion(spec)
    raise ValueError(
        "sandbox must be 'auto', 'bubblewrap', 'sandlock', 'unsafe-subprocess' or the URL of a SandboxFusion server, "
        f"got {spec!r:.80}"
    )


class Auto:
    """Bubblewrap where it works, else sandlock; found out at first use. Raises SandboxError where neither works."""

    def __init__(self) -> None:
        self._chosen: Sandbox | None = None
        self._kept: ExitStack | None = None

    def _choose(self) -> Sandbox:
        if self._chosen is None:
            chosen = _strongest(shutil.which("bwrap"))()
            self._chosen = chosen if self._kept is None else self._kept.enter_context(chosen)
        return self._chosen

    @property
    def level(self) -> str:
        """See ``Sandbox.level``: that of the chosen one."""
        return self._choose().level

    def open(self, source: str, limits: Limits, *, trusted: bool = False, deadline: float | None = None) -> Program:
        """See ``Sandbox.open``."""
        return self._choose().open(source, limits, trusted=trusted, deadline=deadline)

    def __enter__(self) -> Self:
        self._kept = ExitStack()
        if self._chosen is not None:
            self._kept.enter_context(self._chosen)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._kept is not None:
            self._kept.close()
        self._kept = None


@cache
def _strongest(bwrap: str | None) -> type[Bubblewrap | SandlockBox]:
    """The first that runs a program; asked again only if it failed, or if there is another ``bwrap``."""
    failures = []
    for kind in (Bubblewrap, SandlockBox):
        try:
            with kind().open("print(1)", Limits()) as program:
                program.run("")
        except SandboxError as error:
            failures.append(f"{kind.level}: {error}")
        else:
            return kind
    raise SandboxError(f"no sandbox works here. {'. '.join(failures)}")
