"""Routes in the shapes that clients of vLLM send: ``/pooling``, ``/classify``, ``/score``."""

from __future__ import annotations

import time
import uuid
from typing import Any

from fastapi import APIRouter, HTTPException, Request
from pydantic import BaseModel, ConfigDict, Field

from stepgauge.scoring import KINDS, StepScores
from stepgauge.serve.judging import Judge

__all__ = ["vllm_routes"]

PROBABILITIES = ("correctness", "value")
REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"description": "A body or a text that cannot be read"},
    404: {"description": "No such scorer"},
    413: {"description": "Too much for one request"},
    503: {"description": "The queue is full; see Retry-After"},
}


class Body(BaseModel):
    """A request's body, its types taken at their word: ``true`` is no number, ``"3"`` neither."""

    model_config = ConfigDict(strict=True)


class PoolingRequest(Body):
    """Texts, or one conversation."""

    input: str | list[str] | None = Field(None, examples=["3 * 12 = 36.\n\n36 + 1 = 38."])
    messages: list[dict[str, Any]] | None = None
    model: str | None = Field(None, description="One of the server's scorers.", examples=[None])

    def rows(self) -> list[dict[str, Any]]:
        """The texts as rows."""
        if (self.input is None) == (self.messages is None):
            raise HTTPException(400, "give either input (a text or a list of texts) or messages")
        if self.messages is not None:
            return [{"messages": self.messages}]
        texts = [self.input] if isinstance(self.input, str) else self.input or []
        return [{"text": text} for text in texts]


class TextScoreRequest(Body):
    """Problems (``text_1`` or ``queries``) and responses (``text_2`` or ``documents``); one problem stands for all."""

    text_1: str | list[str] | None = Field(None, examples=["What is 3 * 12 + 1?"])
    text_2: str | list[str] | None = Field(None, examples=[["3 * 12 = 36. 36 + 1 = 37.", "3 * 12 = 35."]])
    queries: str | list[str] | None = None
    documents: str | list[str] | None = None
    model: str | None = Field(None, description="One of the server's scorers.", examples=[None])

    def rows(self) -> list[dict[str, Any]]:
        """One row a response."""
        problems = _texts(self.queries if self.text_1 is None else self.text_1, "queries")
        responses = _texts(self.documents if self.text_2 is None else self.text_2, "documents")
        if len(problems) == 1:
            problems = problems * len(responses)
        if len(problems) != len(responses):
            raise HTTPException(
                400, f"{len(problems)} queries and {len(responses)} documents; give as many, or one query"
            )
        return [{"problem": problem, "text": response} for problem, response in zip(problems, responses, strict=True)]


def _texts(value: str | list[str] | None, name: str) -> list[str]:
    if value is None:
        raise HTTPException(400, f"{name} is missing")
    return [value] if isinstance(value, str) else value


def vllm_routes(judge: Judge) -> APIRouter:
    """The routes over the scorers of ``judge``."""
    routes = APIRouter(responses=REFUSALS)

    @routes.post("/pooling", summary="Step scores in vLLM's shape")
    async def pooling(body: PoolingRequest, request: Request) -> dict[str, Any]:
        """A list for each step: [1 - p, p] where scores are probabilities, else [value]; null where not scored."""
        name = judge.choose(body.model)
        scored = await judge.all_rows(request, name, body.rows())
        return _answer("pool", name, [_pooled(scores) for scores in scored])

    @routes.post("/classify", summary="One label a text in vLLM's shape")
    async def classify(body: PoolingRequest, request: Request) -> dict[str, Any]:
        """Right or wrong by the scorer's aggregate and threshold; probs is null where it abstained or failed."""
        name = judge.choose(body.model)
        kind = judge.scorers[name].kind
        if kind not in PROBABILITIES:
            raise HTTPException(400, f"/classify needs probabilities, and {name} gives {kind}; use /pooling or /score")
        scored = await judge.all_rows(request, name, body.rows())
        return _answer("classify", name, [_class(scores) for scores in scored])

    @routes.post("/score", summary="One number a response in vLLM's shape")
    async def score(body: TextScoreRequest, request: Request) -> dict[str, Any]:
        """The aggregate of each response to its problem; null where it could not be judged."""
        name = judge.choose(body.model)
        scored = await judge.all_rows(request, name, body.rows())
        data = [{"object": "score", "score": scores.aggregate(), "status": scores.status} for scores in scored]
        return _answer("score", name, data)

    return routes


def _pooled(scores: StepScores) -> dict[str, Any]:
    pairs = scores.kind in PROBABILITIES
    data = [None if v is None else [1 - v, v] if pairs else [v] for v in scores.values]
    return {"object": "pooling", "data": data, "status": scores.status}


def _class(scores: StepScores) -> dict[str, Any]:
    value = scores.aggregate()
    if value is None:
        return {"label": scores.status, "probs": None, "num_classes": 2}
    threshold = KINDS[scores.kind].threshold
    assert threshold is not None  # of both probability kinds
    return {"label": "right" if value >= threshold else "wrong", "probs": [1 - value, value], "num_classes": 2}


def _answer(prefix: str, model: str, data: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": f"{prefix}-{uuid.uuid4().hex}",
        "object": "list",
        "created": int(time.time()),
        "model": model,
        "data": [{"index": index} | entry for index, entry in enumerate(data)],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},  # texts are not counted in tokens
    }
