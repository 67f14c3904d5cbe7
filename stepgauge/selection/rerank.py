"""Rerank: group rollouts by problem, score them, and pick one answer a problem by every selection rule."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stepgauge.scoring import Kind, Progress, Rollout, Scorer, StepScores
from stepgauge.selection.metrics import Interval, bootstrap_interval, pass_at_k
from stepgauge.selection.votes import Vote, best_of_n, borda_vote, majority_vote, weighted_vote
from stepgauge.verifiers import Verdict, answer_classes, extract_answer, verify

__all__ = ["Pick", "Rerank", "Rule", "rerank"]

PROBABILITY_KINDS = frozenset({"correctness", "value"})


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of the table: a selection rule, the scorer it used, and its accuracy over problems with a gold answer."""

    name: str
    scorer: str
    accuracy: Interval | None


@dataclass(frozen=True, slots=True)
class Pick:
    """What was chosen for one problem, and why."""

    problem_id: str
    problem: str
    gold: str | None
    picked: str
    answer: str | None
    correct: bool | None
    rule: str
    candidates: tuple[Mapping[str, Any], ...]
    disagreed: Mapping[str, str | None]

    def to_row(self) -> dict[str, Any]:
        """As one flat record for JSONL or parquet."""
        return {
            "problem_id": self.problem_id,
            "problem": self.problem,
            "gold": self.gold,
            "picked": self.picked,
            "answer": self.answer,
            "correct": self.correct,
            "rule": self.rule,
            "candidates": [dict(candidate) for candidate in self.candidates],
            "disagreed": dict(self.disagreed),
        }


@dataclass(frozen=True, slots=True)
class Rerank:
    """The result of ``rerank``: the table of rules, one pick a problem, counts, and per scorer its first failure."""

    rules: tuple[Rule, ...]
    picks: tuple[Pick, ...]
    n: int
    counts: Mapping[str, int]
    failures: Mapping[str, str]


@dataclass(slots=True)
class _Group:
    key: str
    rollouts: list[Rollout] = field(default_factory=list)
    scores: dict[str, list[StepScores]] = field(default_factory=dict)


def _group(rollouts: Sequence[Rollout], n: int | None) -> list[_Group]:
    groups: dict[str, _Group] = {}
    for rollout in rollouts:
        key = str(rollout.meta.get("problem_id", rollout.problem))
        group = groups.setdefault(key, _Group(key))
        if n is None or len(group.rollouts) < n:
            group.rollouts.append(rollout)
    return list(groups.values())


def rerank(
    rollouts: Sequence[Rollout],
    scorers: Mapping[str, Scorer],
    *,
    n: int | None = None,
    progress: Progress | None = None,
) -> Rerank:
    """Pick one of N candidates a problem, by every rule and scorer.

    Rollouts belong to one problem if they share ``meta["problem_id"]``, else the problem text. Rules: majority, and for
    each scorer best-of-n and Borda, and weighted vote where its scores are probabilities. The pick follows the first
    scorer: weighted vote for probabilities, else Borda; where no candidate has an answer, its best-scored candidate.

    Args:
        rollouts: candidates, in any order; within a problem the order decides ties.
        scorers: name to scorer; the names appear in the table.
        n: candidates a problem to use, the first n; None = all.
        progress: called with the number of rollouts scored since the last call.

    Raises:
        ValueError: no rollouts, no scorers, or n < 1.
    """
    if not rollouts:
        raise ValueError("rerank needs at least one rollout, got none")
    if not scorers:
        raise ValueError("rerank needs at least one scorer, for example {'embedded': load('embedded')}")
    if n is not None and n < 1:
        raise ValueError(f"rerank n must be at least 1, got {n}")
    groups = _group(rollouts, n)
    used = [rollout for group in groups for rollout in group.rollouts]
    for name, scorer in scorers.items():
        scored = iter(scorer.score_batch(used, progress=progress))
        for group in groups:
            group.scores[name] = [next(scored) for _ in group.rollouts]
    judged = [_judge(group, scorers) for group in groups]
    size = max(len(group.rollouts) for group in groups)
    counts = {
        "problems": len(groups),
        "rollouts": len(used),
        "without_answer": sum(answer is None for j in judged for answer in j.answers),
        "with_gold": sum(j.correct is not None for j in judged),
        "conflicting_gold": sum(len({r.gold for r in g.rollouts} - {None}) > 1 for g in groups),
        "undecided": sum(j.undecided for j in judged),
        "not_scored": sum(s.status != "ok" for g in groups for results in g.scores.values() for s in results),
        "scorer_errors": sum(s.status == "error" for g in groups for results in g.scores.values() for s in results),
    }
    failures: dict[str, str] = {}
    for name, results in ((name, results) for group in groups for name, results in group.scores.items()):
        for scores in results:
            if scores.status == "error":
                failures.setdefault(name, str(scores.summary.get("message")))
    return Rerank(tuple(_table(judged, size)), tuple(j.pick() for j in judged), size, counts, failures)


