"""Semantic clusters: answers in free text that mean the same, by a judge of equality."""

from __future__ import annotations

from collections.abc import Callable, Sequence

__all__ = ["semantic_clusters"]


def semantic_clusters(answers: Sequence[str | None], entails: Callable[[str, str], bool]) -> list[int | None]:
    """A cluster number for each answer, numbered as first seen: two answers share one if each entails the other.

    Each answer is compared with the first member of each cluster, at most 2 N K calls for K clusters; equal texts cost
    none. The numbers go into any vote in place of the answers. For mathematical answers use
    ``verifiers.answer_classes``, which needs no judge.

    Args:
        answers: (N,) texts; None = no answer, and stays None.
        entails: whether the first text implies the second (an entailment model, or a language model that is asked).

    Example:
        >>> same_first_word = lambda a, b: a.split()[0] == b.split()[0]
        >>> semantic_clusters(["Paris", None, "Paris of course", "Rome"], same_first_word)
        [0, None, 0, 1]

    References:
        Kuhn et al. 2023, Semantic Uncertainty, arXiv:2302.09664, section 3.2 (bidirectional entailment).
    """
    known: dict[str, int] = {}
    firsts: list[str] = []
    out: list[int | None] = []
    for answer in answers:
        if answer is not None and answer not in known:
            matches = (at for at, first in enumerate(firsts) if entails(first, answer) and entails(answer, first))
            known[answer] = next(matches, len(firsts))
            if known[answer] == len(firsts):
                firsts.append(answer)
        out.append(None if answer is None else known[answer])
    return out
