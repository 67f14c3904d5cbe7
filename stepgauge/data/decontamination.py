"""Does a training set hold problems of a benchmark? Shared n-grams of normalised words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

__all__ = ["BenchmarkIndex", "Overlap", "normalised_words"]

_COMMAND = re.compile(
    r"\\(?:text|mathrm|mathbf|mathit|operatorname|left|right|displaystyle|[td]?frac|[,;!:> ])(?![a-z])"
)
_WORD = re.compile(r"[a-z]+|\d+|[^\W\d_a-z]")


def normalised_words(text: str) -> list[str]:
    r"""Words and numbers in lower case, without layout, punctuation and LaTeX's commands for spacing and fonts.

    Example:
        >>> normalised_words(r"What is  $\dfrac{1}{2}$ of \$1,000?")
        ['what', 'is', '1', '2', 'of', '1000']
    """
    plain = unicodedata.normalize("NFKC", text).lower()
    plain = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", plain)
    return _WORD.findall(_COMMAND.sub(" ", plain))


@dataclass(frozen=True, slots=True)
class Overlap:
    """A benchmark problem (its place in the benchmark) and the share of its n-grams found in the text, in (0, 1]."""

    index: int
    share: float


class BenchmarkIndex:
    """The n-grams of a benchmark's problems.

    A problem of fewer than n words matches a text of exactly its words only: a short phrase inside a longer text says
    nothing.

    Args:
        problems: texts of the benchmark, without solutions.
        n: words in a row that count as a copy; 13 is usual, a smaller n finds rewordings and chance matches.

    Raises:
        ValueError: n < 1, or no problems.

    Example:
        >>> index = BenchmarkIndex(["Tom has 3 apples and buys 4 more apples; how many apples has he now?"], n=8)
        >>> index.overlap("Q: Tom has 3 apples and buys 4 more apples. How many apples has he now?")
        Overlap(index=0, share=1.0)
        >>> index.overlap("How many apples has he now?") is None
        True

    References:
        Brown et al. 2020, Language Models are Few-Shot Learners, appendix C (13-grams).
    """

    def __init__(self, problems: Iterable[str], n: int = 13) -> None:
        if n < 1:
            raise ValueError(f"BenchmarkIndex n must be at least 1, got {n}")
        self.n = n
        self._where: dict[tuple[str, ...], list[int]] = {}
        self._sizes: list[int] = []
        for index, problem in enumerate(problems):
            grams = set(self._grams(normalised_words(problem)))
            self._sizes.append(len(grams))
            for gram in grams:
                self._where.setdefault(gram, []).append(index)
        if not self._sizes:
            raise ValueError("BenchmarkIndex needs at least one problem, got none")

    def _grams(self, words: Sequence[str]) -> Iterator[tuple[str, ...]]:
        if not words:
            return
        for at in range(max(1, len(words) - self.n + 1)):
            yield tuple(words[at : at + self.n])

    def overlap(self, text: str) -> Overlap | None:
        """The benchmark problem that shares the largest part of its n-grams with ``text``; None where none shares any.

        Drop a row where this is not None; or, to let common phrases pass, where ``share`` exceeds a bound of yours.
        """
        shared: dict[int, int] = {}
        for gram in set(self._grams(normalised_words(text))):
            for index in self._where.get(gram, ()):
                shared[index] = shared.get(index, 0) + 1
        if not shared:
            return None
        best = max(shared, key=lambda index: (shared[index] / self._sizes[index], -index))
        return Overlap(best, shared[best] / self._sizes[best])