@dataclass(slots=True)
class _Judged:
    group: _Group
    answers: list[str | None]
    classes: Sequence[Hashable | None]
    correct: list[bool] | None
    undecided: int
    votes: dict[tuple[str, str], Vote]
    aggregates: dict[str, list[float | None]]
    main: tuple[str, str]

    def solved(self, vote: Vote) -> bool:
        return self.correct is not None and vote.index is not None and self.correct[vote.index]

    def pick(self) -> Pick:
        vote = self.votes[self.main]
        name = self.main[1]
        rollouts = self.group.rollouts
        index = vote.index
        rule = f"{self.main[0]} ({name})"
        if index is None:
            index = best_of_n(range(len(rollouts)), self.aggregates[name]).index or 0
            rule = f"best-of-n ({name}), no candidate has an answer"
        candidates = tuple(self._candidate(at, rollout) for at, rollout in enumerate(rollouts))
        return Pick(
            problem_id=self.group.key,
            problem=rollouts[index].problem,
            gold=rollouts[index].gold,
            picked=candidates[index]["id"],
            answer=self.answers[index],
            correct=None if self.correct is None else self.correct[index],
            rule=rule,
            candidates=candidates,
            disagreed={
                f"{rule_name} ({scorer})" if scorer else rule_name: self._answer(other)
                for (rule_name, scorer), other in self.votes.items()
                if other.winner != vote.winner
            },
        )

    def _answer(self, vote: Vote) -> str | None:
        return None if vote.index is None else self.answers[vote.index]

    def _candidate(self, at: int, rollout: Rollout) -> dict[str, Any]:
        scores = {name: self.group.scores[name][at] for name in self.aggregates}
        return {
            "id": rollout.id or str(rollout.meta.get("sample_id", at)),
            "answer": self.answers[at],
            "answer_class": self.classes[at],
            "correct": None if self.correct is None else self.correct[at],
            "scores": {name: self.aggregates[name][at] for name in scores},
            "first_false_step": {name: s.error_step for name, s in scores.items() if s.error_step is not None},
            "not_scored": {name: s.summary.get("reason") for name, s in scores.items() if s.status != "ok"},
        }


def _judge(group: _Group, scorers: Mapping[str, Scorer]) -> _Judged:
    found = [extract_answer(rollout.response) for rollout in group.rollouts]
    answers = [None if answer is None else answer.text for answer in found]
    classes: Sequence[Hashable | None] = answer_classes(answers)
    gold = next((rollout.gold for rollout in group.rollouts if rollout.gold is not None), None)
    correct, known = None, dict[Hashable, Verdict]()
    if gold is not None:
        for answer, label in zip(answers, classes, strict=True):
            if answer is not None and label is not None and label not in known:
                known[label] = verify(gold, answer)
        correct = [label is not None and known[label].equal for label in classes]
    undecided = sum(label in known and known[label].verdict in ("undecided", "invalid") for label in classes)
    votes = {("majority", ""): majority_vote(classes)}
    aggregates: dict[str, list[float | None]] = {}
    for name, scorer in scorers.items():
        aggregates[name] = [scores.aggregate() for scores in group.scores[name]]
        for rule, vote in _rules(scorer.kind).items():
            votes[rule, name] = vote(classes, aggregates[name])
    first = next(iter(scorers))
    main = "weighted vote" if scorers[first].kind in PROBABILITY_KINDS else "Borda"
    return _Judged(group, answers, classes, correct, undecided, votes, aggregates, (main, first))


def _rules(kind: Kind) -> dict[str, Callable[[Sequence[Hashable | None], Sequence[float | None]], Vote]]:
    weighted = {"weighted vote": weighted_vote} if kind in PROBABILITY_KINDS else {}
    return {"best-of-n": best_of_n, **weighted, "Borda": borda_vote}


def _table(judged: Sequence[_Judged], n: int) -> list[Rule]:
    graded = [j for j in judged if j.correct is not None]

    def interval(value: Callable[[_Judged], float]) -> Interval | None:
        return bootstrap_interval([value(j) for j in graded]) if graded else None

    def rate(j: _Judged) -> float:
        return sum(j.correct or ()) / len(j.answers)

    def oracle(j: _Judged) -> float:
        return pass_at_k(len(j.answers), sum(j.correct or ()), min(n, len(j.answers)))

    def solved(key: tuple[str, str]) -> Interval | None:
        return interval(lambda j: float(j.solved(j.votes[key])))

    return [
        Rule("pass@1 (mean of candidates)", "", interval(rate)),
        *(Rule(key[0], key[1], solved(key)) for key in judged[0].votes),
        Rule(f"pass@{n} (oracle)", "", interval(oracle)),
    ]
