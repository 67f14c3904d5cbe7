"""``ImplicitPRM``: two causal language models answer ``score(steps)`` by their log-ratio."""

from __future__ import annotations

import hashlib
import math
import os
import secrets
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from stepgauge import __version__
from stepgauge.data.alignment import step_token_spans, token_spans
from stepgauge.lm import (
    enable_tree,
    hidden_states,
    load_causal_lm,
    model_folder,
    placement,
    row_batches,
    weights_fingerprint,
)
from stepgauge.prm.implicit import ImplicitRewards, implicit_rewards
from stepgauge.prm.weights import context_of
from stepgauge.prm.writing import TokenWriter
from stepgauge.scoring import Kind, Progress, Reason, Rollout, Scorer, StepScores

if TYPE_CHECKING:
    from torch import Tensor

    from stepgauge.kernels import Head

__all__ = ["ImplicitPRM"]

Mode = Literal["single", "cumulative"]
PROBLEM, ANSWER = "\ue000q\ue000", "\ue000a\ue000"  # stand in the chat template for what is filled in


@dataclass(frozen=True, slots=True)
class _Encoded:
    """A rollout as tokens; those from ``start`` on are rewarded, step k ends before token ``ends[k]``."""

    ids: list[int]
    start: int
    ends: list[int]
    counts: list[int]  # tokens of each step itself
    response: int  # index of the response's first token


@dataclass(frozen=True, slots=True)
class _Loaded:
    model: Any
    reference: Any | None
    writer: TokenWriter
    vocabulary: int
    context: int


