"""The routes. ``create_app`` puts scorers behind them; ``stepgauge serve`` runs it."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse, Response

from stepgauge import __version__
from stepgauge.loading import SCORERS
from stepgauge.scoring import Rollout, Scorer, StepScores
from stepgauge.serve.batcher import Batcher, QueueFull
from stepgauge.serve.guards import Guard
from stepgauge.serve.metrics import Metrics
from stepgauge.serve.shapes import (
    PoolingRequest,
    ScoreRequest,
    TextScoreRequest,
    class_data,
    pooling_data,
    read_rows,
    score_result,
)

__all__ = ["create_app"]

GONE_CHECK_S = 0.25
CLIENT_GONE = 499  # nobody reads it


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
        token: bearer token that every route but ``/health`` and ``/metrics`` asks for; None = open.
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
    batchers = {
        name: Batcher(scorer, max_tokens=max_tokens, max_queue=max_queue, on_batch=partial(metrics.batch, name))
        for name, scorer in scorers.items()
    }
    for name, batcher in batchers.items():
        metrics.watch_queue(name, partial(_waiting, batcher))

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        for batcher in batchers.values():
            batcher.start()
        yield
        for batcher in batchers.values():
            await batcher.close()

    app = FastAPI(
        title="stepgauge",
        version=__version__,
        description="Process reward models and verifiers: scores for every step of a reasoning trace.",
        lifespan=lifespan,
        max_body_size=int(max_body_mb * 2**20),
    )
    app.add_middleware(Guard, token=token, metrics=metrics)
    default = next(iter(scorers))

    def choose(name: str | None) -> str:
        if name is not None and name not in batchers:
            known = ", ".join(batchers)
            raise HTTPException(404, f"this server has no scorer {name!r}; it has {known}")
        return name or default

    async def judge(
        request: Request, name: str, rows: Sequence[Mapping[str, Any]], deadline: float | None
    ) -> list[tuple[Rollout | str, StepScores | None]]:
        """Every row with its scores, or with what is wrong with it."""
        if len(rows) > max_rollouts:
            raise HTTPException(413, f"{len(rows)} rollouts in one request; at most {max_rollouts}, send several")
        read = read_rows(rows)
        good = [rollout for rollout in read if isinstance(rollout, Rollout)]
        work = asyncio.ensure_future(batchers[name].score(good, deadline_s=deadline or deadline_s))
        try:
            while not (await asyncio.wait({work}, timeout=GONE_CHECK_S))[0]:
                if await request.is_disconnected():
                    raise HTTPException(CLIENT_GONE)
            scored = iter(work.result())
        except QueueFull as full:
            headers = {"Retry-After": str(full.retry_after_s)}
            raise HTTPException(503, str(full), headers=headers) from None
        finally:
            work.cancel()
            with suppress(asyncio.CancelledError, QueueFull):
                await work
        results = [(rollout, next(scored) if isinstance(rollout, Rollout) else None) for rollout in read]
        for _, scores in results:
            metrics.rollout(name, "unparsed" if scores is None else scores.status)
        return results

    async def judge_texts(request: Request, body: PoolingRequest | TextScoreRequest) -> tuple[str, list[StepScores]]:
        """The same for vLLM's shapes, where a bad text spoils its request."""
        name = choose(body.model)
        try:
            rows = body.rows()
        except ValueError as error:
            raise HTTPException(400, str(error)) from error
        results = await judge(request, name, rows, None)
        bad = next((rollout for rollout, scores in results if scores is None), None)
        if bad is not None:
            raise HTTPException(400, str(bad))
        return name, [scores for _, scores in results if scores is not None]

    @app.post("/v1/score", summary="Score rollouts", responses={404: {}, 413: {}, 503: {}})
    async def score(body: ScoreRequest, request: Request) -> dict[str, Any]:
        """Each step's score, rollouts in order. One that cannot be read or scored says why; the rest go on."""
        name = choose(body.scorer)
        results = await judge(request, name, body.rollouts, body.deadline_s)
        return {"scorer": name, "results": [score_result(rollout, name, scores) for rollout, scores in results]}

    @app.post("/pooling", summary="Step scores in vLLM's shape", responses={400: {}, 404: {}, 413: {}, 503: {}})
    async def pooling(body: PoolingRequest, request: Request) -> dict[str, Any]:
        """A list for each step: [1 - p, p] where scores are probabilities, else [value]; null where not scored."""
        name, scored = await judge_texts(request, body)
        return _envelope("pool", name, [pooling_data(index, scores) for index, scores in enumerate(scored)])

    @app.post("/classify", summary="One label a text in vLLM's shape", responses={400: {}, 404: {}, 413: {}, 503: {}})
    async def classify(body: PoolingRequest, request: Request) -> dict[str, Any]:
        """Right or wrong by the scorer's aggregate and threshold; probs is null where it abstained."""
        name, scored = await judge_texts(request, body)
        try:
            return _envelope("classify", name, [class_data(index, scores) for index, scores in enumerate(scored)])
        except ValueError as error:
            raise HTTPException(400, str(error)) from error

    @app.post("/score", summary="One number a response in vLLM's shape", responses={400: {}, 404: {}, 413: {}, 503: {}})
    async def score_texts(body: TextScoreRequest, request: Request) -> dict[str, Any]:
        """The aggregate of each response to its problem; null where it could not be judged."""
        name, scored = await judge_texts(request, body)
        data = [
            {"index": index, "object": "score", "score": scores.aggregate(), "status": scores.status}
            for index, scores in enumerate(scored)
        ]
        return _envelope("score", name, data)

    @app.get("/v1/models", summary="The scorers of this server")
    async def models() -> dict[str, Any]:
        """Names, kinds and what they need."""
        rows = [
            {"id": name, "object": "model", "kind": scorer.kind, "needs": _needs(name)}
            for name, scorer in scorers.items()
        ]
        return {"object": "list", "data": rows}

    @app.get("/health", summary="Is the server up?")
    async def health() -> dict[str, str]:
        """Always 200 while the process answers."""
        return {"status": "ok"}

    @app.get("/metrics", summary="Counters for Prometheus", response_class=Response)
    async def prometheus() -> Response:
        """Requests, times, rollouts by status, batch sizes, queues."""
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> JSONResponse:
        """Never a bare 500 page: say what failed, in JSON, without a stack."""
        return JSONResponse({"detail": f"internal error: {type(error).__name__}"}, status_code=500)

    return app


def _waiting(batcher: Batcher) -> float:
    return float(batcher.waiting)


def _needs(name: str) -> str | None:
    info = SCORERS.get(name.partition(":")[0])
    return info.needs if info else None


def _envelope(prefix: str, model: str, data: list[dict[str, Any]]) -> dict[str, Any]:
    usage = {"prompt_tokens": 0, "total_tokens": 0, "completion_tokens": 0}
    created = int(time.time())
    return {"id": f"{prefix}-{uuid.uuid4().hex}", "object": "list", "created": created, "model": model} | {
        "data": data,
        "usage": usage,
    }
