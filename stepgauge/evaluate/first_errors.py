"""ProcessBench on scored solutions: every threshold protocol, every split, and what stands behind the figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from stepgauge.data.formats import Labelled
from stepgauge.evaluate.calibration import Reliability, reliability
from stepgauge.evaluate.processbench import FirstErrorScore, processbench_f1
from stepgauge.evaluate.thresholds import best_threshold
from stepgauge.scoring import KINDS, Kind, StepScores

__all__ = ["PROTOCOLS", "ProcessBenchReport", "Protocol", "ProtocolScore", "SplitFacts", "evaluate_processbench"]

Protocol = Literal["0.5", "tuned-on-gsm8k", "oracle"]
PROTOCOLS: tuple[Protocol, ...] = ("0.5", "tuned-on-gsm8k", "oracle")
TUNED_ON = "gsm8k"

Scored = tuple[Labelled, StepScores]


@dataclass(frozen=True, slots=True)
class ProtocolScore:
    """One split under one protocol; accuracies and F1 are shares, None where a group is empty.

    Args:
        in_sample: the threshold was fitted on these very solutions, so the figure is an upper bound.
        low, high: 95 % bootstrap interval of F1 over solutions, at this threshold.
        f1_scored_only_right: F1 where a solution of which no step was scored counts as missed, not as called right.
        found, located: of the solutions with a right answer and a wrong step, the share called wrong at all, and at the
            right step.
        predictions: (R,) first wrong step as the scores say it, -1 none.
    """

    protocol: Protocol
    split: str
    threshold: float
    in_sample: bool
    acc_error: float | None
    acc_correct: float | None
    f1: float | None
    low: float | None
    high: float | None
    f1_scored_only_right: float | None
    found: float | None
    located: float | None
    predictions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SplitFacts:
    """What a split holds and how much of it was scored.

    Args:
        last_step_lowest: share of solutions, of those with two scored steps or more, whose lowest score falls on the
            last step (of equal scores the earlier one is the lowest): a sign of judging the answer, not the process.
    """

    split: str
    solutions: int
    wrong: int
    right_answer_wrong_process: int
    abstained: int
    failed: int
    steps: int
    scored_steps: int
    last_step_lowest: float | None


@dataclass(frozen=True, slots=True)
class ProcessBenchReport:
    """The result of ``evaluate_processbench``.

    ``missing`` says, for a protocol that could not be applied, why.
    """

    kind: Kind
    splits: tuple[SplitFacts, ...]
    scores: tuple[ProtocolScore, ...]
    calibration: Reliability | None
    missing: Mapping[str, str]

    def score(self, protocol: str, split: str) -> ProtocolScore | None:
        """One cell of the table."""
        return next((s for s in self.scores if (s.protocol, s.split) == (protocol, split)), None)

    def mean_f1(self, protocol: str) -> float | None:
        """Mean F1 over the splits, as the papers report it; None where one is missing."""
        found = [self.score(protocol, facts.split) for facts in self.splits]
        values = [score.f1 for score in found if score is not None and score.f1 is not None]
        return sum(values) / len(values) if values and len(values) == len(found) else None

    def to_json(self) -> dict[str, Any]:
        """As plain data, without the predictions."""
        rows = [{k: v for k, v in asdict(score).items() if k != "predictions"} for score in self.scores]
        protocols = dict.fromkeys(score.protocol for score in self.scores)
        return {
            "kind": self.kind,
            "splits": [asdict(facts) for facts in self.splits],
            "scores": rows,
            "mean_f1": {protocol: self.mean_f1(protocol) for protocol in protocols},
            "calibration": None if self.calibration is None else self.calibration.to_json(),
            "missing": dict(self.missing),
        }


def evaluate_processbench(
    splits: Mapping[str, Sequence[Scored]], protocols: Sequence[Protocol] = PROTOCOLS
) -> ProcessBenchReport:
    """Find the first wrong step by a threshold on step scores, and compare with the human label.

    Protocols: "0.5" is the natural threshold of the scores' kind: 0.5 for probabilities (correctness, value), 0 for
    log-ratios in nats (σ(0) = 0.5); confidence and credit have none, and the protocol is left out for them.
    "tuned-on-gsm8k" takes the threshold of the best F1 on the split gsm8k and applies it to all. "oracle" fits it on
    each split itself: an upper bound, not a result. A step that was not scored accuses nobody, so a solution on which
    the scorer abstained is called right; the shares of abstentions, and the F1 that counts them as missed, stand beside
    the figures.

    Args:
        splits: split name to its solutions and their scores; all scores of one kind.
        protocols: which to apply.

    Raises:
        ValueError: no solutions, an unknown protocol, scores of several kinds.

    References:
        Zheng et al. 2024, ProcessBench, sections 4.1 and 5.1; Zhang et al. 2025, The Lessons of Developing PRMs.
    """
    for protocol in protocols:
        if protocol not in PROTOCOLS:
            raise ValueError(f"evaluate_processbench: protocols are {', '.join(PROTOCOLS)}; got {protocol!r}")
    if not splits or not all(splits.values()):
        raise ValueError("evaluate_processbench needs at least one solution in every split")
    kinds = {scores.kind for solutions in splits.values() for _, scores in solutions}
    if len(kinds) > 1:
        raise ValueError(f"evaluate_processbench needs scores of one kind, got {', '.join(sorted(kinds))}")
    (kind,) = kinds
    results: list[ProtocolScore] = []
    missing: dict[str, str] = {}
    for protocol in protocols:
        for split, solutions in splits.items():
            fitted_on = {"0.5": None, "tuned-on-gsm8k": TUNED_ON, "oracle": split}[protocol]
            threshold = _threshold(kind, splits, fitted_on)
            if isinstance(threshold, str):
                missing[protocol] = threshold
            else:
                results.append(_score(protocol, split, solutions, threshold, fitted_on == split))
    facts = tuple(_facts(split, solutions) for split, solutions in splits.items())
    return ProcessBenchReport(kind, facts, tuple(results), _calibration(kind, splits), missing)


def _threshold(kind: Kind, splits: Mapping[str, Sequence[Scored]], fitted_on: str | None) -> float | str:
    """The threshold, or why there is none."""
    if fitted_on is None:
        natural = KINDS[kind].threshold
        return f"scores of kind {kind!r} have no natural threshold" if natural is None else natural
    if fitted_on not in splits:
        return f"there is no split {fitted_on!r} to tune on"
    found = best_threshold(*_values_and_labels(splits[fitted_on]))
    if found is None:
        return f"split {fitted_on!r} has not both right and wrong solutions, or no scored step"
    return found[0]


def _values_and_labels(solutions: Sequence[Scored]) -> tuple[list[tuple[float | None, ...]], list[int]]:
    return [scores.values for _, scores in solutions], [item.first_error() for item, _ in solutions]


def _score(
    protocol: Protocol, split: str, solutions: Sequence[Scored], threshold: float, in_sample: bool
) -> ProtocolScore:
    values, labels = _values_and_labels(solutions)
    found = processbench_f1(values, labels, threshold=threshold)
    low, high = _interval(found, labels)
    hits = [predicted == label for predicted, label in zip(found.predictions, labels, strict=True)]
    strict = [hit and scores.status == "ok" for hit, (_, scores) in zip(hits, solutions, strict=True)]
    tricky = [i for i, (item, _) in enumerate(solutions) if item.outcome and labels[i] >= 0]
    return ProtocolScore(
        protocol,
        split,
        threshold,
        in_sample,
        found.acc_error,
        found.acc_correct,
        found.f1,
        low,
        high,
        _harmonic(
            *(_share([hit for hit, y in zip(strict, labels, strict=True) if (y < 0) == r]) for r in (False, True))
        ),
        _share([found.predictions[i] >= 0 for i in tricky]),
        _share([hits[i] for i in tricky]),
        found.predictions,
    )


def _share(hits: Sequence[bool]) -> float | None:
    return sum(hits) / len(hits) if hits else None


def _harmonic(a: float | None, b: float | None) -> float | None:
    if a is None or b is None:
        return None
    return 2 * a * b / (a + b) if a + b else 0.0


def _interval(found: FirstErrorScore, labels: Sequence[int]) -> tuple[float | None, float | None]:
    """Percentile bootstrap of F1, wrong and right solutions resampled apart: the mean of n resampled 0/1 values is a
    binomial count over n."""
    if found.f1 is None or found.acc_error is None or found.acc_correct is None:
        return None, None
    wrong = sum(label >= 0 for label in labels)
    right = len(labels) - wrong
    rng = np.random.default_rng(0)
    error = rng.binomial(wrong, found.acc_error, 10_000) / wrong
    correct = rng.binomial(right, found.acc_correct, 10_000) / right
    total = error + correct
    f1 = np.divide(2 * error * correct, total, out=np.zeros_like(total), where=total > 0)
    low, high = np.percentile(f1, [2.5, 97.5])
    return float(low), float(high)


def _facts(split: str, solutions: Sequence[Scored]) -> SplitFacts:
    lowest = []
    for _, scores in solutions:
        scored = [(value, index) for index, value in enumerate(scores.values) if value is not None]
        if len(scored) >= 2:
            lowest.append(min(scored)[1] == len(scores.values) - 1)
    return SplitFacts(
        split,
        len(solutions),
        sum(item.first_error() >= 0 for item, _ in solutions),
        sum(bool(item.outcome) and item.first_error() >= 0 for item, _ in solutions),
        sum(scores.status == "abstain" for _, scores in solutions),
        sum(scores.status == "error" for _, scores in solutions),
        sum(len(scores.values) for _, scores in solutions),
        sum(value is not None for _, scores in solutions for value in scores.values),
        _share(lowest),
    )


def _calibration(kind: Kind, splits: Mapping[str, Sequence[Scored]]) -> Reliability | None:
    """Over the steps with a known label (up to the first error); for probabilities of being right only."""
    if kind != "correctness":
        return None
    pairs = [
        (value, label)
        for solutions in splits.values()
        for item, scores in solutions
        for value, label in zip(scores.values, item.labels, strict=True)
        if value is not None and label is not None
    ]
    if not pairs or not all(0 <= value <= 1 for value, _ in pairs):
        return None
    return reliability([value for value, _ in pairs], [label for _, label in pairs])