class ImplicitPRM(Scorer):
    r"""A step's reward is β ln π_θ/π_ref of its tokens; any model trained on outcomes with that ratio is a PRM.

    ``mode="single"`` gives each step its own sum, ``"cumulative"`` the sum so far, q. ``details`` hold ``reward``,
    ``cumulative``, ``n_tokens`` and ``token_span`` (first, last exclusive, in the response). Steps are found by
    character offsets, so no step's sum holds a token of a later one. The policy's own ``token_ids`` are used where the
    rollout has them. Without a reference the log-probability itself takes the ratio's place, which loses little only
    where the model was tuned on preferences.

    Args:
        model: the implicit PRM; a folder, hub name or .gguf file.
        reference: the model it was trained from, with the same tokenizer; None = reference-free.
        beta: scale of the reward.
        mode: "single" or "cumulative".
        numbered: put "Step k: " before each step, as EurusPRM was trained; ``token_ids`` are then not used.
        compat: "eurus_card" = token ranges of EurusPRM's published code, to reproduce its numbers. There a step's sum
            also holds the chat template's tokens and the first token of the next step.
        reference_cache: a folder where the reference's log-probabilities are kept, so that it runs once a rollout.
        device, dtype, download: as in ``stepgauge.lm.load_causal_lm``.
        max_tokens: distinct tokens of a forward pass.

    Example:
        >>> prm = ImplicitPRM("PRIME-RL/EurusPRM-Stage2", "Qwen/Qwen2.5-Math-7B-Instruct")  # doctest: +SKIP
        >>> prm.score(["2 + 2 = 4."], problem="What is 2 + 2?").values  # doctest: +SKIP
        (0.03,)

    References: Yuan et al. 2024, https://arxiv.org/abs/2412.01981.
    """

    name = "implicit"
    kind: Kind = "log_ratio"

    _lock: ClassVar[threading.RLock] = threading.RLock()
    _loaded: _Loaded | None = None
    _fingerprint: str | None = None

    def __init__(
        self,
        model: str,
        reference: str | None = None,
        *,
        beta: float = 0.05,
        mode: Mode = "single",
        numbered: bool = False,
        compat: Literal["eurus_card"] | None = None,
        reference_cache: str | None = None,
        device: str | None = None,
        dtype: str | None = None,
        download: bool = False,
        max_tokens: int = 4096,
    ) -> None:
        if mode not in ("single", "cumulative"):
            raise ValueError(f"ImplicitPRM(mode) must be 'single' or 'cumulative', got {mode!r}")
        if compat not in (None, "eurus_card"):
            raise ValueError(f"ImplicitPRM(compat) must be None or 'eurus_card', got {compat!r}")
        self.model = model
        self.reference = reference
        self.beta = beta
        self.mode = mode
        self.numbered = numbered
        self.compat = compat
        self.reference_cache = reference_cache
        self.device = device
        self.dtype = dtype
        self.download = download
        self.max_tokens = max_tokens

    @property
    def fingerprint(self) -> str:
        """Digest of both models, tokenizer, template, beta, mode, ranges, dtype, device type and version."""
        if self._fingerprint is None:
            device, dtype = placement(self.device, self.dtype)
            weights = [self._weights(name) for name in (self.model, self.reference) if name is not None]
            options = [self.beta, self.mode, self.numbered, self.compat, dtype, device.partition(":")[0]]
            spec = f"{type(self).__qualname__} {__version__} {weights} {options}"
            self._fingerprint = hashlib.blake2b(spec.encode(), digest_size=16).hexdigest()
        return self._fingerprint

    def _weights(self, model: str) -> str:
        return weights_fingerprint(model_folder(model, download=self.download))

    def close(self) -> None:
        self._loaded = None

    def _load(self) -> _Loaded:
        with self._lock:
            if self._loaded is None:
                self._loaded = self._read()
            return self._loaded

    def _read(self) -> _Loaded:
        from stepgauge.kernels.scorer import prove_head

        place = {"device": self.device, "dtype": self.dtype, "download": self.download}
        model, tokenizer = load_causal_lm(self.model, **place)  # type: ignore[arg-type]
        reference, vocab = None, tokenizer.get_vocab()
        if self.reference is not None:
            reference, other = load_causal_lm(self.reference, **place)  # type: ignore[arg-type]
            if other.get_vocab() != vocab:
                raise ValueError(
                    f"{self.model} and {self.reference} have different vocabularies; a log-ratio needs the same tokens"
                )
        models = [model] if reference is None else [model, reference]
        size = min(max(vocab.values()) + 1, *(len(one.get_output_embeddings().weight) for one in models))
        for one in models:
            prove_head(one, size)
            enable_tree(one)
        return _Loaded(model, reference, TokenWriter(tokenizer), size, min(map(context_of, models)))

    def score_batch(
        self, rollouts: Sequence[Rollout], *, deadline_s: float | None = None, progress: Progress | None = None
    ) -> list[StepScores]:
        results: dict[int, StepScores] = {}
        report = progress or (lambda finished: None)
        for index, encoded, outcome in self._rewards(rollouts, deadline_s):
            steps = len(rollouts[index].steps)
            if isinstance(outcome, ImplicitRewards):
                assert encoded is not None
                results[index] = self._scores(encoded, outcome, steps)
            elif outcome is None:
                results[index] = StepScores.abstain(steps, self.kind, "no_claim")
            else:
                results[index] = StepScores.error(steps, self.kind, *outcome)
            report(1)
        return [results[index] for index in range(len(rollouts))]

    def token_rewards(self, rollouts: Sequence[Rollout]) -> list[Tensor | None]:
        """(R,) β ln π_θ/π_ref of each response token, in the order of ``token_ids`` where given; for dense RL rewards.

        None for a rollout that could not be scored; tokens beyond the context are left out.
        """
        found: dict[int, Tensor | None] = {}
        for index, encoded, outcome in self._rewards(rollouts, None):
            rewarded = isinstance(outcome, ImplicitRewards) and encoded is not None
            found[index] = outcome.token[max(0, encoded.response - encoded.start) :] if rewarded else None  # type: ignore[union-attr]
        return [found[index] for index in range(len(rollouts))]

    def _rewards(
        self, rollouts: Sequence[Rollout], deadline_s: float | None
    ) -> Iterator[tuple[int, _Encoded | None, ImplicitRewards | tuple[Reason, str] | None]]:
        """(index, tokens, rewards or why there are none) of each rollout, in any order."""
        stop = math.inf if deadline_s is None else time.monotonic() + deadline_s
        encoded: dict[int, _Encoded] = {}
        try:
            loaded = self._load() if rollouts else None
        except Exception as error:
            yield from ((index, None, ("model", _told(error))) for index in range(len(rollouts)))
            return
        for index, rollout in enumerate(rollouts):
            assert loaded is not None
            if not rollout.steps or not any(rollout.steps):
                yield index, None, None
                continue
            try:
                encoded[index] = self._encode(loaded, rollout)
            except Exception as error:
                yield index, None, ("internal", _told(error))
        if loaded is None or not encoded:
            return
        order = list(encoded)
        for batch in row_batches(loaded.model, [encoded[index].ids for index in order], self.max_tokens):
            indices = [order[position] for position in batch]
            if time.monotonic() >= stop:
                yield from ((index, encoded[index], ("timeout", "the deadline passed")) for index in indices)
                continue
            yield from self._batch(loaded, {index: encoded[index] for index in indices})

    def _batch(
        self, loaded: _Loaded, items: Mapping[int, _Encoded]
    ) -> Iterator[tuple[int, _Encoded, ImplicitRewards | tuple[Reason, str]]]:
        try:
            ratios = self._log_ratios(loaded, list(items.values()))
        except Exception as error:
            if len(items) == 1:
                yield from ((index, item, ("model", _told(error))) for index, item in items.items())
            else:
                for index, item in items.items():
                    yield from self._batch(loaded, {index: item})
            return
        for (index, item), ratio in zip(items.items(), ratios, strict=True):
            if not bool(ratio.isfinite().all()):
                yield index, item, ("model", "the model gave a log-ratio that is not finite")
                continue
            ends = [min(end - item.start, len(ratio)) for end in item.ends]
            yield index, item, implicit_rewards(ratio, ratio.new_zeros(len(ratio)), ends, beta=self.beta)

    def _log_ratios(self, loaded: _Loaded, items: Sequence[_Encoded]) -> list[Tensor]:
        """(T,) log-ratio of each item's rewarded tokens, fp32."""
        if loaded.reference is None:
            return _log_probs(loaded, loaded.model, items)
        if self.reference_cache is None:
            return _pair_ratios(loaded, items)
        policy = _log_probs(loaded, loaded.model, items)
        return [a - b for a, b in zip(policy, self._cached_reference(loaded, items), strict=True)]

    def _cached_reference(self, loaded: _Loaded, items: Sequence[_Encoded]) -> list[Tensor]:
        import numpy as np
        import torch

        assert self.reference_cache is not None
        assert self.reference is not None
        folder = Path(self.reference_cache)
        folder.mkdir(parents=True, exist_ok=True)
        weights = f"{self._weights(self.reference)} {placement(self.device, self.dtype)}"
        paths = []
        for item in items:
            key = hashlib.blake2b(f"{weights} {item.start} {item.ids}".encode(), digest_size=16).hexdigest()
            paths.append(folder / f"{key}.npy")
        missing = [index for index, path in enumerate(paths) if not path.exists()]
        found = _log_probs(loaded, loaded.reference, [items[index] for index in missing]) if missing else []
        for index, values in zip(missing, found, strict=True):
            temporary = paths[index].with_suffix(f".{os.getpid()}.{secrets.token_hex(4)}.tmp")
            with temporary.open("wb") as stream:
                np.save(stream, values.numpy(), allow_pickle=False)
            temporary.replace(paths[index])
        return [torch.from_numpy(np.load(path, allow_pickle=False)) for path in paths]

    def _encode(self, loaded: _Loaded, rollout: Rollout) -> _Encoded:
        writer = loaded.writer
        steps = [f"Step {k}: {step}" for k, step in enumerate(rollout.steps, 1)] if self.numbered else rollout.steps
        item = _card(writer, rollout.problem, steps) if self.compat else self._plain(writer, rollout, steps)
        if max(item.ids) >= loaded.vocabulary:
            raise ValueError(f"token {max(item.ids)} is not in the models' vocabulary of {loaded.vocabulary}")
        if item.start >= loaded.context:
            raise ValueError(f"the problem alone is longer than the context of {loaded.context} tokens")
        return _Encoded(item.ids[: loaded.context], item.start, item.ends, item.counts, item.response)

    def _plain(self, writer: TokenWriter, rollout: Rollout, steps: Sequence[str]) -> _Encoded:
        written = Rollout("", steps) if self.numbered else rollout  # type: ignore[arg-type]
        prompt = _prompt(writer, rollout.problem)
        text = written.response
        own = written.token_ids
        response = list(own) if own is not None else writer.text(text)
        spans = token_spans(writer.tokenizer, response, text)
        ranges = step_token_spans(spans, written.step_spans)
        ends = [len(prompt) + last for _, last in ranges]
        counts = [last - first for first, last in ranges]
        return _Encoded([*prompt, *response], len(prompt), ends, counts, len(prompt))

    def _scores(self, item: _Encoded, rewards: ImplicitRewards, n_steps: int) -> StepScores:
        values: list[float | None] = []
        reasons: list[Reason | None] = []
        details: list[Mapping[str, Any]] = []
        chosen = (rewards.step if self.mode == "single" else rewards.cumulative).tolist()
        for index, (end, count) in enumerate(zip(item.ends, item.counts, strict=True)):
            reason: Reason | None = "no_claim" if count == 0 else "truncated" if end > len(item.ids) else None
            reasons.append(reason)
            values.append(chosen[index] if reason is None else None)
            details.append(
                {
                    "reward": float(rewards.step[index]),
                    "cumulative": float(rewards.cumulative[index]),
                    "n_tokens": count,
                    "token_span": (end - count - item.response, end - item.response),
                }
                if reason is None
                else {}
            )
        if all(value is None for value in values):
            reason = next((one for one in reasons if one == "truncated"), "no_claim")
            return StepScores.abstain(n_steps, self.kind, reason or "no_claim")
        return StepScores(tuple(values), self.kind, "ok", tuple(reasons), details=tuple(details))


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _prompt(writer: TokenWriter, problem: str) -> list[int]:
    if writer.tokenizer.chat_template:
        text = writer.chat([{"role": "user", "content": PROBLEM}], generate=True)
        return writer.template(text, {PROBLEM: problem})
    return [*writer.begin, *writer.text(f"{problem}\n\n", fresh=True)]


