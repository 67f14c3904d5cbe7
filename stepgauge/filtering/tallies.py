"""What a filter counts: rows by fate and reason, histograms of the aggregates, a few examples; tallies add up."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from stepgauge.filtering.judging import Decision
from stepgauge.scoring import Kind

__all__ = ["EDGES", "Tally"]

EXAMPLES = 3  # of each reason
EXAMPLE_CHARS = 300

_UNIT = tuple(round(0.05 * i, 2) for i in range(21))
_WIDE = (-100.0, -30.0, -10.0, -3.0, -1.0, -0.3, -0.1, 0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
EDGES: Mapping[Kind, tuple[float, ...]] = {
    "correctness": _UNIT,
    "value": _UNIT,
    "credit": _UNIT,
    "log_ratio": _WIDE,
    "confidence": _WIDE,
}


@dataclass(slots=True)
class Tally:
    """Counts of one chunk or of all of them; ``failed`` rows may come out otherwise in another run.

    Histograms count aggregates in the bins between the ``EDGES`` of the scorer's kind; a bin has its lower edge, the
    last one both, and the outer bins what lies beyond.
    """

    counts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    histograms: dict[str, list[int]] = field(default_factory=dict)
    kinds: dict[str, Kind] = field(default_factory=dict)
    examples: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    messages: dict[str, str] = field(default_factory=dict)

    def add(self, decision: Decision) -> None:
        """Count one decision."""
        for name, scores in decision.scores.items():
            aggregate = scores.aggregate()
            self.kinds[name] = scores.kind
            if aggregate is not None:
                edges = EDGES[scores.kind]
                bins = self.histograms.setdefault(name, [0] * (len(edges) - 1))
                bins[min(max(bisect.bisect_right(edges, aggregate) - 1, 0), len(bins) - 1)] += 1
            if scores.status == "error":
                self.messages.setdefault(name, str(scores.summary.get("message", ""))[:EXAMPLE_CHARS])
        shown = {name: scores.aggregate() for name, scores in decision.scores.items()}
        self.note(decision.fate, decision.reason, {"id": decision.rollout.id[:EXAMPLE_CHARS], "aggregates": shown})

    def note(self, fate: str, reason: str, example: Mapping[str, Any]) -> None:
        """Count one row by its fate and reason; the first few are remembered."""
        self.counts[fate] += 1
        if reason:
            self.reasons[reason] += 1
        shown = self.examples.setdefault(reason or fate, [])
        if len(shown) < EXAMPLES:
            shown.append(dict(example))

    def merge(self, other: Self) -> None:
        """Add another tally to this one; examples stay those of the earlier tally first."""
        self.counts.update(other.counts)
        self.reasons.update(other.reasons)
        self.kinds |= other.kinds
        self.messages = other.messages | self.messages
        for name, bins in other.histograms.items():
            mine = self.histograms.setdefault(name, [0] * len(bins))
            self.histograms[name] = [a + b for a, b in zip(mine, bins, strict=True)]
        for reason, shown in other.examples.items():
            mine_shown = self.examples.setdefault(reason, [])
            mine_shown.extend(shown[: EXAMPLES - len(mine_shown)])

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, with the edges beside the bins."""
        return {
            "counts": dict(self.counts),
            "reasons": dict(self.reasons.most_common()),
            "histograms": {
                name: {"kind": self.kinds[name], "edges": list(EDGES[self.kinds[name]]), "bins": bins}
                for name, bins in self.histograms.items()
            },
            "examples": self.examples,
            "messages": self.messages,
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """The inverse of ``to_json``."""
        return cls(
            Counter(found["counts"]),
            Counter(found["reasons"]),
            {name: list(entry["bins"]) for name, entry in found["histograms"].items()},
            {name: entry["kind"] for name, entry in found["histograms"].items()},
            {reason: list(shown) for reason, shown in found["examples"].items()},
            dict(found["messages"]),
        )
