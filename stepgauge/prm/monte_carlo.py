"""``MonteCarloScorer``: the value of each prefix, from completions that are drawn when it is asked."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, get_args

from stepgauge import __version__
from stepgauge.generation import Generator, load_generator
from stepgauge.prm.labelling.counts import Counts, Target, step_labels
from stepgauge.prm.labelling.journal import Journal
from stepgauge.prm.labelling.rollouts import PrefixRollouts
from stepgauge.prm.targets import binomial_interval
from stepgauge.scoring import Progress, Reason, Rollout, Scorer, Status, StepScores, score_each

__all__ = ["MonteCarloScorer"]


class MonteCarloScorer(Scorer):
    """Chance of a right answer from each step on: complete every prefix, and judge the answers.

    value = c/n ("soft"), 1[c > 0] ("hard") or ln(1 − p + p e^η)/η with p = c/n ("er"), of the n completions that could
    be judged. Truncated and undecided completions count for nothing; a step where nothing could be judged is None
    ("truncated", "undecided", or "model" where the generator refused). ``details`` hold the counts and the 95 % Wilson
    interval of c/n. Without a gold answer (or unit tests) the scorer abstains.

    Args:
        generator: a ``Generator``, or what ``load_generator`` takes.
        completions: n of each prefix. target: "soft", "hard" or "er", with ``eta``.
        verifier: name of an outcome scorer, "math" or "code".
        journal: file that keeps completions between runs; None = memory only.

    Example:
        >>> from stepgauge.generation import CallableGenerator
        >>> guess = CallableGenerator(lambda prompt, seed: "" if "5" in prompt.prefix else "The answer is 4.")
        >>> MonteCarloScorer(guess, completions=2).score(["Adding.", "It is 5."], problem="2 + 2?", gold="4").values
        (1.0, 0.0)

    References: Wang et al. 2023, Math-Shepherd, https://arxiv.org/abs/2312.08935; Zhang et al. 2024, ER-PRM,
    https://arxiv.org/abs/2412.11006.
    """

    name = "monte_carlo"
    kind = "value"
    _outcome: Scorer | None = None
    _source: Generator | None = None

    def __init__(
        self,
        generator: Generator | str,
        *,
        completions: int = 8,
        target: Target = "soft",
        eta: float = 2.0,
        verifier: str = "math",
        journal: str | None = None,
    ) -> None:
        if completions < 1:
            raise ValueError(f"MonteCarloScorer(completions) must be 1 or more, got {completions}")
        if target not in get_args(Target):
            raise ValueError(f"MonteCarloScorer(target) must be one of {', '.join(get_args(Target))}; got {target!r}")
        self.generator = generator
        self.completions = completions
        self.target = target
        self.eta = eta
        self.verifier = verifier
        self.journal = journal

    def _parts(self) -> tuple[Generator, Scorer]:
        if self._source is None or self._outcome is None:
            from stepgauge.loading import load

            self._outcome = load(self.verifier)
            self._source = load_generator(self.generator) if isinstance(self.generator, str) else self.generator
        return self._source, self._outcome

    @property
    def fingerprint(self) -> str:
        """Digest of the generator's and the verifier's fingerprints, the target and the number of completions."""
        source, outcome = self._parts()
        told: list[Any] = [
            source.fingerprint,
            outcome.fingerprint,
            self.completions,
            self.target,
            self.eta,
            __version__,
        ]
        return f"monte_carlo:{hashlib.blake2b(repr(told).encode(), digest_size=16).hexdigest()}"

    def score_batch(
        self, rollouts: Sequence[Rollout], *, deadline_s: float | None = None, progress: Progress | None = None
    ) -> list[StepScores]:
        """See ``Scorer.score_batch``."""
        source, outcome = self._parts()
        with Journal(self.journal or ":memory:") as journal:

            def judge(rollout: Rollout) -> StepScores:
                return self._judge(rollout, source, outcome, journal)

            return score_each(judge, rollouts, kind="value", deadline_s=deadline_s, progress=progress)

    def _judge(self, rollout: Rollout, source: Generator, outcome: Scorer, journal: Journal) -> StepScores:
        n_steps = len(rollout.steps)
        if n_steps == 0:
            return StepScores.abstain(0, "value", "no_claim")
        if self.verifier == "math" and rollout.gold is None:
            return StepScores.abstain(n_steps, "value", "no_gold")
        if self.verifier == "code" and rollout.reference is None:
            return StepScores.abstain(n_steps, "value", "no_reference")
        drawing = PrefixRollouts(rollout, source, outcome, journal)
        try:
            counts = [drawing.draw(step, self.completions) for step in range(n_steps)]
        except ConnectionError as error:
            return StepScores.error(n_steps, "value", "transport", str(error))
        values = tuple(step_labels(counts, target=self.target, eta=self.eta))
        reasons = tuple(None if value is not None else _why(count) for value, count in zip(values, counts, strict=True))
        details = tuple(_detail(count) for count in counts)
        status: Status = "ok" if any(value is not None for value in values) else "abstain"
        summary = {"completions": sum(count.drawn for count in counts)}
        return StepScores(values, "value", status, reasons, None, summary=summary, details=details)

    def close(self) -> None:
        """Free the generator where it was loaded here."""
        source, self._source, self._outcome = self._source, None, None
        close = getattr(source, "close", None)
        if close is not None and isinstance(self.generator, str):
            close()


def _why(count: Counts) -> Reason:
    if count.failed == count.drawn:
        return "model"
    return "truncated" if count.truncated >= count.undecided else "undecided"


def _detail(count: Counts) -> dict[str, Any]:
    detail: dict[str, Any] = {"counts": count.to_json()}
    return detail | ({"interval": binomial_interval(count.correct, count.judged)} if count.judged else {})