def _card(writer: TokenWriter, problem: str, steps: Sequence[str]) -> _Encoded:
    """Token ranges of EurusPRM's published code: each prefix is rendered, a blank line added, its length less one
    taken as the step's last token; rewards begin two tokens before the end of the rendering without steps."""
    turns = [{"role": "user", "content": PROBLEM}, {"role": "assistant", "content": ANSWER}]
    rendered = writer.chat(turns, generate=False)

    def ids(count: int, text: str) -> list[int]:
        return writer.template(text, {PROBLEM: problem, ANSWER: "\n\n".join(steps[:count])})

    whole = ids(len(steps), rendered)
    short = rendered.strip()
    lengths = [len(ids(count, short + ("\n\n" if count < len(steps) else ""))) for count in range(1, len(steps) + 1)]
    ends = [min(length, len(whole)) for length in lengths]
    start = len(ids(0, short)) - 2
    counts = [end - first for first, end in zip([start, *ends], ends, strict=False)]
    return _Encoded(whole, start, ends, counts, len(_prompt(writer, problem)))


def _states(model: Any, items: Sequence[_Encoded]) -> Tensor:
    """(tokens, H): the state before each rewarded token."""
    import torch

    states = hidden_states(model, [item.ids[:-1] for item in items])
    return torch.cat([of_item[item.start - 1 :] for of_item, item in zip(states, items, strict=True)])


