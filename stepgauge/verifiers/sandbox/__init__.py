"""Sandboxes for hostile programs: bubblewrap, sandlock, a SandboxFusion server; only by name, a plain subprocess."""

from stepgauge.verifiers.sandbox.choose import choose_sandbox
from stepgauge.verifiers.sandbox.protocol import (
    DeadlinePassed,
    Limits,
    Program,
    Reply,
    Sandbox,
    SandboxError,
    TransportError,
)

__all__ = [
    "DeadlinePassed",
    "Limits",
    "Program",
    "Reply",
    "Sandbox",
    "SandboxError",
    "TransportError",
    "choose_sandbox",
]
