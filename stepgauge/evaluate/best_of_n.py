"""Best-of-n curves: the share of problems solved against the number of candidates, by every selection rule."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from stepgauge.scoring import Progress
from stepgauge.selection import best_of_n, bootstrap_interval, borda_vote, majority_vote, pass_at_k, weighted_vote
from stepgauge.selection.metrics import Interval
from stepgauge.selection.votes import Vote

__all__ = ["Candidates", "Curve", "best_of_n_curves", "candidates_of_pick", "powers_of_two"]

Votes = Callable[[Sequence[Hashable | None], Mapping[str, Sequence[float | None]]], int | None]


@dataclass(frozen=True, slots=True)
class Candidates:
    """The candidates of one problem.

    Args:
        classes: (N,) the answer's class, None = no answer; equal answers share a class.
        correct: (N,) whether it is right.
        scores: scorer to (N,) aggregates, None = not scored.
    """

    classes: tuple[Hashable | None, ...]
    correct: tuple[bool, ...]
    scores: Mapping[str, tuple[float | None, ...]]

    def __post_init__(self) -> None:
        sizes = {len(self.classes), len(self.correct), *(len(scores) for scores in self.scores.values())}
        if len(sizes) != 1 or sizes == {0}:
            raise ValueError(f"Candidates needs a class, a truth and scores for each candidate; got {sorted(sizes)}")


@dataclass(frozen=True, slots=True)
class Curve:
    """A rule: for each n the share of problems solved, with a 95 % bootstrap interval over problems.

    ``problems[i]`` have at least ``ns[i]`` candidates; the others are left out there.
    """

    rule: str
    scorer: str
    ns: tuple[int, ...]
    solved: tuple[Interval, ...]
    problems: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def powers_of_two(n: int) -> list[int]:
    """1, 2, 4, … and n itself.

    Example:
        >>> powers_of_two(12)
        [1, 2, 4, 8, 12]
    """
    return [*(2**k for k in range(n.bit_length()) if 2**k < n), n]


def candidates_of_pick(row: Mapping[str, Any]) -> Candidates:
    """The candidates of a row that ``stepgauge rerank --out`` wrote.

    Raises:
        ValueError, TypeError: a row of another layout, or without a gold answer.
    """
    found = row.get("candidates")
    if not isinstance(found, list | tuple) or not found or not all(isinstance(c, Mapping) for c in found):
        raise TypeError(f"candidates must be a list of objects, as rerank --out writes it; got {found!r:.60}")
    if any(not isinstance(c.get("correct"), bool) for c in found):
        raise ValueError("a candidate has no truth ('correct'); rerank writes it where the problem has a gold answer")
    if any("answer_class" not in c or not isinstance(c.get("scores"), Mapping) for c in found):
        raise ValueError("a candidate has no 'answer_class' or no 'scores'; write the file with stepgauge rerank --out")
    names = dict.fromkeys(name for c in found for name in c["scores"])
    scores = {name: tuple(c["scores"].get(name) for c in found) for name in names}
    return Candidates(tuple(c["answer_class"] for c in found), tuple(c["correct"] for c in found), scores)


def best_of_n_curves(
    problems: Sequence[Candidates],
    ns: Sequence[int] | None = None,
    *,
    draws: int = 32,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[Curve]:
    """Curves of pass@n (unbiased), majority, and for each scorer best-of-n, weighted vote and Borda.

    A rule at n < N is the mean over ``draws`` random subsets of n candidates, drawn once and shared by all rules, so
    that rules are compared on the same candidates; at n = 1 and n = N it is exact. Weighted votes need weights: they
    are left out for a scorer with a score outside [0, 1].

    Args:
        problems: the candidates of each problem.
        ns: numbers of candidates, default 1, 2, 4, … and the largest number that every problem has.
        draws, seed: of the random subsets.
        progress: called with the number of problems finished since the last call.

    Raises:
        ValueError: no problems, draws < 1, an n below 1 or above what any problem has, or scorers that differ between
            problems.
    """
    if not problems or draws < 1:
        raise ValueError(f"best_of_n_curves needs problems and draws >= 1, got {len(problems)} problems, {draws} draws")
    names = list(problems[0].scores)
    if any(set(p.scores) != set(names) for p in problems):
        raise ValueError("best_of_n_curves: every problem must have the scores of the same scorers")
    sizes = [len(p.classes) for p in problems]
    chosen = powers_of_two(min(sizes)) if ns is None else sorted(set(ns))
    if not chosen or chosen[0] < 1 or chosen[-1] > max(sizes):
        raise ValueError(f"best_of_n_curves: n must be 1 to {max(sizes)}, got {list(ns or ())}")
    rules = _rules(problems, names)
    solved: dict[tuple[str, str], list[list[float]]] = {key: [[] for _ in chosen] for key in (*rules, ("pass@n", ""))}
    rng = random.Random(seed)
    for problem, size in zip(problems, sizes, strict=True):
        for place, n in enumerate(chosen):
            if n <= size:
                solved["pass@n", ""][place].append(pass_at_k(size, sum(problem.correct), n))
                subsets = _subsets(rng, size, n, draws)
                for key, rule in rules.items():
                    solved[key][place].append(_mean(problem, rule, subsets))
        if progress is not None:
            progress(1)
    return [
        Curve(*key, tuple(chosen), tuple(map(bootstrap_interval, values)), tuple(map(len, values)))
        for key, values in solved.items()
    ]


def _subsets(rng: random.Random, size: int, n: int, draws: int) -> list[list[int]]:
    if n == size:
        return [list(range(size))]
    if n == 1:
        return [[index] for index in range(size)]
    return [sorted(rng.sample(range(size), n)) for _ in range(draws)]


def _mean(problem: Candidates, rule: Votes, subsets: Sequence[Sequence[int]]) -> float:
    hits = 0
    for subset in subsets:
        classes = [problem.classes[i] for i in subset]
        scores = {name: [values[i] for i in subset] for name, values in problem.scores.items()}
        picked = rule(classes, scores)
        hits += picked is not None and problem.correct[subset[picked]]
    return hits / len(subsets)


def _rules(problems: Sequence[Candidates], names: Sequence[str]) -> dict[tuple[str, str], Votes]:
    rules: dict[tuple[str, str], Votes] = {("majority", ""): lambda classes, scores: majority_vote(classes).index}
    for name in names:
        known = [score for p in problems for score in p.scores[name] if score is not None]
        rules["best-of-n", name] = _on(best_of_n, name)
        if all(0 <= score <= 1 for score in known):
            rules["weighted vote", name] = _on(weighted_vote, name)
        rules["Borda", name] = _on(borda_vote, name)
    return rules


def _on(vote: Callable[[Sequence[Hashable | None], Sequence[float | None]], Vote], name: str) -> Votes:
    return lambda classes, scores: vote(classes, scores[name]).index
