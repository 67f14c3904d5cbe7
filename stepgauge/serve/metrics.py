"""What the server counts, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

__all__ = ["Metrics"]

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """The counters of one server, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter("stepgauge_requests", "HTTP requests", ["route", "status"], registry=self.registry)
        self._seconds = Histogram(
            "stepgauge_request_seconds", "Time of a request", ["route"], buckets=SECONDS, registry=self.registry
        )
        self._rollouts = Counter("stepgauge_rollouts", "Rollouts scored", ["scorer", "status"], registry=self.registry)
        self._batch_size = Histogram(
            "stepgauge_batch_size",
            "Rollouts of a batch",
            ["scorer"],
            buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512),
            registry=self.registry,
        )
        self._batch_seconds = Histogram(
            "stepgauge_batch_seconds", "Time of a batch", ["scorer"], buckets=SECONDS, registry=self.registry
        )
        self._queue = Gauge("stepgauge_queue_rollouts", "Rollouts waiting", ["scorer"], registry=self.registry)

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count a finished request."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def rollout(self, scorer: str, status: str) -> None:
        """Count a scored rollout."""
        self._rollouts.labels(scorer, status).inc()

    def batch(self, scorer: str, size: int, seconds: float) -> None:
        """Count a batch."""
        self._batch_size.labels(scorer).observe(size)
        self._batch_seconds.labels(scorer).observe(seconds)

    def watch_queue(self, scorer: str, waiting: Callable[[], float]) -> None:
        """Show how many rollouts wait, read when asked."""
        self._queue.labels(scorer).set_function(waiting)

    def text(self) -> bytes:
        """Everything, in Prometheus' format."""
        return generate_latest(self.registry)
