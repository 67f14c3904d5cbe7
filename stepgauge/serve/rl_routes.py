"""Routes that RL trainers call: OpenRLHF's ``/get_reward``, slime's remote reward, NeMo-Gym's ``/verify``.

What could not be judged is never a 0. NeMo-Gym can mask a sample; the other two know only numbers, so there the request
is refused (409) unless its address says which number stands for "not judged": ``/get_reward?abstain=-1``.
"""

from __future__ import annotations

import json
import re
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from stepgauge.scoring import StepScores
from stepgauge.serve.judging import Judge
from stepgauge.serve.vllm_routes import PROBABILITIES, REFUSALS, Body

__all__ = ["rl_routes"]

END_OF_TURN = re.compile(r"(?:<\|[A-Za-z_]{1,30}\|>|</s>|<eos>|<end_of_turn>)\Z")
END_TOKENS = 8
NOT_JUDGED = 409
GOLD_FIELDS = ("expected_answer", "gold", "label", "answer")
Abstain = Annotated[
    float | None,
    Query(allow_inf_nan=False, description="What stands for 'not judged'; without it the request is refused."),
]
ScorerName = Annotated[str | None, Query(description="One of the server's scorers; the first by default.")]


class RewardRequest(Body):
    """OpenRLHF's: decoded prompt and response, the prompt again, and the gold answer, each a list."""

    query: list[str] = Field(examples=[["What is 3 * 12?\n3 * 12 = 36."]])
    prompts: list[str] | None = Field(None, examples=[["What is 3 * 12?\n"]])
    labels: list[str | FiniteFloat | None] | None = Field(None, examples=[["36"]])

    def rows(self) -> list[dict[str, Any]]:
        """One row a query; 400 where the lists differ in length."""
        for name in ("prompts", "labels"):
            given = getattr(self, name)
            if given is not None and len(given) != len(self.query):
                raise HTTPException(400, f"{len(self.query)} queries and {len(given)} {name}; they pair up")
        rows = []
        for index, query in enumerate(self.query):
            prompt = self.prompts[index] if self.prompts else ""
            row = {"problem": prompt, "text": _without_end(query.removeprefix(prompt))}
            if self.labels and self.labels[index] is not None:
                row["gold"] = str(self.labels[index])
            rows.append(row)
        return rows


class SlimeRequest(Body):
    """slime's: one sample. The prompt is a text or chat messages."""

    prompt: str | list[dict[str, Any]] = Field("", examples=["What is 3 * 12?"])
    response: str = Field(examples=["3 * 12 = 36."])
    label: str | FiniteFloat | None = Field(None, examples=["36"])

    def row(self) -> dict[str, Any]:
        """The sample as a row."""
        row = {"problem": _last_user_text(self.prompt), "text": _without_end(self.response)}
        return row if self.label is None else row | {"gold": str(self.label)}


class VerifyRequest(Body):
    """NeMo-Gym's: the request and the answer of the Responses API; the task's own fields come along and go back."""

    model_config = ConfigDict(extra="allow", strict=True)
    responses_create_params: dict[str, Any] = Field(examples=[{"input": "What is 3 * 12?"}])
    response: dict[str, Any] = Field(
        examples=[{"output": [{"type": "message", "content": [{"type": "output_text", "text": "3 * 12 = 36."}]}]}]
    )

    def row(self) -> dict[str, Any]:
        """The sample as a row; the gold answer is the first of expected_answer, gold, label, answer that is there."""
        row = {
            "problem": _last_user_text(self.responses_create_params.get("input", "")),
            "text": _output(self.response),
        }
        extra = self.model_extra or {}
        gold = next((extra[name] for name in GOLD_FIELDS if extra.get(name) is not None), None)
        return row if gold is None else row | {"gold": gold}


