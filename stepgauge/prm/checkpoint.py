"""``MCPRM``: a discriminative process reward model, read as its authors read it."""

from __future__ import annotations

import hashlib
import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from stepgauge import __version__
from stepgauge.lm import enable_tree, hidden_states, model_folder, placement, row_batches, weights_fingerprint
from stepgauge.prm.calibration import Calibration
from stepgauge.prm.conventions import Convention, choose_convention
from stepgauge.prm.heads import Head, load_head, read_scores
from stepgauge.prm.layouts import PassLayout, StepLayout, build_layout
from stepgauge.prm.lengths import LengthPolicy, Pass, check_policy, plan_passes
from stepgauge.prm.weights import checkpoint_names, context_of, head_tensors, load_body
from stepgauge.prm.writing import TokenWriter
from stepgauge.scoring import KINDS, Kind, Progress, Reason, Rollout, Scorer, Session, StepScores

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["MCPRM"]

PROBES = (
    ("What is 2 + 3?", ("2 + 3 = 5.", "The answer is 5.")),
    ("What is 2 + 3?", ("Bananas are blue, so 2 + 3 = 71.", "3 = 4 and the answer is a fish.")),
)
CONSTANT = 1e-3  # spread of the log-odds over PROBES below which a model says the same of everything
Found = tuple[float, float, tuple[int, int]]  # score, log-odds, token span


@dataclass(frozen=True, slots=True)
class _Loaded:
    convention: Convention
    body: Any
    head: Head
    layout: StepLayout | PassLayout
    context: int
    calibration: Calibration | None
    vocabulary: int


@dataclass(slots=True)
class _Plan:
    """A rollout on its way: its sequences, the scores read so far, and why a step has none."""

    passes: list[Pass]
    reasons: dict[int, Reason]
    found: dict[int, Found] = field(default_factory=dict)
    failure: tuple[Reason, str] | None = None
    left: int = 0


