"""The application: scorers behind routes. ``stepgauge serve`` runs it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import Field

from stepgauge import __version__
from stepgauge.data import scores_to_row
from stepgauge.loading import SCORERS
from stepgauge.scoring import Scorer
from stepgauge.serve.guards import Guard
from stepgauge.serve.judging import Judge
from stepgauge.serve.metrics import Metrics
from stepgauge.serve.page import add_page
from stepgauge.serve.rl_routes import rl_routes
from stepgauge.serve.vllm_routes import REFUSALS, Body, vllm_routes

__all__ = ["create_app"]

EXAMPLE = {"problem": "What is 3 * 12 + 1?", "steps": ["3 * 12 = 36.", "36 + 1 = 38. The answer is 38."], "gold": "37"}


class ScoreRequest(Body):
    """Rollouts to score, each an object like a row of a file: ``problem``, ``steps`` or ``text``, ``gold``, ``id``."""

    rollouts: list[dict[str, Any]] = Field(examples=[[EXAMPLE]])
    scorer: str | None = Field(None, description="One of the server's scorers; the first by default.", examples=[None])
    deadline_s: float | None = Field(
        None,
        gt=0,
        le=3600,
        allow_inf_nan=False,
        description="Seconds; what is not scored by then is an error 'timeout'.",
        examples=[30],
    )


def create_app(
    scorers: Mapping[str, Scorer],
    *,
    token: str | None = None,
    max_body_mb: float = 16,
    max_rollouts: int = 1024,
    max_queue: int = 4096,
    max_tokens: int = 32_768,
    deadline_s: float = 120.0,
) -> FastAPI:
    """An ASGI application that serves scorers.

    Args:
        scorers: by the name that requests use; the first is the default.
        token: bearer token that every route but ``/``, ``/health`` and ``/metrics`` asks for; None = open.
        max_body_mb: larger request bodies are refused (413).
        max_rollouts: rollouts of one request; more are refused (413).
        max_queue: rollouts that may wait for each scorer; then 503 with Retry-After.
        max_tokens: about how many tokens a batch holds.
        deadline_s: for requests that name none.

    Raises:
        ValueError: no scorer.

    Example:
        >>> from stepgauge import load
        >>> app = create_app({"arithmetic": load("arithmetic")}, token="secret")
        >>> app.title
        'stepgauge'
    """
    if not scorers:
        raise ValueError("create_app(scorers) needs at least one scorer, got none")
    metrics = Metrics()
    judge = Judge(
        scorers,
        metrics,
        max_rollouts=max_rollouts,
        max_queue=max_queue,
        max_tokens=max_tokens,
        deadline_s=deadline_s,
    )

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        judge.start()
        yield
        await judge.close()

    app = FastAPI(
        title="stepgauge",
        version=__version__,
        description="Process reward models and verifiers: scores for every step of a reasoning trace.",
        lifespan=lifespan,
        max_body_size=int(max_body_mb * 2**20),
    )
    app.add_middleware(Guard, token=token, metrics=metrics)
    add_page(app)
    app.include_router(vllm_routes(judge))
    app.include_router(rl_routes(judge))

    @app.post("/v1/score", summary="Score rollouts", responses=REFUSALS)
    async def score(body: ScoreRequest, request: Request) -> dict[str, Any]:
        """Each step's score, rollouts in order. One that cannot be read or scored says why; the rest go on."""
        name = judge.choose(body.scorer)
        results = await judge.rows(request, name, body.rollouts, body.deadline_s)
        return {
            "scorer": name,
            "results": [
                _unreadable(r, name) if isinstance(r, str) else scores_to_row(r[0], name, r[1]) for r in results
            ],
        }

    @app.get("/v1/models", summary="The scorers of this server")
    async def models() -> dict[str, Any]:
        """Names, kinds and what they need."""
        rows = [{"id": n, "object": "model", "kind": s.kind, "needs": _needs(n)} for n, s in scorers.items()]
        return {"object": "list", "data": rows}

    @app.get("/health", summary="Is the server up?")
    async def health() -> dict[str, str]:
        """Always 200 while the process answers."""
        return {"status": "ok"}

    @app.get("/metrics", summary="Counters for Prometheus", response_class=Response)
    async def prometheus() -> Response:
        """Requests, times, rollouts by status, batch sizes, queues."""
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        """What is wrong and where, without repeating the input, which may be huge or no JSON at all (NaN)."""
        detail = [{"loc": list(e["loc"]), "msg": e["msg"], "type": e["type"]} for e in error.errors()]
        return JSONResponse({"detail": detail}, status_code=422)

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> JSONResponse:
        """Say what failed, in JSON, without a stack."""
        return JSONResponse({"detail": f"internal error: {type(error).__name__}"}, status_code=500)

    return app


def _unreadable(problem: str, scorer: str) -> dict[str, Any]:
    summary = {"reason": "unparsed", "message": problem}
    return {"id": "", "scorer": scorer, "status": "error", "values": [], "aggregate": None, "summary": summary}


def _needs(name: str) -> str | None:
    info = SCORERS.get(name.partition(":")[0])
    return info.needs if info else None