def rl_routes(judge: Judge) -> APIRouter:
    """The routes over the scorers of ``judge``."""
    routes = APIRouter(responses={**REFUSALS, NOT_JUDGED: {"description": "Not judged, and no number for that given"}})

    @routes.post("/get_reward", summary="Rewards for OpenRLHF")
    async def get_reward(
        body: RewardRequest, request: Request, scorer: ScorerName = None, abstain: Abstain = None
    ) -> dict[str, Any]:
        """Aggregates as rewards; scores (0 to 1, for dynamic filtering) only where they are probabilities."""
        name = judge.choose(scorer)
        scored = await judge.all_rows(request, name, body.rows())
        rewards = [_number(scores, abstain) for scores in scored]
        judged = sum(scores.status == "ok" for scores in scored)
        answer: dict[str, Any] = {"rewards": rewards, "extra_logs": {"not_judged": len(scored) - judged}}
        return answer | ({"scores": rewards} if judge.scorers[name].kind in PROBABILITIES else {})

    @routes.post("/slime", summary="One reward for slime's remote_rm")
    async def slime(body: SlimeRequest, request: Request, scorer: ScorerName = None, abstain: Abstain = None) -> float:
        """The aggregate, as a bare number."""
        return _number((await judge.all_rows(request, judge.choose(scorer), [body.row()]))[0], abstain)

    @routes.post("/verify", summary="Reward, mask and reason for NeMo-Gym")
    async def verify(body: VerifyRequest, request: Request, scorer: ScorerName = None) -> Response:
        """The request with reward; a sample that was not judged has mask_sample true, and says why."""
        name = judge.choose(scorer)
        echoed = _echo(body)
        result = (await judge.rows(request, name, [body.row()]))[0]
        scores = None if isinstance(result, str) else result[1]
        value = None if scores is None else scores.aggregate()
        failure: dict[str, str | None] = {"failure_kind": None, "failure_reason": None}
        if scores is None:
            failure = {"failure_kind": "unparsed", "failure_reason": str(result)}
        elif value is None:
            reason = str(scores.summary.get("reason"))
            failure = {"failure_kind": reason, "failure_reason": str(scores.summary.get("message", reason))}
        answer = echoed | {"reward": value or 0.0, "mask_sample": value is None} | failure
        return Response(json.dumps(answer), media_type="application/json")

    return routes


def _echo(body: BaseModel) -> dict[str, Any]:
    """The request as the answer repeats it; 400 for what strict JSON has no word for, or nested beyond writing."""
    try:
        echoed = body.model_dump()
        json.dumps(echoed, allow_nan=False)
    except (ValueError, RecursionError, TypeError) as error:
        raise HTTPException(400, f"the request cannot be written back as JSON: {type(error).__name__}") from error
    return echoed


def _without_end(text: str) -> str:
    """A response without the few tokens that end its turn; looks at its last characters only, whatever the length."""
    for _ in range(END_TOKENS):
        text = text.rstrip()
        found = END_OF_TURN.search(text, max(0, len(text) - 40))
        if found is None:
            break
        text = text[: found.start()]
    return text


def _number(scores: StepScores, abstain: float | None) -> float:
    value = scores.aggregate()
    if value is not None:
        return value
    if abstain is None:
        reason = scores.summary.get("message") or scores.summary.get("reason")
        raise HTTPException(
            NOT_JUDGED,
            f"not judged ({scores.status}: {reason}), and this protocol has no word for it; add ?abstain=NUMBER to the "
            "address to say which reward stands for that",
        )
    return abstain


def _last_user_text(prompt: Any) -> str:
    """A prompt as text: itself, or the last user turn of a chat."""
    if isinstance(prompt, str):
        return prompt
    turns = [turn for turn in prompt if isinstance(turn, dict)] if isinstance(prompt, list) else []
    content = next((turn.get("content") for turn in reversed(turns) if turn.get("role") == "user"), "")
    return _parts(content)


def _output(response: dict[str, Any]) -> str:
    """The text of a Responses API answer, without its reasoning."""
    items = response.get("output")
    messages = (
        [i for i in items if isinstance(i, dict) and i.get("type", "message") == "message"]
        if isinstance(items, list)
        else []
    )
    return "\n".join(_parts(message.get("content")) for message in messages)


def _parts(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))
