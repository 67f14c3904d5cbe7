"""A reward server: scorers behind HTTP, shared by many trainers."""

from stepgauge.serve.app import create_app

__all__ = ["create_app"]