class MCPRM(Scorer):
    """A process reward model with a head of its own or label tokens, most of them trained on Monte-Carlo labels.

    The convention (prompt, tag, head, position, meaning) follows from the checkpoint's name or its head tensors; see
    ``stepgauge.prm.CONVENTIONS``. ``summary`` holds it with its authors' aggregate and threshold, which are the
    defaults of ``StepScores.aggregate`` and ``first_error``; ``details`` of each step hold ``log_odds`` (nats) and
    ``token_span`` (first, last exclusive, in the sequence that was read).

    At first use the model proves itself: every head tensor there and none left over, positions not lost, tags single
    tokens, and two different solutions scored differently; else every rollout is an error "model" that says which.

    Args:
        model: a folder with safetensors, or a hub name.
        convention: a name of ``CONVENTIONS`` or a ``Convention``, where the checkpoint does not tell or tells wrongly.
        device: "cpu", "cuda", ...; "auto" spreads a large model over the devices (needs accelerate).
        dtype, download: as in ``stepgauge.lm.load_causal_lm``.
        length: beyond the context "error" (nothing is scored), "window" or "drop_leading"; see ``plan_passes``.
        max_tokens: distinct tokens of a forward pass; halved when memory runs out.
        calibration: file of a ``Calibration`` to apply to the log-odds.
        compile: run the body through torch.compile.

    Example:
        >>> prm = MCPRM("Qwen/Qwen2.5-Math-PRM-7B", device="cuda")  # doctest: +SKIP
        >>> prm.score(["2 + 2 = 4.", "So the answer is 5."], problem="What is 2 + 2?").values  # doctest: +SKIP
        (0.99, 0.02)

    References: Wang et al. 2024, https://arxiv.org/abs/2312.08935; Zhang et al. 2025, https://arxiv.org/abs/2501.07301.
    """

    _lock: ClassVar[threading.RLock] = threading.RLock()
    _loaded: _Loaded | None = None
    _chosen: Convention | None = None
    _fingerprint: str | None = None

    def __init__(
        self,
        model: str,
        *,
        convention: str | Convention | None = None,
        device: str | None = None,
        dtype: str | None = None,
        download: bool = False,
        length: LengthPolicy = "error",
        max_tokens: int = 4096,
        calibration: str | None = None,
        compile: bool = False,
    ) -> None:
        check_policy(length)
        self.model = model
        self.convention = convention
        self.device = device
        self.dtype = dtype
        self.download = download
        self.length = length
        self.max_tokens = max_tokens
        self.calibration = calibration
        self.compile = compile

    @property
    def name(self) -> str:  # type: ignore[override]  # known once the convention is
        """prm and its family."""
        return f"prm-{self._convention().name}"

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        """What the convention's numbers mean."""
        return self._convention().kind

    @property
    def fingerprint(self) -> str:
        """Digest of weights, tokenizer, convention, calibration, length policy, dtype, device type and version."""
        if self._fingerprint is None:
            weights = weights_fingerprint(model_folder(self.model, download=self.download))
            device, dtype = placement(self.device, self.dtype)
            calibrated = Path(self.calibration).read_text(encoding="utf-8") if self.calibration else ""
            place = device.partition(":")[0]
            spec = f"{__version__} {self._convention()} {place} {dtype} {weights} {self.length} {calibrated}"
            self._fingerprint = hashlib.blake2b(spec.encode(), digest_size=16).hexdigest()
        return self._fingerprint

    def close(self) -> None:
        self._loaded = None

    def _convention(self) -> Convention:
        if self._chosen is None:
            folder = model_folder(self.model, download=self.download)
            names = checkpoint_names(self.model, folder)
            self._chosen = choose_convention(names, head_tensors(folder), self.convention)
        return self._chosen

    def _load(self) -> _Loaded:
        with self._lock:
            if self._loaded is None:
                loaded = self._read()
                _probe(loaded)
                self._loaded = loaded
            return self._loaded

    def _read(self) -> _Loaded:
        import torch
        from transformers import AutoTokenizer

        convention = self._convention()
        folder = model_folder(self.model, download=self.download)
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        writer = TokenWriter(tokenizer)
        layout = build_layout(convention, writer)
        head = load_head(folder, convention, writer)
        calibration = Calibration.load(self.calibration) if self.calibration else None
        body = load_body(folder, device=self.device, dtype=self.dtype)
        enable_tree(body)
        size = int(body.get_input_embeddings().weight.shape[0])
        context = context_of(body)
        if self.compile:
            body = torch.compile(body, dynamic=True)
        return _Loaded(convention, body, head, layout, context, calibration, size)

    def score_batch(
        self, rollouts: Sequence[Rollout], *, deadline_s: float | None = None, progress: Progress | None = None
    ) -> list[StepScores]:
        if not rollouts:
            return []
        stop = math.inf if deadline_s is None else time.monotonic() + deadline_s
        report = progress or (lambda finished: None)
        try:
            loaded = self._load()
        except Exception as error:
            report(len(rollouts))
            return [self._error(rollout, "model", f"{type(error).__name__}: {error}") for rollout in rollouts]
        plans = [_plan(loaded, rollout, self.length) for rollout in rollouts]
        work = [(index, one) for index, plan in enumerate(plans) for one in plan.passes]
        report(sum(not plan.left for plan in plans))
        rows = [one.ids for _, one in work]
        for positions, outcome in _run_all(loaded, rows, [one.reads for _, one in work], self.max_tokens, stop):
            for position in positions:
                plan, one = plans[work[position][0]], work[position][1]
                if isinstance(outcome, Exception):
                    late = isinstance(outcome, TimeoutError)
                    message = "the deadline passed" if late else f"{type(outcome).__name__}: {outcome}"
                    plan.failure = "timeout" if late else "model", message
                else:
                    plan.found |= {
                        step: (*found, (first, last))
                        for (step, first, last), found in zip(one.reads, outcome[position], strict=True)
                    }
                plan.left -= 1
                report(plan.left == 0)
        return [self._scores(loaded, rollout, plan) for rollout, plan in zip(rollouts, plans, strict=True)]

    def _error(self, rollout: Rollout, reason: Reason, message: str) -> StepScores:
        try:
            kind = self.kind
        except Exception:  # the checkpoint cannot be found or told: that is the message
            kind = "correctness"
        return StepScores.error(len(rollout.steps), kind, reason, message)

    def _scores(self, loaded: _Loaded, rollout: Rollout, plan: _Plan) -> StepScores:
        if plan.failure is not None:
            return self._error(rollout, *plan.failure)
        return _step_scores(loaded, len(rollout.steps), plan.found, plan.reasons)

    def open(self, prefix: Rollout) -> Session:
        """A session that keeps the keys and values of its prefix; see ``PrefixSession``."""
        from stepgauge.prm.sessions import PrefixSession

        return PrefixSession(self, prefix)

    def extend_batch(self, sessions: Sequence[Session], steps: Sequence[str]) -> list[StepScores]:
        from stepgauge.prm.sessions import extend_all

        return extend_all(self, sessions, steps)


