"""``stepgauge serve``."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from stepgauge.cli.common import ScorerOption, load_scorers

LOCAL = ("127.0.0.1", "::1", "localhost")


def serve_command(
    scorer: ScorerOption = "embedded",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=0, max=65535)] = 8000,
    token: Annotated[
        str | None,
        typer.Option(help="Bearer token that requests must carry; better given as $STEPGAUGE_TOKEN."),
    ] = None,
    max_queue: Annotated[int, typer.Option(min=1, help="Rollouts that may wait; then 503 with Retry-After.")] = 4096,
    max_tokens: Annotated[int, typer.Option(min=1, help="About how many tokens one batch holds.")] = 32_768,
    deadline: Annotated[float, typer.Option(min=0.001, help="Seconds a request may take unless it says.")] = 120.0,
) -> None:
    """Serve scorers over HTTP: POST /v1/score, vLLM's /pooling, /classify and /score; /health, /metrics, /docs.

    A token is needed to listen on another address than this machine's own.

    \b
    Example:
        STEPGAUGE_TOKEN=secret stepgauge serve --scorer arithmetic,math --port 8000
        curl -H 'Authorization: Bearer secret' -H 'Content-Type: application/json' localhost:8000/v1/score \\
             -d '{"rollouts": [{"problem": "3*12+1?", "steps": ["3*12 = 36.", "36+1 = 38."]}]}'
    """
    try:
        import uvicorn

        from stepgauge.serve import create_app
    except ImportError as error:
        raise ImportError(f"the server needs {error.name}; run: pip install 'stepgauge[serve]'") from error
    token = token or os.environ.get("STEPGAUGE_TOKEN") or None
    if token is None and host not in LOCAL:
        raise ValueError(f"--host {host} can be reached by others; set STEPGAUGE_TOKEN, or listen on 127.0.0.1")
    app = create_app(load_scorers(scorer), token=token, max_queue=max_queue, max_tokens=max_tokens, deadline_s=deadline)
    uvicorn.run(app, host=host, port=port, log_level="info", access_log=False, timeout_graceful_shutdown=30)
