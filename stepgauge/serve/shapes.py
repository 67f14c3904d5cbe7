"""Requests and answers of the routes: ours, and those that clients of vLLM send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, Field

from stepgauge.data import from_row, scores_to_row
from stepgauge.scoring import KINDS, Rollout, StepScores

__all__ = ["PoolingRequest", "ScoreRequest", "TextScoreRequest", "class_data", "pooling_data", "score_result"]

PROBABILITIES = ("correctness", "value")
EXAMPLE = {"problem": "What is 3 * 12 + 1?", "steps": ["3 * 12 = 36.", "36 + 1 = 38. The answer is 38."], "gold": "37"}


class ScoreRequest(BaseModel):
    """Rollouts to score. A rollout is an object like a row of a file: ``problem`` and ``steps`` (or ``text``)."""

    rollouts: list[dict[str, Any]] = Field(examples=[[EXAMPLE]])
    scorer: str | None = Field(None, description="One of the server's scorers; the first by default.", examples=[None])
    deadline_s: float | None = Field(
        None, gt=0, le=3600, description="What is not scored by then is an error 'timeout'.", examples=[30]
    )


class PoolingRequest(BaseModel):
    """vLLM's ``/pooling`` and ``/classify``: texts, or one conversation."""

    input: str | list[str] | None = Field(None, examples=["3 * 12 = 36.\n\n36 + 1 = 38."])
    messages: list[dict[str, Any]] | None = None
    model: str | None = Field(None, description="One of the server's scorers.", examples=[None])

    def rows(self) -> list[dict[str, Any]]:
        """The texts as rows; ValueError where there are none, or both kinds."""
        if (self.input is None) == (self.messages is None):
            raise ValueError("give either input (a text or a list of texts) or messages, not both and not neither")
        if self.messages is not None:
            return [{"messages": self.messages}]
        texts = [self.input] if isinstance(self.input, str) else self.input or []
        return [{"text": text} for text in texts]


class TextScoreRequest(BaseModel):
    """vLLM's ``/score``: problems (``text_1`` or ``queries``) and responses (``text_2`` or ``documents``)."""

    text_1: str | list[str] | None = Field(None, examples=["What is 3 * 12 + 1?"])
    text_2: str | list[str] | None = Field(None, examples=[["3 * 12 = 36. 36 + 1 = 37.", "3 * 12 = 35."]])
    queries: str | list[str] | None = None
    documents: str | list[str] | None = None
    model: str | None = Field(None, description="One of the server's scorers.", examples=[None])

    def rows(self) -> list[dict[str, Any]]:
        """One row a response; a single problem stands for all. ValueError where counts differ or a side is missing."""
        problems = _texts(self.queries if self.text_1 is None else self.text_1, "queries")
        responses = _texts(self.documents if self.text_2 is None else self.text_2, "documents")
        if len(problems) == 1:
            problems = problems * len(responses)
        if len(problems) != len(responses):
            raise ValueError(
                f"queries and documents pair up, or there is one query; got {len(problems)} and {len(responses)}"
            )
        return [{"problem": problem, "text": response} for problem, response in zip(problems, responses, strict=True)]


def _texts(value: str | list[str] | None, name: str) -> list[str]:
    if value is None:
        raise ValueError(f"{name} is missing")
    return [value] if isinstance(value, str) else value


def read_rows(rows: Sequence[Mapping[str, Any]]) -> list[Rollout | str]:
    """Each row as a rollout, or what is wrong with it."""
    found: list[Rollout | str] = []
    for row in rows:
        try:
            found.append(from_row(row))
        except (ValueError, TypeError) as error:
            found.append(str(error))
    return found


def score_result(rollout: Rollout | str, scorer: str, scores: StepScores | None) -> dict[str, Any]:
    """One result of ``/v1/score``; a row that could not be read is an error of its own."""
    if isinstance(rollout, str) or scores is None:
        return {"id": "", "scorer": scorer, "status": "error", "values": [], "aggregate": None} | {
            "summary": {"reason": "unparsed", "message": str(rollout)}
        }
    return scores_to_row(rollout, scorer, scores)


def pooling_data(index: int, scores: StepScores) -> dict[str, Any]:
    """One entry of ``/pooling``: a list a step, [1 - p, p] for probabilities, else [value]; null = not scored."""
    pairs = scores.kind in PROBABILITIES
    data = [None if v is None else [1 - v, v] if pairs else [v] for v in scores.values]
    return {"index": index, "object": "pooling", "data": data, "status": scores.status}


def class_data(index: int, scores: StepScores) -> dict[str, Any]:
    """One entry of ``/classify``: the whole rollout by the scorer's usual aggregate and threshold.

    Raises:
        ValueError: the scores are no probabilities.
    """
    if scores.kind not in PROBABILITIES:
        raise ValueError(f"/classify needs probabilities, and this scorer gives {scores.kind}; use /pooling or /score")
    value = scores.aggregate()
    if value is None:
        return {"index": index, "label": scores.status, "probs": None, "num_classes": 2}
    label = "right" if value >= (KINDS[scores.kind].threshold or 0.5) else "wrong"
    return {"index": index, "label": label, "probs": [1 - value, value], "num_classes": 2}
