"""Completions of a solution's prefixes, drawn, judged by an outcome verifier, and journaled."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace

from stepgauge.generation import Completion, Generator, Prompt
from stepgauge.prm.labelling.counts import Counts, Outcome
from stepgauge.prm.labelling.journal import Drawn, Journal, tally
from stepgauge.scoring import Rollout, Scorer, rollout_key

__all__ = ["PrefixRollouts", "judge_completion", "prefix_text"]


def prefix_text(rollout: Rollout, step: int) -> str:
    """The response up to the beginning of the step after ``step``, what stands between the two included.

    Example:
        >>> prefix_text(Rollout("", ("a", "b", "c")), 1)
        'a\\n\\nb\\n\\n'
    """
    spans = rollout.step_spans
    end = spans[step + 1][0] if step + 1 < len(spans) else spans[step][1]
    return rollout.response[:end]


def judge_completion(rollout: Rollout, prefix: str, completion: Completion, verifier: Scorer) -> Outcome:
    """How a completion came out: the verifier reads prefix and completion as one response.

    A completion that hit the token limit is "truncated" unless what there is has the right answer; one whose answer
    cannot be read is "wrong", since it reached no answer; one the verifier could not judge is "undecided".
    """
    if completion.finish == "error":
        return "failed"
    whole = replace(rollout, steps=(prefix + completion.text,), text=None, spans=(), token_ids=None)
    scores = verifier.score_batch([whole])[0]
    value = scores.values[-1]
    if value is not None and value >= 0.5:
        return "correct"
    if completion.finish == "length":
        return "truncated"
    if value is not None:
        return "wrong"
    unread = scores.reasons[-1] in ("unparsed", "no_claim")
    return "wrong" if unread and not str(scores.summary.get("reason", "")).startswith("gold") else "undecided"


class PrefixRollouts:
    """Completions of one solution's prefixes. ``draw(step, n)`` gives the counts of the first n of the steps 0..step.

    What the journal holds is not drawn again. ``on_drawn(completions, tokens, reused)`` hears of each request.
    """

    def __init__(
        self,
        rollout: Rollout,
        generator: Generator,
        verifier: Scorer,
        journal: Journal,
        *,
        on_drawn: Callable[[int, int, int], None] | None = None,
    ) -> None:
        self.rollout = rollout
        self.generator = generator
        self.verifier = verifier
        self.journal = journal
        self.on_drawn = on_drawn
        self._known: dict[int, dict[int, Drawn]] = {}

    def key(self, step: int) -> bytes:
        """Key of a prefix: problem, gold answer, reference and text, the generator and the verifier."""
        prefix = Rollout(
            self.rollout.problem, (prefix_text(self.rollout, step),), self.rollout.gold, self.rollout.reference
        )
        content = "\x00".join((self.generator.fingerprint, self.verifier.fingerprint, rollout_key(prefix)))
        return hashlib.blake2b(content.encode(), digest_size=16).digest()

    def draw(self, step: int, n: int) -> Counts:
        """Counts of samples 0 … n − 1; draws those that are missing, in one request."""
        return tally(self.samples(step, n))

    def samples(self, step: int, n: int) -> list[Drawn]:
        """Samples 0 … n − 1 themselves, in order; draws those that are missing, in one request.

        Raises:
            ValueError: a generator that gives fewer than it was asked for.
        """
        key = self.key(step)
        if step not in self._known:
            self._known[step] = self.journal.get(key)
            if self.on_drawn is not None and self._known[step]:
                self.on_drawn(0, 0, len(self._known[step]))
        known = self._known[step]
        first = next((index for index in range(n) if index not in known), n)
        if first < n:
            prefix = prefix_text(self.rollout, step)
            made = self.generator.complete([Prompt(self.rollout.problem, prefix)], n - first, first=first)[0]
            if len(made) != n - first:
                raise ValueError(f"{self.generator.fingerprint} gave {len(made)} completions of {n - first} asked for")
            fresh = {
                first + at: Drawn(
                    judge_completion(self.rollout, prefix, completion, self.verifier),
                    completion.tokens,
                    completion.text,
                )
                for at, completion in enumerate(made)
            }
            self.journal.put(key, fresh)
            known = self._known[step] = self.journal.get(key)  # another run may have been faster; what is kept counts
            if self.on_drawn is not None:
                self.on_drawn(len(fresh), sum(d.tokens for d in fresh.values()), 0)
        return [known[index] for index in range(n)]
