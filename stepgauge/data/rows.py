"""Rows to rollouts and back: the field names that files use, checked one row at a time."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from stepgauge.data.steps import locate, rollout_from_text
from stepgauge.scoring import Rollout, StepScores

__all__ = ["from_row", "scores_to_row", "to_row"]

_FIELDS = ("id", "problem", "steps", "gold", "text", "spans", "token_ids")
_PROBLEMS = ("problem", "question", "prompt")
_TEXTS = ("text", "response", "completion")


def from_row(row: Mapping[str, Any], *, gold_field: str | None = None, how: str = "auto", id: str = "") -> Rollout:
    """A ``Rollout`` from one row of a file.

    Args:
        row: {"problem", "steps", ...}, {"problem", "text" | "response" | "completion", ...} (the text is split) or
            {"messages": [{"role", "content"}, ...]}: the last user turn is the problem, the assistant turns after it
            are the steps (a single one is split). "question" and "prompt" name the problem too. Optional: "gold",
            "id" (else "problem_id/sample_id", else ``id``), "spans", "token_ids". All other columns go to ``meta``.
        gold_field: the column that holds the gold answer, if not "gold".
        how: the splitter, see ``stepgauge.data.split``.
        id: name of the rollout where the row gives none.

    Raises:
        ValueError: something missing, or wrong in value. TypeError: something of the wrong type.

    Example:
        >>> from_row({"problem": "1+1?", "text": "1+1 = 2.\\nThe answer is 2.", "gold": 2, "seed": 7})
        Rollout(id='', problem='1+1?', 2 steps, gold='2')
    """
    if not isinstance(row, Mapping):
        raise TypeError(f"a row must be an object with named fields, got {type(row).__name__}")
    rest = dict(row)
    meta = rest.pop("meta") if isinstance(rest.get("meta"), Mapping) else {}
    name = _take_id(rest, id)
    gold = _take_gold(rest, gold_field)
    token_ids = _take_integers(rest, "token_ids")
    if rest.get("messages") is not None and all(rest.get(field) is None for field in ("steps", *_TEXTS)):
        problem, steps, text = _chat(rest.pop("messages"))
    else:
        problem, steps, text = _take_string(rest, _PROBLEMS) or "", rest.pop("steps", None), _take_string(rest, _TEXTS)
    spans = _take_spans(rest)
    if steps is None and text is not None:
        rollout = rollout_from_text(problem, text, how=how, gold=gold, id=name, meta={**rest, **meta})
        rollout = rollout if token_ids is None else replace(rollout, token_ids=token_ids)
    else:
        steps = _check_steps(steps, text, rest)
        if text is not None and spans is None:
            spans = locate(text, steps)
        rollout = Rollout(problem, steps, gold, None, text, tuple(spans or ()), token_ids, name, {**rest, **meta})
    for field in ("problem", "response", "gold", "id"):
        _check_unicode(field, getattr(rollout, field))
    return rollout


def to_row(rollout: Rollout) -> dict[str, Any]:
    """The row that ``from_row`` turns into the same rollout; ``meta`` becomes columns of its own.

    A ``reference`` is written as its ``to_json()`` and is read back into ``meta``, for the scorer's module to rebuild.

    Example:
        >>> to_row(Rollout("1+1?", ("2",), gold="2", id="a", meta={"seed": 7}))
        {'id': 'a', 'problem': '1+1?', 'steps': ['2'], 'gold': '2', 'seed': 7}
    """
    row: dict[str, Any] = {"id": rollout.id, "problem": rollout.problem, "steps": list(rollout.steps)}
    if rollout.gold is not None:
        row["gold"] = rollout.gold
    if rollout.text is not None:
        row |= {"text": rollout.text, "spans": [list(span) for span in rollout.spans]}
    if rollout.token_ids is not None:
        row["token_ids"] = list(rollout.token_ids)
    if rollout.reference is not None:
        row["reference"] = rollout.reference.to_json()  # type: ignore[attr-defined]  # part of its contract
    clashing = {name: value for name, value in rollout.meta.items() if name in {*_FIELDS, *_TEXTS, "meta", *row}}
    row |= {name: value for name, value in rollout.meta.items() if name not in clashing}
    return row | ({"meta": clashing} if clashing else {})


def scores_to_row(rollout: Rollout, scorer: str, scores: StepScores) -> dict[str, Any]:
    """One record: the scores of one rollout by one scorer, as files and the server give them.

    ``first_error`` is None where the scorer does not know, or its kind has no threshold.

    Example:
        >>> row = scores_to_row(Rollout("1+1?", ("2",), id="a"), "math", StepScores((1.0,), "correctness"))
        >>> row["id"], row["values"], row["aggregate"], row["first_error"]
        ('a', [1.0], 1.0, -1)
    """
    known = scores.status == "ok" and (scores.error_step is not None or scores.kind not in ("credit", "confidence"))
    return {
        "id": rollout.id,
        "scorer": scorer,
        "kind": scores.kind,
        "status": scores.status,
        "values": list(scores.values),
        "reasons": list(scores.reasons),
        "aggregate": scores.aggregate(),
        "first_error": scores.first_error() if known else None,
        "coverage": scores.coverage,
        "summary": dict(scores.summary),
        "details": [dict(detail) for detail in scores.details],
    }


def _take_id(rest: dict[str, Any], default: str) -> str:
    value = rest.pop("id", None)
    if value is not None:
        if not isinstance(value, str | int) or value is True or value is False:
            raise TypeError(f"id must be a string or an integer, got {type(value).__name__} {value!r:.60}")
        return str(value)
    parts = [str(rest[name]) for name in ("problem_id", "sample_id") if rest.get(name) is not None]
    return "/".join(parts) if len(parts) == 2 else default


def _take_gold(rest: dict[str, Any], gold_field: str | None) -> str | None:
    field = gold_field or "gold"
    if gold_field is not None and gold_field not in rest:
        raise ValueError(f"no column {gold_field!r}, which gold_field names; the row has {_names(rest)}")
    value: Any = rest.pop(field, None)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise TypeError(f"{field} must be a string or a number, got {type(value).__name__} {value!r:.60}")
    if not math.isfinite(value):
        raise ValueError(f"{field} must be finite, got {value}; leave it out where the answer is unknown")
    number: Any = value
    return str(int(number)) if number == int(number) and abs(number) < 2**53 else str(number)


def _take_integers(rest: dict[str, Any], name: str) -> tuple[int, ...] | None:
    value = rest.pop(name, None)
    if value is None:
        return None
    if not isinstance(value, list | tuple) or not all(type(item) is int for item in value):
        raise TypeError(f"{name} must be a list of integers, got {value!r:.60}")
    return tuple(value)


def _take_spans(rest: dict[str, Any]) -> list[tuple[int, int]] | None:
    value = rest.pop("spans", None)
    if value is None:
        return None
    try:
        return [(operator.index(start), operator.index(end)) for start, end in value]
    except (TypeError, ValueError):
        raise TypeError(f"spans must be a list of pairs of integers, got {value!r:.60}") from None


def _take_string(rest: dict[str, Any], names: tuple[str, ...]) -> str | None:
    for name in names:
        value = rest.get(name)
        if value is not None:
            if not isinstance(value, str):
                raise TypeError(f"{name} must be a string, got {type(value).__name__} {value!r:.60}")
            del rest[name]
            return value
    return None


def _check_steps(steps: object, text: str | None, rest: Mapping[str, Any]) -> tuple[str, ...]:
    if steps is None:
        raise ValueError(
            f"no steps and no text; give 'steps' (a list of strings), or one of {', '.join(_TEXTS)}, or 'messages'; "
            f"besides the problem the row has {_names(rest)}"
        )
    if not isinstance(steps, list | tuple):
        raise TypeError(f"steps must be a list of strings, got {type(steps).__name__}; a whole response goes in 'text'")
    for index, step in enumerate(steps):
        if not isinstance(step, str):
            raise TypeError(f"steps[{index}] must be a string, got {type(step).__name__} {step!r:.60}")
    if not steps and text is None:
        raise ValueError("steps is empty and there is no text; leave the row out, or give the response as 'text'")
    return tuple(steps)


def _chat(messages: object) -> tuple[str, tuple[str, ...] | None, str | None]:
    """Problem, steps and text of a chat: several assistant turns are the steps, a single one is the text."""
    if not isinstance(messages, list | tuple) or not all(isinstance(turn, Mapping) for turn in messages):
        raise TypeError(f"messages must be a list of objects with 'role' and 'content', got {messages!r:.60}")
    roles = [turn.get("role") for turn in messages]
    if "user" not in roles:
        raise ValueError(f"messages has no turn with role 'user', so no problem; the roles are {roles!r:.60}")
    last_user = len(roles) - 1 - roles[::-1].index("user")
    turns = [_content(turn) for turn in messages[last_user + 1 :] if turn.get("role") == "assistant"]
    if not turns:
        raise ValueError("messages has no assistant turn after the last user turn, so no steps")
    problem = _content(messages[last_user])
    return (problem, None, turns[0]) if len(turns) == 1 else (problem, tuple(turns), None)


def _content(turn: Mapping[str, Any]) -> str:
    content = turn.get("content")
    parts = content if isinstance(content, list | tuple) else [{"type": "text", "text": content}]
    texts: list[Any] = [
        part.get("text") if isinstance(part, Mapping) and part.get("type") == "text" else None for part in parts
    ]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"messages: content must be text, got {content!r:.60}; images and tool calls are not scored")
    return "".join(texts)


def _check_unicode(name: str, value: str | None) -> None:
    try:
        (value or "").encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{name} has a lone surrogate at character {error.start}, which no encoding can write; "
            "it comes from text that was cut inside a character or decoded wrongly"
        ) from None


def _names(row: Mapping[str, Any]) -> str:
    return ", ".join(map(str, row)) or "nothing"
