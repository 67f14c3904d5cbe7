"""What stands before every route: bearer token, request ids, counted requests."""

from __future__ import annotations

import hmac
import re
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from stepgauge.serve.metrics import Metrics

__all__ = ["Guard"]

OPEN = ("/health", "/metrics")
REQUEST_ID = re.compile(rb"[\w.:-]{1,128}")

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Guard:
    """ASGI middleware: everything but ``/health`` and ``/metrics`` needs ``Authorization: Bearer TOKEN``, if set."""

    def __init__(self, app: Any, *, token: str | None, metrics: Metrics) -> None:
        self.app = app
        self.token = token
        self.metrics = metrics

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        given = headers.get(b"x-request-id", b"")
        request_id = given if REQUEST_ID.fullmatch(given) else secrets.token_hex(8).encode()
        started = time.monotonic()
        status = 500

        async def tagged(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", request_id)]
            await send(message)

        try:
            if self.token is None or scope["path"] in OPEN or self._knows(headers.get(b"authorization", b"")):
                await self.app(scope, receive, tagged)
            else:
                await _refuse(tagged)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            self.metrics.request(route, status, time.monotonic() - started)

    def _knows(self, header: bytes) -> bool:
        scheme, _, credential = header.partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(credential, str(self.token).encode())


async def _refuse(send: Send) -> None:
    body = b'{"detail":"this server needs the header Authorization: Bearer TOKEN"}'
    headers = [(b"content-type", b"application/json"), (b"www-authenticate", b"Bearer")]
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": body})
