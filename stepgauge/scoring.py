"""The one interface: a ``Rollout`` goes in, ``StepScores`` come out of a ``Scorer``.

Everything else in the library stands on this module; it imports the standard library only.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal, Self, get_args

from stepgauge import __version__
from stepgauge.aggregation import aggregate_steps

__all__ = [
    "KINDS",
    "REASONS",
    "Kind",
    "Progress",
    "Reason",
    "Rollout",
    "Scorer",
    "Session",
    "Status",
    "StepScores",
    "rollout_key",
    "score_each",
]

Kind = Literal["correctness", "value", "log_ratio", "credit", "confidence"]
Status = Literal["ok", "abstain", "error"]
Reason = Literal[
    "timeout",
    "too_large",
    "unparsed",
    "undecided",
    "no_gold",
    "no_reference",
    "no_claim",
    "truncated",
    "transport",
    "model",
    "internal",
]
Progress = Callable[[int], None]  # called with the number of rollouts finished since the last call

REASONS: tuple[str, ...] = get_args(Reason)


@dataclass(frozen=True, slots=True)
class KindInfo:
    """What a kind of score means, and how it is read unless the caller says otherwise."""

    meaning: str
    aggregate: str
    threshold: float | None


KINDS: Mapping[str, KindInfo] = MappingProxyType(
    {
        "correctness": KindInfo("this step is right", "min", 0.5),
        "value": KindInfo("chance of a right answer from here", "last", 0.5),
        "log_ratio": KindInfo("beta log pi/pi_ref of the step, nats", "min", 0.0),
        "credit": KindInfo("share of the reference derivation won by this step", "sum", None),
        "confidence": KindInfo("log-prob, entropy or self-certainty of the step", "mean", None),
    }
)


def _check_type(owner: str, name: str, value: object, expected: type, remedy: str = "") -> None:
    if not isinstance(value, expected):
        hint = f"; {remedy}" if remedy else ""
        raise TypeError(f"{owner}.{name} must be {expected.__name__}, got {type(value).__name__} {value!r:.60}{hint}")


def _string_tuple(owner: str, name: str, value: Iterable[str]) -> tuple[str, ...]:
    if isinstance(value, str):
        raise TypeError(
            f"{owner}.{name} must be a sequence of strings, got one str; "
            "split it first, for example with stepgauge.data.split"
        )
    items = tuple(value)
    for index, item in enumerate(items):
        _check_type(owner, f"{name}[{index}]", item, str)
    return items


@dataclass(frozen=True, slots=True)
class Rollout:
    """One attempted solution: a problem and the steps a model wrote.

    Args:
        problem: the question, as text.
        steps: (S,) the steps, in order; a scorer never re-splits them.
        gold: the gold final answer, if known.
        reference: what a scorer may need besides (a formula graph, unit tests); has ``to_json``.
        text: the raw response; then ``spans`` say where each step lies in it. Without it the steps joined by a blank
            line stand for the response.
        spans: (S,) pairs (a, b) of character offsets with ``text[a:b] == step``.
        token_ids: the policy's own tokens of the response, where an RL framework gives them.
        id: a name for reports; not part of the content.
        meta: anything else; carried along, never compared.

    Raises:
        TypeError: a field of the wrong type. ValueError: spans that do not match text and steps.

    Example:
        >>> Rollout("1+1?", ("1+1 = 2.", "The answer is 2."), gold="2")
        Rollout(id='', problem='1+1?', 2 steps, gold='2')
    """

    problem: str
    steps: tuple[str, ...]
    gold: str | None = None
    reference: object | None = None
    text: str | None = None
    spans: tuple[tuple[int, int], ...] = ()
    token_ids: tuple[int, ...] | None = None
    id: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        _check_type("Rollout", "problem", self.problem, str)
        object.__setattr__(self, "steps", _string_tuple("Rollout", "steps", self.steps))
        for name in ("gold", "text"):
            if getattr(self, name) is not None:
                _check_type("Rollout", name, getattr(self, name), str, f"pass str({name}) or None")
        _check_type("Rollout", "id", self.id, str)
        if self.token_ids is not None:
            object.__setattr__(self, "token_ids", tuple(int(token) for token in self.token_ids))
        spans = tuple((int(start), int(end)) for start, end in self.spans)
        object.__setattr__(self, "spans", spans)
        if spans:
            self._check_spans()

    def _check_spans(self) -> None:
        if self.text is None:
            raise ValueError("Rollout.spans were given without Rollout.text; pass the response text they index")
        if len(self.spans) != len(self.steps):
            raise ValueError(
                f"Rollout.spans must have one span a step: {len(self.steps)} steps, {len(self.spans)} spans"
            )
        for index, ((start, end), step) in enumerate(zip(self.spans, self.steps, strict=True)):
            if self.text[start:end] != step:
                raise ValueError(
                    f"Rollout.spans[{index}] = ({start}, {end}) gives {self.text[start:end]!r:.60}, "
                    f"but steps[{index}] is {step!r:.60}"
                )

    @property
    def response(self) -> str:
        """The response as text: ``text``, else the steps joined by a blank line."""
        return self.text if self.text is not None else "\n\n".join(self.steps)

    @property
    def step_spans(self) -> tuple[tuple[int, int], ...]:
        """Character spans of the steps in ``response``: ``response[a:b] == step``.

        Raises ValueError where ``text`` is given but ``spans`` are not: guessing would misplace repeated steps.
        """
        if self.spans or not self.steps:
            return self.spans
        if self.text is not None:
            raise ValueError("Rollout.spans are missing; split the text with stepgauge.data.split, which returns them")
        spans, at = [], 0
        for step in self.steps:
            spans.append((at, at + len(step)))
            at += len(step) + 2
        return tuple(spans)

    def __repr__(self) -> str:
        gold = "" if self.gold is None else f", gold={self.gold!r:.40}"
        return f"Rollout(id={self.id!r}, problem={self.problem!r:.40}, {len(self.steps)} steps{gold})"

    def _repr_html_(self) -> str:
        from stepgauge._html import rollout_html

        return rollout_html(self)


def rollout_key(rollout: Rollout) -> str:
    """Content key of a rollout for caches: blake2b-128 of its canonical JSON, as 32 hex digits.

    Everything a scorer may read takes part; ``id`` and ``meta`` do not. Join it with ``Scorer.fingerprint`` to key a
    score. Raises TypeError where ``reference`` has no ``to_json``.

    Example:
        >>> rollout_key(Rollout("p", ("a",), id="x")) == rollout_key(Rollout("p", ("a",), id="y"))
        True
    """
    reference = rollout.reference
    if reference is not None:
        to_json = getattr(reference, "to_json", None)
        if to_json is None:
            raise TypeError(
                f"Rollout.reference of type {type(reference).__name__} has no to_json(); add one to cache it"
            )
        reference = to_json()
    content = [
        rollout.problem,
        rollout.steps,
        rollout.gold,
        reference,
        rollout.text,
        rollout.spans,
        rollout.token_ids,
    ]
    return _digest(content)


def _digest(content: object) -> str:
    canonical = json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.blake2b(canonical.encode("ascii"), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class StepScores:
    """The scores of one rollout, one a step, with the reason wherever there is none.

    Args:
        values: (S,) finite numbers; None = this step was not scored.
        kind: what the numbers mean, see ``KINDS``.
        status: "ok" = at least one step scored; "abstain" = nothing to judge; "error" = the scorer failed.
        reasons: (S,) a code of ``REASONS`` for every unscored step, None for a scored one.
        error_step: index of the first wrong step, -1 for none; only from scorers that know.
        summary: facts about the whole rollout (a verdict, what failed).
        details: (S,) facts about each step (the parsed claim, the token span).

    Raises:
        ValueError: lengths that differ, a NaN or infinite value, an unknown code, or a status that contradicts values.

    Example:
        >>> scores = StepScores((1.0, None, 0.0), "correctness", reasons=(None, "no_claim", None))
        >>> scores.aggregate(), scores.first_error(), scores.coverage
        (0.0, 2, 0.6666666666666666)
    """

    values: tuple[float | None, ...]
    kind: Kind
    status: Status = "ok"
    reasons: tuple[Reason | None, ...] = ()
    error_step: int | None = None
    summary: Mapping[str, Any] = field(default_factory=dict)
    details: tuple[Mapping[str, Any], ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"StepScores.kind must be one of {', '.join(KINDS)}; got {self.kind!r}")
        if self.status not in get_args(Status):
            raise ValueError(f"StepScores.status must be one of {', '.join(get_args(Status))}; got {self.status!r}")
        values = tuple(None if value is None else float(value) for value in self.values)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "reasons", tuple(self.reasons) or (None,) * len(values))
        object.__setattr__(self, "details", tuple(self.details) or ({},) * len(values))
        for name in ("reasons", "details"):
            if len(getattr(self, name)) != len(values):
                got = len(getattr(self, name))
                raise ValueError(f"StepScores.{name} must have one entry a step: {len(values)} values, {got} {name}")
        for index, (value, reason) in enumerate(zip(values, self.reasons, strict=True)):
            self._check_step(index, value, reason)
        scored = any(value is not None for value in values)
        if scored != (self.status == "ok"):
            found = "has scored steps" if scored else "has none"
            raise ValueError(
                f"StepScores.status {self.status!r} contradicts values, which {found}; 'ok' means at least one step "
                "scored, 'abstain' and 'error' mean none; without steps: StepScores.abstain(0, kind, 'no_claim')"
            )
        if self.error_step is not None and not -1 <= self.error_step < len(values):
            raise ValueError(f"StepScores.error_step must be -1..{len(values) - 1}, got {self.error_step}")

    @staticmethod
    def _check_step(index: int, value: float | None, reason: str | None) -> None:
        if value is not None and not math.isfinite(value):
            raise ValueError(f"StepScores.values[{index}] must be finite, got {value}; use None and a reason instead")
        if reason is not None and reason not in REASONS:
            raise ValueError(f"StepScores.reasons[{index}] must be one of {', '.join(REASONS)}; got {reason!r}")
        if (value is None) != (reason is not None):
            raise ValueError(
                f"step {index}: value {value} with reason {reason!r}; an unscored step (None) carries a reason, "
                "a scored one does not"
            )

    @classmethod
    def abstain(cls, n_steps: int, kind: Kind, reason: Reason, **summary: Any) -> StepScores:
        """Nothing to judge: ``n_steps`` unscored steps with one reason."""
        return cls((None,) * n_steps, kind, "abstain", (reason,) * n_steps, summary={"reason": reason, **summary})

    @classmethod
    def error(cls, n_steps: int, kind: Kind, reason: Reason, message: str) -> StepScores:
        """The scorer failed: ``n_steps`` unscored steps; ``summary`` says what happened."""
        summary = {"reason": reason, "message": message}
        return cls((None,) * n_steps, kind, "error", (reason,) * n_steps, summary=summary)

    @property
    def coverage(self) -> float:
        """Share of the steps that were scored, in [0, 1]; 0 for a rollout without steps."""
        return sum(value is not None for value in self.values) / len(self.values) if self.values else 0.0

    def aggregate(self, how: str | None = None, *, temperature: float = 0.1) -> float | None:
        """One number; ``how`` defaults to ``summary["aggregate"]``, else the kind's rule. See ``aggregate_steps``."""
        rule = how or self.summary.get("aggregate", KINDS[self.kind].aggregate)
        return aggregate_steps(self.values, rule, temperature=temperature)

    def first_error(self, threshold: float | None = None) -> int:
        """Index of the first wrong step, -1 for none (ProcessBench's convention).

        ``error_step`` where the scorer knows it; else the first scored step below ``threshold`` (summary's or kind's).

        Raises:
            ValueError: no ``error_step``, and no step was scored, or there is no threshold: neither given nor usual for
                the kind.
        """
        if self.error_step is not None:
            return self.error_step
        threshold = self.summary.get("threshold", KINDS[self.kind].threshold) if threshold is None else threshold
        if threshold is None:
            raise ValueError(f"scores of kind {self.kind!r} have no usual threshold; pass threshold=")
        if self.status != "ok":
            raise ValueError(f"no step was scored ({self.status}: {self.summary.get('reason')}); check .status first")
        below = (i for i, value in enumerate(self.values) if value is not None and value < threshold)
        return next(below, -1)

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{v:.3g}" if v is not None else f"None({r})"
            for v, r in list(zip(self.values, self.reasons, strict=True))[:8]
        )
        more = f", … {len(self.values)} steps" if len(self.values) > 8 else ""
        return f"StepScores({self.kind}, {self.status}, [{shown}{more}])"

    def _repr_html_(self) -> str:
        from stepgauge._html import scores_html

        return scores_html(self)


