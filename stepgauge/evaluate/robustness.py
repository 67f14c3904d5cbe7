"""How well a scorer withstands attacks: how often empty text is accepted, padding raises a score, damage goes unseen.

Every attack changes solutions in a way whose right effect on the score is known; see ``attacks``. Nothing but the
scorer's public interface is used, so any scorer can be tested.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from stepgauge.evaluate.attacks import ATTACKS, Attack, Family
from stepgauge.scoring import KINDS, Progress, Rollout, Scorer, StepScores

__all__ = ["AttackResult", "Robustness", "robustness"]

TOLERANCE = 1e-5  # the same score; the interface promises no more than this


@dataclass(frozen=True, slots=True)
class AttackResult:
    """What one attack did. Rates are shares of ``applied``; None where nothing stands below.

    A solution that was not scored ranks below every score.

    Args:
        applied: solutions attacked and scored again without a failure of the scorer.
        errors: those on which the scorer failed.
        inflation_rate: the score rose (a solution that was not scored before and is now counts as well).
        caught_rate: the score fell, or is gone.
        mean_change: mean of after - before over those scored both times, in the unit of the score.
        accepted_before, accepted_after: the score reaches the threshold of its kind; None for kinds without one.
        correctness_drop: how much less often a right solution outranks a wrong one of the same problem, once the wrong
            one is attacked (ties count half), in [-1, 1]; None for damage, and where no problem has both.
    """

    attack: str
    family: Family
    applied: int
    errors: int
    inflation_rate: float | None
    caught_rate: float | None
    mean_change: float | None
    accepted_before: float | None
    accepted_after: float | None
    correctness_drop: float | None


@dataclass(frozen=True, slots=True)
class Robustness:
    """The result of ``robustness``: a row an attack, and which scorer and how many solutions it is about."""

    scorer: str
    fingerprint: str
    rollouts: int
    right: int
    wrong: int
    results: tuple[AttackResult, ...]

    def worst(self, family: Family, measure: str) -> float | None:
        """The largest value of a measure (a field of ``AttackResult``) in a family; None where it was never measured.

        Raises:
            ValueError: an unknown measure.
        """
        if measure not in AttackResult.__dataclass_fields__:
            raise ValueError(f"measure must be a field of AttackResult, got {measure!r}")
        values = [getattr(result, measure) for result in self.results if result.family == family]
        return max((value for value in values if value is not None), default=None)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def robustness(
    scorer: Scorer,
    rollouts: Sequence[Rollout],
    correct: Sequence[bool | None] | None = None,
    *,
    attacks: Sequence[Attack] = ATTACKS,
    seed: int = 0,
    progress: Progress | None = None,
) -> Robustness:
    """Attack solutions and measure what the scorer makes of it.

    "empty" and "padding" attacks are made on wrong solutions (an attacker's), "damage" on right ones, "rewording" on
    all; a solution of unknown correctness takes part in every attack. What a sound scorer shows: no acceptance of empty
    text, no inflation by padding, no change by rewording, damage caught.

    Args:
        scorer: any scorer; its kind's default aggregate and threshold are used.
        rollouts: real solutions; several a problem (``meta["problem_id"]``, else the problem text) give the drop of
            correctness.
        correct: whether each is right, None = unknown; default all unknown.
        attacks: which ones.
        seed: of the random choices; they depend on the seed, the attack and the place of the rollout only.
        progress: called with the number of rollouts scored since the last call.

    Raises:
        ValueError: no rollouts, or another number of labels.

    Example:
        >>> from stepgauge import load
        >>> wrong = Rollout("What is 2 * 3?", ("2 * 3 = 5.", "The answer is 5."), gold="6")
        >>> report = robustness(load("math"), [wrong], [False])
        >>> report.worst("empty", "accepted_after")
        0.0

    References:
        Zhao et al. 2025, One Token to Fool LLM-as-a-Judge, arXiv:2507.08794 (texts without content); Reward Under
        Attack, arXiv:2603.06621; EST-PRM, arXiv:2606.00437 (inflation of process rewards).
    """
    if not rollouts:
        raise ValueError("robustness needs at least one rollout, got none")
    labels = [None] * len(rollouts) if correct is None else list(correct)
    if len(labels) != len(rollouts):
        raise ValueError(f"robustness needs one label a rollout: {len(rollouts)} rollouts, {len(labels)} labels")
    before = scorer.score_batch(rollouts, progress=progress)
    pairs = _pairs(rollouts, labels)
    results = []
    for attack in attacks:
        attacked = _attacked(attack, rollouts, labels, seed)
        scored = scorer.score_batch(list(attacked.values()), progress=progress)
        after = dict(zip(attacked, scored, strict=True))
        results.append(_measure(attack, before, after, pairs))
    return Robustness(
        scorer.name,
        scorer.fingerprint,
        len(rollouts),
        sum(label is True for label in labels),
        sum(label is False for label in labels),
        tuple(results),
    )


def _attacked(
    attack: Attack, rollouts: Sequence[Rollout], labels: Sequence[bool | None], seed: int
) -> dict[int, Rollout]:
    spared = {"empty": True, "padding": True, "damage": False, "rewording": "none"}[attack.family]
    found = {}
    for index, (rollout, label) in enumerate(zip(rollouts, labels, strict=True)):
        if label is not spared:
            changed = attack.apply(rollout, random.Random(f"{seed} {attack.name} {index}"))
            if changed is not None:
                found[index] = changed
    return found


def _pairs(rollouts: Sequence[Rollout], labels: Sequence[bool | None]) -> list[tuple[int, int]]:
    """(right, wrong) indices of solutions of the same problem."""
    groups: dict[str, tuple[list[int], list[int]]] = {}
    for index, (rollout, label) in enumerate(zip(rollouts, labels, strict=True)):
        if label is not None:
            key = str(rollout.meta.get("problem_id", rollout.problem))
            groups.setdefault(key, ([], []))[0 if label else 1].append(index)
    return [(right, wrong) for rights, wrongs in groups.values() for right in rights for wrong in wrongs]


def _value(scores: StepScores) -> float:
    value = scores.aggregate()
    return -math.inf if value is None else value


def _rises(new: float, old: float) -> bool:
    return new > old + TOLERANCE if math.isfinite(old) else new > old


def _measure(
    attack: Attack, before: Sequence[StepScores], after: Mapping[int, StepScores], pairs: Sequence[tuple[int, int]]
) -> AttackResult:
    sound = {i: scores for i, scores in after.items() if "error" not in (scores.status, before[i].status)}
    moves = [(_value(before[index]), _value(scores)) for index, scores in sound.items()]
    both = [new - old for old, new in moves if math.isfinite(old) and math.isfinite(new)]
    threshold = KINDS[before[0].kind].threshold

    def rate(hits: Sequence[bool]) -> float | None:
        return sum(hits) / len(hits) if hits else None

    return AttackResult(
        attack.name,
        attack.family,
        len(sound),
        len(after) - len(sound),
        rate([_rises(new, old) for old, new in moves]),
        rate([_rises(old, new) for old, new in moves]),
        math.fsum(both) / len(both) if both else None,
        None if threshold is None else rate([old >= threshold for old, _ in moves]),
        None if threshold is None else rate([new >= threshold for _, new in moves]),
        None if attack.family == "damage" else _correctness_drop(before, sound, pairs),
    )


def _correctness_drop(
    before: Sequence[StepScores], after: Mapping[int, StepScores], pairs: Sequence[tuple[int, int]]
) -> float | None:
    usable = [(right, wrong) for right, wrong in pairs if wrong in after and before[right].status != "error"]
    if not usable:
        return None
    plain = [_outranks(_value(before[right]), _value(before[wrong])) for right, wrong in usable]
    attacked = [_outranks(_value(before[right]), _value(after[wrong])) for right, wrong in usable]
    return (math.fsum(plain) - math.fsum(attacked)) / len(usable)


def _outranks(right: float, wrong: float) -> float:
    return 1.0 if _rises(right, wrong) else 0.0 if _rises(wrong, right) else 0.5