def _plan(loaded: _Loaded, rollout: Rollout, policy: LengthPolicy) -> _Plan:
    """The sequences of a rollout. Raises nothing: what goes wrong is the rollout's own result."""
    try:
        plan = _Plan(*_passes(loaded, rollout, policy))
        highest = max((max(one.ids) for one in plan.passes), default=0)
        if highest >= loaded.vocabulary:
            raise ValueError(f"token {highest} is not in the model's vocabulary of {loaded.vocabulary}")
    except Exception as error:
        return _Plan([], {}, failure=("internal", f"{type(error).__name__}: {error}"))
    plan.left = len(plan.passes)
    return plan


def _passes(loaded: _Loaded, rollout: Rollout, policy: LengthPolicy) -> tuple[list[Pass], dict[int, Reason]]:
    layout, steps = loaded.layout, rollout.steps
    if not steps:
        return [], {}
    prompt = layout.prompt(rollout.problem)
    if not isinstance(layout, PassLayout):

        def step_ids(index: int, first: bool) -> list[int]:
            return layout.step(rollout.problem, steps[index], index, first=first)

        return plan_passes(prompt, step_ids, len(steps), loaded.context, policy)
    passes: list[Pass] = []
    reasons: dict[int, Reason] = {}
    for index in range(len(steps)):
        starts = [0] if policy == "error" else range(index + 1)
        for first in starts:
            ids = (*prompt, *layout.until(steps[first : index + 1]))
            if len(ids) <= loaded.context:
                passes.append(Pass(ids, ((index, len(prompt), len(ids)),)))
                break
        else:
            reasons[index] = "too_large"
    if policy == "error" and reasons:
        return [], dict.fromkeys(range(len(steps)), "too_large")
    return passes, reasons


Reads = Sequence[tuple[int, int, int]]
Outcome = dict[int, list[tuple[float, float]]] | Exception


def _run_all(
    loaded: _Loaded, rows: Sequence[Sequence[int]], reads: Sequence[Reads], max_tokens: int, stop: float
) -> Iterator[tuple[list[int], Outcome]]:
    """Batches of positions with their outcome; a batch that fails is tried one by one, memory errors in halves."""
    import torch

    todo = list(range(len(rows)))
    while todo:
        done: list[int] = []
        for batch in row_batches(loaded.body, [rows[index] for index in todo], max_tokens):
            positions = [todo[index] for index in batch]
            if time.monotonic() >= stop:
                yield positions, TimeoutError()
                done += positions
                continue
            try:
                yield positions, _read_batch(loaded, rows, reads, positions)
            except torch.OutOfMemoryError as error:
                if max_tokens <= 1 or len(positions) == 1:
                    yield positions, error
                else:
                    max_tokens //= 2
                    break
            except Exception as error:
                for position in positions:
                    yield [position], _alone(loaded, rows, reads, position) if len(positions) > 1 else error
            done += positions
        finished = set(done)
        todo = [index for index in todo if index not in finished]


