"""A language model as judge: critiques that name the first wrong step, from the same client that draws completions."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import Any

from stepgauge.generation import Generator, Prompt
from stepgauge.prm.labelling.journal import Drawn, Journal
from stepgauge.scoring import Rollout
from stepgauge.verifiers.critic import critic_prompt, read_index

__all__ = ["Critique", "Judgement", "judge_solution"]


@dataclass(frozen=True, slots=True)
class Critique:
    """One reply of the judge and the first error it names: -1 for none, None where no index could be read."""

    text: str
    first_error: int | None

    def score(self, first_error: int) -> float | None:
        """1 where the critique agrees with a label from elsewhere, 0 where not: which critiques are worth training on.

        References: Yu et al. 2024, Critic-RM, https://arxiv.org/abs/2411.16646.
        """
        return None if self.first_error is None else float(self.first_error == first_error)


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a judge says of a solution: the ``first_error`` most critiques name (the earliest of equals; None where no
    critique could be read), and the share of the readable ones that name it.
    """

    first_error: int | None
    agreement: float
    critiques: tuple[Critique, ...]

    def to_json(self) -> dict[str, Any]:
        """The columns of a labelled row."""
        return {
            "judge_first_error": self.first_error,
            "judge_agreement": round(self.agreement, 6),
            "critiques": [{"text": c.text, "first_error": c.first_error} for c in self.critiques],
        }


def judge_solution(
    rollout: Rollout, judge: Generator, *, critiques: int = 1, journal: Journal | None = None
) -> Judgement:
    """Ask a judge for the first wrong step, ``critiques`` times; replies cut at the token limit name none.

    With a journal a reply is paid for once. The steps are data to the judge: they are set off by a mark that none of
    them can forge (``verifiers.critic.critic_prompt``).

    Raises:
        ValueError: critiques < 1.

    Example:
        >>> from stepgauge.generation import CallableGenerator
        >>> judge = CallableGenerator(lambda prompt, seed: "The sum is wrong. \\\\boxed{0}")
        >>> judge_solution(Rollout("1 + 1?", ("1 + 1 = 3.",)), judge).first_error
        0

    References: Zhang et al. 2025, Lessons of developing PRMs, https://arxiv.org/abs/2501.07301 (section 2.3).
    """
    if critiques < 1:
        raise ValueError(f"judge_solution(critiques) must be 1 or more, got {critiques}")
    if not rollout.steps:
        return Judgement(None, 0.0, ())
    prompt = critic_prompt(rollout)
    key = hashlib.blake2b(f"judge\x00{judge.fingerprint}\x00{prompt}".encode("utf-8", "replace"), digest_size=16)
    known = {} if journal is None else journal.get(key.digest())
    first = next((index for index in range(critiques) if index not in known), critiques)
    if first < critiques:
        replies = judge.complete([Prompt(prompt)], critiques - first, first=first)[0]
        fresh = {
            first + at: Drawn("critique" if reply.finish == "stop" else "truncated", reply.tokens, reply.text)
            for at, reply in enumerate(replies)
        }
        known = fresh | known
        if journal is not None:
            journal.put(key.digest(), fresh)
            known = journal.get(key.digest())
    read = tuple(
        Critique(d.text, read_index(d.text, len(rollout.steps)) if d.outcome == "critique" else None)
        for d in (known[index] for index in range(critiques))
    )
    votes = Counter(c.first_error for c in read if c.first_error is not None)
    if not votes:
        return Judgement(None, 0.0, read)
    end = len(rollout.steps)
    chosen = min(votes, key=lambda index: (-votes[index], end if index == -1 else index))
    return Judgement(chosen, votes[chosen] / votes.total(), read)
