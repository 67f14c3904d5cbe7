"""OmegaPRM: a tree of prefixes and their success rates, grown by binary search in wrong rollouts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from stepgauge.data.steps import split
from stepgauge.generation import Generator
from stepgauge.prm.labelling.counts import Counts
from stepgauge.prm.labelling.journal import Journal
from stepgauge.prm.labelling.rollouts import PrefixRollouts
from stepgauge.scoring import Rollout, Scorer

__all__ = ["Priority", "SearchedPrefix", "math_aps_row", "omegaprm_priority", "omegaprm_search"]


@dataclass(frozen=True, slots=True)
class Priority:
    """``quality`` Q of a rollout, the ``exploration`` bonus U of its prefix, and their sum, the ``score``."""

    quality: float
    exploration: float

    @property
    def score(self) -> float:
        """Q + U: the largest is searched next."""
        return self.quality + self.exploration


def omegaprm_priority(
    mc: float,
    words: int,
    visits: int,
    total_visits: int,
    *,
    alpha: float = 0.5,
    beta: float = 0.9,
    length: float = 500.0,
    c_puct: float = 0.125,
) -> Priority:
    r"""Q = α^{1−MC} β^{words/L} and U = c_puct √ΣN / (1 + N): supposed-to-be-right, short, seldom visited comes first.

    Args:
        mc: success rate of the prefix that the rollout continues, in [0, 1].
        words: length of the rollout.
        visits: N, how often the prefix was selected. total_visits: ΣN over all prefixes; 0 counts as 1.
        alpha, beta: in (0, 1]. length: L, in words. c_puct: ≥ 0.

    Raises:
        ValueError: a rate outside [0, 1], a negative count, a parameter out of its range.

    Example:
        >>> round(omegaprm_priority(0.5, 250, 0, 1).score, 4)
        0.7958

    References: Luo et al. 2024, OmegaPRM, https://arxiv.org/abs/2406.06592 (eq. 2, 3).
    """
    if not 0 <= mc <= 1:
        raise ValueError(f"omegaprm_priority(mc) must lie in [0, 1], got {mc}")
    for name, count in (("words", words), ("visits", visits), ("total_visits", total_visits)):
        if count < 0:
            raise ValueError(f"omegaprm_priority({name}) must be 0 or more, got {count}")
    for name, rate in (("alpha", alpha), ("beta", beta)):
        if not 0 < rate <= 1:
            raise ValueError(f"omegaprm_priority({name}) must lie in (0, 1], got {rate}")
    if not length > 0 or not c_puct >= 0:
        raise ValueError(f"omegaprm_priority needs length > 0 and c_puct >= 0, got {length} and {c_puct}")
    quality = alpha ** (1 - mc) * beta ** (words / length)
    return Priority(quality, c_puct * math.sqrt(total_visits or 1) / (1 + visits))


@dataclass(frozen=True, slots=True)
class SearchedPrefix:
    """A prefix of the tree, its completions by outcome, and how often the search started from it."""

    prefix: str
    counts: Counts
    visits: int

    @property
    def rate(self) -> float | None:
        """Share of the judged completions that are right; None where none was judged."""
        return self.counts.correct / self.counts.judged if self.counts.judged else None


def omegaprm_search(
    problem: Rollout,
    generator: Generator,
    *,
    verifier: Scorer | None = None,
    journal: Journal | None = None,
    rollouts: int = 8,
    searches: int = 20,
    how: str = "auto",
) -> tuple[SearchedPrefix, ...]:
    """Grow a tree from the bare problem: the prefixes whose rate was estimated, in order, the empty one first.

    Each search takes the wrong rollout of the best ``omegaprm_priority`` among prefixes with a rate above 0, and finds
    its first error by binary search; the prefixes it looks at, and their own rollouts, join the tree. It ends after
    ``searches``, or where no wrong rollout is left: at once where the problem is never, or always, solved. No more than
    (1 + searches · log2(steps + 1)) · rollouts completions are drawn; none is drawn twice with a journal.

    Args:
        problem: problem and what the verifier needs (a gold answer); its steps are not looked at.
        generator: draws completions.
        verifier: an outcome scorer; default ``load("math")``.
        journal: where completions are kept, the pool of the other strategies.
        rollouts: completions of a prefix. searches: wrong rollouts to look into.
        how: where the steps of a completion begin, see ``stepgauge.data.split``.

    Raises:
        ValueError: rollouts < 1 or searches < 0.

    Example:
        >>> from stepgauge.generation import CallableGenerator
        >>> guess = CallableGenerator(lambda prompt, seed: f"2 + 2 = {4 + seed % 2}.\\nThe answer is {4 + seed % 2}.")
        >>> tree = omegaprm_search(Rollout("2 + 2?", (), gold="4"), guess, searches=1, rollouts=4)
        >>> [(node.prefix, node.rate) for node in tree]
        [('', 0.25), ('2 + 2 = 5.\\n', 0.25)]

    References: Luo et al. 2024, OmegaPRM, https://arxiv.org/abs/2406.06592 (section 3.3).
    """
    if rollouts < 1 or searches < 0:
        raise ValueError(f"omegaprm_search needs rollouts >= 1 and searches >= 0, got {rollouts} and {searches}")
    if verifier is None:
        from stepgauge.loading import load

        verifier = load("math")
    kept = Journal(":memory:") if journal is None else journal
    tree: dict[str, SearchedPrefix] = {}
    wrong: list[tuple[str, str]] = []  # (prefix, completion) not looked into yet

    def estimate(prefix: str) -> Counts:
        if prefix not in tree:
            start = replace(problem, steps=(prefix,), text=None, spans=(), token_ids=None)
            source = PrefixRollouts(start, generator, verifier, kept)
            counts = source.draw(0, rollouts)
            tree[prefix] = SearchedPrefix(prefix, counts, 0)
            if counts.correct:
                wrong.extend((prefix, d.text) for d in source.samples(0, rollouts) if d.outcome == "wrong")
        return tree[prefix].counts

    try:
        estimate("")
        for done in range(searches):
            if not wrong:
                break
            ranks = [_score(tree[prefix], text, done) for prefix, text in wrong]
            prefix, text = wrong.pop(ranks.index(max(ranks)))
            tree[prefix] = replace(tree[prefix], visits=tree[prefix].visits + 1)
            whole = prefix + text
            cuts = [start for start, _ in split(whole, how) if start > len(prefix)]
            low, high = 0, len(cuts) - 1
            while low <= high:
                middle = (low + high) // 2
                counts = estimate(whole[: cuts[middle]])
                if not counts.judged:
                    break
                low, high = (middle + 1, high) if counts.correct else (low, middle - 1)
    finally:
        if journal is None:
            kept.close()
    return tuple(tree.values())


def _score(node: SearchedPrefix, text: str, total_visits: int) -> float:
    return omegaprm_priority(node.rate or 0.0, len(text.split()), node.visits, total_visits).score


def math_aps_row(problem: Rollout, tree: Sequence[SearchedPrefix]) -> dict[str, Any]:
    """A search tree as a row of MATH-APS, which ``read_labelled(…, "math_aps")`` turns into labelled solutions.

    Raises ValueError for a tree of the bare problem alone: it has no step to label.

    Example:
        >>> row = math_aps_row(Rollout("1+1?", ()), [SearchedPrefix("So 2.", Counts(3, 1), 0)])
        >>> row["reasoning_steps"]
        [{'solution_prefix': 'So 2.', 'mc_value': 0.75}]
    """
    steps = [{"solution_prefix": node.prefix, "mc_value": node.rate} for node in tree if node.prefix.strip()]
    if not steps:
        raise ValueError("math_aps_row(tree) has no prefix besides the empty one, so nothing to label; leave it out")
    gold = {} if problem.gold is None else {"final_answer": problem.gold}
    return {"question_id": problem.id, "question": problem.problem, **gold, "reasoning_steps": steps}