class Session:
    """A rollout being written, scored as it grows: ``extend`` by a step, ``fork`` to branch, ``close`` when done.

    The base class rescores the whole prefix; scorers on language models keep their key-value cache instead.

    Example:
        >>> from stepgauge import load
        >>> session = load("arithmetic").open(Rollout("", ()))
        >>> session.extend("2 + 2 = 4").values, session.extend("4 * 2 = 9").values
        ((1.0,), (1.0, 0.0))
    """

    def __init__(self, scorer: Scorer, prefix: Rollout) -> None:
        self.scorer = scorer
        self.rollout = prefix

    def extend(self, step: str) -> StepScores:
        """Add one step and return the scores of all steps so far."""
        return self.scorer.extend_batch([self], [step])[0]

    def fork(self) -> Session:
        """An independent session with the same steps."""
        return type(self)(self.scorer, self.rollout)

    def close(self) -> None:
        """Free what the session holds."""


class Scorer(ABC):
    """Scores the steps of rollouts. A subclass writes ``score_batch`` and names itself.

    Constructors only store their parameters, under the same names; whatever is loaded on first use lives in
    attributes that begin with an underscore and have a class-level default, so that pickling keeps the parameters only.
    Scorers are safe to share between threads. ``stepgauge.testing.check_scorer`` tests all of this.
    """

    name: str
    kind: Kind

    @property
    def fingerprint(self) -> str:
        """Digest of everything that changes a score; with ``rollout_key`` it makes a cache key."""
        return _digest([type(self).__module__, type(self).__qualname__, __version__, self.__getstate__()])

    @abstractmethod
    def score_batch(
        self, rollouts: Sequence[Rollout], *, deadline_s: float | None = None, progress: Progress | None = None
    ) -> list[StepScores]:
        """Score many rollouts; the results keep order and length.

        Args:
            rollouts: what to score. One bad rollout never raises; its result says what went wrong.
            deadline_s: seconds from now after which the rest comes back as status "error", reason "timeout".
            progress: called with the number of rollouts finished since the last call.
        """

    def score(
        self, steps: Sequence[str], *, problem: str = "", gold: str | None = None, reference: object | None = None
    ) -> StepScores:
        """Score one solution, given as its steps.

        Raises:
            TypeError: ``steps`` is one string, or holds something else than strings.
        """
        rollout = Rollout(problem, steps, gold=gold, reference=reference)  # type: ignore[arg-type]  # made a tuple there
        return self.score_batch([rollout])[0]

    async def ascore_batch(
        self, rollouts: Sequence[Rollout], *, deadline_s: float | None = None, progress: Progress | None = None
    ) -> list[StepScores]:
        """``score_batch`` in a thread, for an event loop that must not wait."""
        import asyncio

        return await asyncio.to_thread(self.score_batch, rollouts, deadline_s=deadline_s, progress=progress)

    def score_iter(self, rollouts: Iterable[Rollout], *, batch_size: int = 256) -> Iterator[StepScores]:
        """Score a stream; holds ``batch_size`` rollouts at a time."""
        batch: list[Rollout] = []
        for rollout in rollouts:
            batch.append(rollout)
            if len(batch) == batch_size:
                yield from self.score_batch(batch)
                batch = []
        yield from self.score_batch(batch)

    def open(self, prefix: Rollout) -> Session:
        """Start scoring a rollout step by step."""
        return Session(self, prefix)

    def extend_batch(self, sessions: Sequence[Session], steps: Sequence[str]) -> list[StepScores]:
        """Extend each session by its step (a beam at once); sessions and steps pair up, each session once.

        Raises ValueError for lengths that differ, or a session given twice (fork it first).
        """
        distinct = len({id(session) for session in sessions})
        if not len(sessions) == len(steps) == distinct:
            raise ValueError(
                f"extend_batch needs one step a session, each session once; got {len(sessions)} sessions ({distinct} "
                f"distinct) and {len(steps)} steps; fork() makes a branch"
            )
        grown = [
            replace(s.rollout, steps=(*s.rollout.steps, step), text=None, spans=(), token_ids=None)
            for s, step in zip(sessions, steps, strict=True)
        ]
        scores = self.score_batch(grown)
        for session, rollout in zip(sessions, grown, strict=True):
            session.rollout = rollout
        return scores

    def close(self) -> None:  # noqa: B027  # most scorers hold nothing
        """Free models, pools and connections; the scorer loads them again if used again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def __repr__(self) -> str:
        spec = ", ".join(f"{name}={value!r}" for name, value in self.__getstate__().items())
        return f"{type(self).__name__}({spec})"


def score_each(
    judge: Callable[[Rollout], StepScores],
    rollouts: Sequence[Rollout],
    *,
    kind: Kind,
    deadline_s: float | None = None,
    progress: Progress | None = None,
) -> list[StepScores]:
    """``score_batch`` for a scorer that judges one rollout at a time.

    A rollout on which ``judge`` raises becomes status "error", reason "internal"; those left when the deadline passes
    become "error", "timeout". Example: ``return score_each(self._judge, rollouts, kind=self.kind)``.
    """
    stop = math.inf if deadline_s is None else time.monotonic() + deadline_s
    results = []
    for index, rollout in enumerate(rollouts):
        if not isinstance(rollout, Rollout):
            raise TypeError(
                f"score_batch takes Rollout objects; rollouts[{index}] is a {type(rollout).__name__}; "
                "stepgauge.data.from_row builds one from a row"
            )
        steps = len(rollout.steps)
        if time.monotonic() >= stop:
            results.append(StepScores.error(steps, kind, "timeout", f"deadline of {deadline_s} s passed"))
        else:
            try:
                results.append(judge(rollout))
            except Exception as error:
                results.append(StepScores.error(steps, kind, "internal", f"{type(error).__name__}: {error}"))
        if progress is not None:
            progress(1)
    return results
