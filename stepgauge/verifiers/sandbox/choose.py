"""Which sandbox: by name, or the strongest one that is here. Never a weaker one than was asked for."""

from __future__ import annotations

from stepgauge.verifiers.sandbox.bubblewrap import Bubblewrap
from stepgauge.verifiers.sandbox.protocol import Sandbox
from stepgauge.verifiers.sandbox.sandbox_fusion import SandboxFusion
from stepgauge.verifiers.sandbox.subprocess_unsafe import UnsafeSubprocess

__all__ = ["choose_sandbox"]


def choose_sandbox(spec: str = "bubblewrap") -> Sandbox:
    """The sandbox of that name.

    Args:
        spec: "bubblewrap"; the URL of a SandboxFusion server; or "unsafe-subprocess", which protects nothing.

    Raises:
        ValueError: an unknown name. A sandbox that is missing on this machine raises SandboxError when it is used.

    Example:
        >>> choose_sandbox().level
        'bubblewrap'
    """
    if spec == "bubblewrap":
        return Bubblewrap()
    if spec == "unsafe-subprocess":
        return UnsafeSubprocess()
    if spec.startswith(("http://", "https://")):
        return SandboxFusion(spec)
    raise ValueError(
        f"sandbox must be 'bubblewrap', 'unsafe-subprocess' or the URL of a SandboxFusion server, got {spec!r:.80}"
    )