def _targets(items: Sequence[_Encoded], device: Any) -> tuple[Tensor, list[int]]:
    import torch

    parts = [item.ids[item.start :] for item in items]
    return torch.tensor([token for part in parts for token in part], device=device), [len(part) for part in parts]


def _log_probs(loaded: _Loaded, model: Any, items: Sequence[_Encoded]) -> list[Tensor]:
    """(T,) log-probability of each item's rewarded tokens, nats, fp32, on the CPU."""
    import torch

    from stepgauge.kernels import lm_stats

    with torch.inference_mode():
        states = _states(model, items)
        targets, sizes = _targets(items, states.device)
        head = model.get_output_embeddings()
        bias = getattr(head, "bias", None)
        stats = lm_stats(states, head.weight, targets, bias=bias, vocab_valid=loaded.vocabulary)
        return list(torch.split(stats.logp.cpu(), sizes))


def _pair_ratios(loaded: _Loaded, items: Sequence[_Encoded]) -> list[Tensor]:
    """(T,) log-ratio of each item's rewarded tokens, nats, fp32, on the CPU."""
    import torch

    from stepgauge.kernels import pair_stats

    with torch.inference_mode():
        policy, reference = (_head(model, items) for model in (loaded.model, loaded.reference))
        targets, sizes = _targets(items, policy.hidden.device)
        stats = pair_stats(policy, reference, targets, vocab_valid=loaded.vocabulary, want=("log_ratio",))
        return list(torch.split(stats.log_ratio.cpu(), sizes))


def _head(model: Any, items: Sequence[_Encoded]) -> Head:
    from stepgauge.kernels import Head

    head = model.get_output_embeddings()
    return Head(_states(model, items), head.weight, getattr(head, "bias", None))
