"""Rollouts to decisions: scores (from the journal where it has them), the rule, the columns that are added."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from stepgauge.data.journal import Journal
from stepgauge.data.rows import to_row
from stepgauge.filtering.rules import Rule, RuleError, known_first_error, unscored_reason
from stepgauge.scoring import Rollout, Scorer, StepScores, rollout_key

__all__ = ["Decision", "Fate", "Scored", "decide", "score_columns", "score_rollouts"]

Fate = Literal["kept", "dropped", "quarantined"]
Scores = Mapping[str, StepScores]  # by the name of the scorer

_PASSING = frozenset({"timeout", "transport", "model", "internal"})  # reasons that another try may not give again


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of one rollout, and why; ``row`` is the row with the score columns."""

    fate: Fate
    reason: str
    rollout: Rollout
    scores: Scores
    row: dict[str, Any]
    message: str = ""


@dataclass(frozen=True, slots=True)
class Scored:
    """Scores of a batch, in order, and how many scores were made rather than found."""

    scores: list[dict[str, StepScores]]
    made: int
    found: int


def score_rollouts(
    rollouts: Sequence[Rollout],
    scorers: Mapping[str, Scorer],
    journal: Journal | None = None,
    *,
    progress: Callable[[int], None] | None = None,
) -> Scored:
    """Score a batch with every scorer; equal rollouts are scored once, and those in the journal not at all.

    New scores are in the journal when this returns, except failures that may pass (a timeout, a lost connection).
    Scores from the journal have no ``details``.
    """
    results: list[dict[str, StepScores]] = [{} for _ in rollouts]
    contents = [rollout_key(rollout) for rollout in rollouts]
    made = found = 0
    for name, scorer in scorers.items():
        prefix = "" if journal is None else scorer.fingerprint
        keys = [hashlib.blake2b(f"{prefix} {content}".encode(), digest_size=16).digest() for content in contents]
        known = {key: _decode(value) for key, value in journal.get(keys).items()} if journal is not None else {}
        missing = {key: rollout for key, rollout in zip(keys, rollouts, strict=True) if key not in known}
        fresh = dict(zip(missing, scorer.score_batch(list(missing.values()), progress=progress), strict=True))
        texts = {key: _encode(scores) for key, scores in fresh.items()}
        if journal is not None:
            journal.put({key: texts[key] for key, scores in fresh.items() if _may_be_kept(scores)})
        known |= {key: _decode(text) for key, text in texts.items()}
        for result, key in zip(results, keys, strict=True):
            result[name] = known[key]
        made += len(fresh)
        found += len(rollouts) - len(fresh)
    return Scored(results, made, found)


def _may_be_kept(scores: StepScores) -> bool:
    return scores.status != "error" and not _PASSING & set(scores.reasons)


def _encode(scores: StepScores) -> bytes:
    record = [scores.values, scores.kind, scores.status, scores.reasons, scores.error_step, dict(scores.summary)]
    return json.dumps(record, separators=(",", ":"), default=str).encode()


def _decode(text: bytes) -> StepScores:
    values, kind, status, reasons, error_step, summary = json.loads(text)
    return StepScores(values, kind, status, reasons, error_step, summary)


def decide(rollout: Rollout, scores: Scores, rule: Rule) -> Decision:
    """Apply the rule.

    Kept where it is true, dropped where it is false. Where it is unknown: quarantined if a scorer failed, since another
    run may know; dropped if the scorers had nothing to judge.
    """
    row = to_row(rollout) | score_columns(scores)
    try:
        truth, reason = rule.decide(rollout, scores)
    except RuleError as error:
        return Decision("quarantined", "rule", rollout, scores, row, str(error))
    if truth:
        return Decision("kept", "", rollout, scores, row)
    failed = [(name, found) for name, found in scores.items() if found.status == "error"]
    if truth is None and failed:
        name, found = failed[0]
        message = str(found.summary.get("message", ""))
        return Decision("quarantined", f"{name}: {unscored_reason(found)}", rollout, scores, row, message)
    said = f"unknown: {reason}" if truth is None else f"false: {reason}"
    return Decision("dropped", said, rollout, scores, row)


def score_columns(scores: Scores) -> dict[str, Any]:
    """The columns that a filter adds: seven for each scorer; ``score`` and ``scorer`` besides where it is the only one.

    Example:
        >>> columns = score_columns({"math": StepScores((1.0,), "correctness")})
        >>> columns["score"], columns["math_aggregate"], columns["math_values"], columns["math_first_error"]
        (1.0, 1.0, [1.0], -1)
    """
    columns: dict[str, Any] = {}
    for name, found in scores.items():
        verdict = found.summary.get("verdict")
        columns[f"{name}_aggregate"] = found.aggregate()
        columns[f"{name}_values"] = list(found.values)
        columns[f"{name}_first_error"] = known_first_error(found)
        columns[f"{name}_coverage"] = found.coverage
        columns[f"{name}_status"] = found.status
        columns[f"{name}_reason"] = unscored_reason(found)
        columns[f"{name}_verdict"] = None if verdict is None else str(verdict)
    if len(scores) == 1:
        ((name, found),) = scores.items()
        columns |= {"score": columns[f"{name}_aggregate"], "scorer": name}
    return columns