def _alone(loaded: _Loaded, rows: Sequence[Sequence[int]], reads: Sequence[Reads], position: int) -> Outcome:
    try:
        return _read_batch(loaded, rows, reads, [position])
    except Exception as error:
        return error


def _read_batch(
    loaded: _Loaded, rows: Sequence[Sequence[int]], reads: Sequence[Reads], positions: Sequence[int]
) -> Outcome:
    """The body once over the batch, the head at the states that are read."""
    import torch

    with torch.inference_mode():
        states = hidden_states(loaded.body, [rows[position] for position in positions])
        picked = [
            of_row[[last - 1 for _, _, last in reads[position]]]
            for of_row, position in zip(states, positions, strict=True)
        ]
        scores = _read(loaded, torch.cat(picked))
    found: dict[int, list[tuple[float, float]]] = {}
    start = 0
    for position in positions:
        count = len(reads[position])
        found[position] = scores[start : start + count]
        start += count
    return found


def _read(loaded: _Loaded, states: Tensor) -> list[tuple[float, float]]:
    """(score, log-odds) of each of (P, H) states."""
    import torch

    with torch.inference_mode():
        values, odds = read_scores(loaded.head(states), loaded.convention)
    pairs = list(zip(values.tolist(), odds.tolist(), strict=True))
    if loaded.calibration is not None:
        pairs = [(loaded.calibration.probability(odd), odd) for _, odd in pairs]
    return pairs


def _step_scores(
    loaded: _Loaded, n_steps: int, found: Mapping[int, Found], reasons: Mapping[int, Reason]
) -> StepScores:
    row = loaded.convention
    signed = row.reading == "signed" and loaded.calibration is None
    summary: dict[str, Any] = {
        "convention": row.name,
        "aggregate": row.aggregate,
        "threshold": row.threshold if signed else KINDS[row.kind].threshold,
    }
    if any(not math.isfinite(odds) for _, odds, _ in found.values()):
        return StepScores.error(n_steps, row.kind, "model", "the model gave a score that is not finite")
    if not found:
        if "too_large" in reasons.values():
            message = f"longer than the model's context of {loaded.context} tokens; choose length='window'"
            return StepScores.error(n_steps, row.kind, "too_large", message)
        return StepScores.abstain(n_steps, row.kind, "no_claim", **summary)
    return StepScores(
        tuple(found[step][0] if step in found else None for step in range(n_steps)),
        row.kind,
        "ok",
        tuple(None if step in found else reasons[step] for step in range(n_steps)),
        summary=summary,
        details=tuple(
            {"log_odds": found[step][1], "token_span": found[step][2]} if step in found else {}
            for step in range(n_steps)
        ),
    )


def _probe(loaded: _Loaded) -> None:
    """Raise where the model cannot be what it says: scores that are not finite, or the same for everything."""
    odds: list[float] = []
    for problem, steps in PROBES:
        for one in _passes(loaded, Rollout(problem, steps), "error")[0]:
            outcome = _read_batch(loaded, [one.ids], [one.reads], [0])
            assert isinstance(outcome, dict)
            odds += [log_odds for _, log_odds in outcome[0]]
    if not odds:
        raise ValueError(f"the context of {loaded.context} tokens is too short for any solution")
    if not all(map(math.isfinite, odds)):
        raise ValueError("the model scores a plain solution with a number that is not finite; its weights are broken")
    if max(odds) - min(odds) < CONSTANT:
        raise ValueError(
            f"the model gives the same score ({1 / (1 + math.exp(-odds[0])):.5f}) to different solutions; its weights, "
            "its position buffers or its head are broken, or the convention is another checkpoint's"
        )
