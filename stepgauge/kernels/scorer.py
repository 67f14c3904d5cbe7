"""How sure a language model is of each step: mean log-probability, entropy and self-certainty of its tokens."""

from __future__ import annotations

import hashlib
import math
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from stepgauge import __version__
from stepgauge.data.alignment import step_token_spans, token_spans
from stepgauge.lm.loading import load_causal_lm, model_folder, placement, weights_fingerprint
from stepgauge.lm.tree import enable_tree, hidden_states, row_batches
from stepgauge.scoring import Kind, Progress, Reason, Rollout, Scorer, StepScores

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["LogprobScorer"]


PLACEHOLDER = "\ue000problem\ue000"  # private-use characters: in no template


@dataclass(frozen=True, slots=True)
class _Encoded:
    """A rollout as tokens: the prompt, the response, and which response tokens each step has."""

    prompt: list[int]
    response: list[int]  # as much as the model's context holds
    steps: list[tuple[int, int]]  # (S,) token ranges of the whole response

    @property
    def row(self) -> list[int]:
        """The tokens that the model's body runs over; the last one predicts nothing that is asked for."""
        return [*self.prompt, *self.response[:-1]]


class _TokenStats(NamedTuple):
    """Of one response's tokens, all (R,), nats."""

    logp: Tensor
    entropy: Tensor
    self_certainty: Tensor


class LogprobScorer(Scorer):
    """Mean log-probability of each step's tokens, given the problem and the earlier steps, in nats per token.

    ``details`` of each step: ``n_tokens``, ``sum_logprob`` (nats), ``entropy`` and ``self_certainty`` (means over the
    tokens, nats) and ``token_span`` (first, last exclusive) in the response. The policy's own ``token_ids`` are used
    where the rollout has them; in a text, what spells a special token stays text. The prompt is the tokenizer's chat
    template with the problem as user turn, or the problem and a blank line where there is none. Statistics are over the
    real vocabulary, without padding rows.

    A step without a token of its own is None ("no_claim"); steps beyond the model's context are None ("truncated").

    Args:
        model: a folder, a hub name or a .gguf file, see ``stepgauge.lm.load_causal_lm``.
        device, dtype, download: as there.
        max_tokens: tokens of a batch; what rollouts of one problem share is counted, and computed, once.

    Example:
        >>> scorer = LogprobScorer("SmolLM2-135M-Instruct.Q4_1.gguf")  # doctest: +SKIP
        >>> scorer.score(["1 + 1 = 2."], problem="What is 1 + 1?").values  # doctest: +SKIP
        (-0.61,)
    """

    name = "logprob"
    kind: Kind = "confidence"

    _lock: ClassVar[threading.Lock] = threading.Lock()
    _loaded: tuple[Any, Any, Any, int] | None = None  # model, tokenizer, plain tokenizer, size of the real vocabulary
    _fingerprint: str | None = None

    def __init__(
        self,
        model: str,
        *,
        device: str | None = None,
        dtype: str | None = None,
        download: bool = False,
        max_tokens: int = 8192,
    ) -> None:
        self.model = model
        self.device = device
        self.dtype = dtype
        self.download = download
        self.max_tokens = max_tokens

    @property
    def fingerprint(self) -> str:
        """Digest of weights, tokenizer, template, dtype, device type and version."""
        if self._fingerprint is None:
            weights = weights_fingerprint(model_folder(self.model, download=self.download))
            device, dtype = placement(self.device, self.dtype)
            spec = f"{type(self).__qualname__} {__version__} {device.partition(':')[0]} {dtype} {weights}"
            self._fingerprint = hashlib.blake2b(spec.encode(), digest_size=16).hexdigest()
        return self._fingerprint

    def close(self) -> None:
        self._loaded = None

    def score_batch(
        self, rollouts: Sequence[Rollout], *, deadline_s: float | None = None, progress: Progress | None = None
    ) -> list[StepScores]:
        if not rollouts:
            return []
        stop = math.inf if deadline_s is None else time.monotonic() + deadline_s
        report = progress or (lambda finished: None)
        results: dict[int, StepScores] = {}
        encoded: dict[int, _Encoded] = {}
        try:
            model, tokenizer, plain, vocabulary = self._load()
        except Exception as error:
            return [self._error(rollout, "model", error, report) for rollout in rollouts]
        for index, rollout in enumerate(rollouts):
            try:
                encoded[index] = _encode(rollout, tokenizer, plain, vocabulary, _context(model))
            except Exception as error:
                results[index] = self._error(rollout, "internal", error, report)
        order = list(encoded)
        for batch in row_batches(model, [encoded[index].row for index in order], self.max_tokens):
            indices = [order[position] for position in batch]
            if time.monotonic() >= stop:
                late = TimeoutError(f"deadline of {deadline_s} s passed")
                results |= {index: self._error(rollouts[index], "timeout", late, report) for index in indices}
                continue
            items = [encoded[index] for index in indices]
            for index, outcome in zip(indices, _run(model, vocabulary, items), strict=True):
                if isinstance(outcome, Exception):
                    results[index] = self._error(rollouts[index], "model", outcome, report)
                else:
                    results[index] = _step_scores(encoded[index], outcome, self.kind)
                    report(1)
        return [results[index] for index in range(len(rollouts))]

    def _error(self, rollout: Rollout, reason: Reason, error: Exception, report: Progress) -> StepScores:
        report(1)
        message = str(error) if reason == "timeout" else f"{type(error).__name__}: {error}"
        return StepScores.error(len(rollout.steps), self.kind, reason, message)

    def _load(self) -> tuple[Any, Any, Any, int]:
        with self._lock:
            if self._loaded is None:
                model, tokenizer = load_causal_lm(
                    self.model, device=self.device, dtype=self.dtype, download=self.download
                )
                tokenizer.backend_tokenizer.no_truncation()  # a tokenizer.json may ask for either
                tokenizer.backend_tokenizer.no_padding()
                vocabulary = min(max(tokenizer.get_vocab().values()) + 1, model.get_output_embeddings().weight.shape[0])
                prove_head(model, vocabulary)
                enable_tree(model)
                self._loaded = model, tokenizer, _plain(tokenizer), vocabulary
            return self._loaded


def _context(model: Any) -> int | None:
    return getattr(model.config.get_text_config(), "max_position_embeddings", None)


def _encode(rollout: Rollout, tokenizer: Any, plain: Any, vocabulary: int, context: int | None) -> _Encoded:
    text = rollout.response
    if rollout.token_ids is not None:
        response = list(rollout.token_ids)
        spans = token_spans(tokenizer, response, text)
    else:
        encoding = plain.encode(text, add_special_tokens=False)
        response = encoding.ids
        try:
            spans = token_spans(tokenizer, response, text)
        except ValueError:  # a tokenizer that normalises (NFC): its ids spell another text, its offsets this one
            spans = encoding.offsets
    prompt = _prompt(rollout.problem, tokenizer, plain)
    highest = max([*prompt, *response])
    if highest >= vocabulary:
        raise ValueError(
            f"token {highest} is not in the model's vocabulary of {vocabulary}; the tokenizer is another's"
        )
    room = len(response) if context is None else max(0, context - len(prompt))
    return _Encoded(prompt, response[:room], step_token_spans(spans, rollout.step_spans))


def _plain(tokenizer: Any) -> Any:
    """The same tokenizer, but text that spells a special token stays text: a step cannot forge a chat turn."""
    from tokenizers import Tokenizer

    plain = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    plain.encode_special_tokens = True
    return plain


def _prompt(problem: str, tokenizer: Any, plain: Any) -> list[int]:
    if not tokenizer.chat_template:
        begin = tokenizer.backend_tokenizer.encode("").ids[:1]
        begin = begin if begin == [tokenizer.bos_token_id] else []
        return [*begin, *plain.encode(f"{problem}\n\n", add_special_tokens=False).ids]

    def render(content: str) -> str:
        turns = [{"role": "user", "content": content}]
        return str(tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True))

    def ids(text: str, encoder: Any = tokenizer.backend_tokenizer) -> list[int]:
        return list(encoder.encode(text, add_special_tokens=False).ids)

    special = (token.content for token in tokenizer.added_tokens_decoder.values() if token.special)
    if not any(token in problem for token in special):
        return ids(render(problem))
    before, _, after = render(PLACEHOLDER).partition(PLACEHOLDER)
    return [*ids(before), *ids(problem, plain), *ids(after)]


def _run(model: Any, vocabulary: int, items: Sequence[_Encoded]) -> list[_TokenStats | Exception]:
    """The statistics of each item's response tokens; where the batch fails, each item alone."""
    try:
        return list(_forward(model, vocabulary, items))
    except Exception as error:
        if len(items) == 1:
            return [error]
        return [outcome for item in items for outcome in _run(model, vocabulary, [item])]


def _forward(model: Any, vocabulary: int, items: Sequence[_Encoded]) -> list[_TokenStats]:
    """The body runs once; its states of real tokens go through the head without logits."""
    import torch

    from stepgauge.kernels.stats import lm_stats

    with torch.inference_mode():
        states = hidden_states(model, [item.row for item in items])
        needed = [
            state[len(item.prompt) - 1 :][: len(item.response)] for item, state in zip(items, states, strict=True)
        ]
        hidden = torch.cat(needed)  # (tokens, H): the state before each response token
        targets = torch.tensor([token for item in items for token in item.response], device=hidden.device)
        head = model.get_output_embeddings()
        stats = lm_stats(
            hidden,
            head.weight,
            targets.long(),
            bias=getattr(head, "bias", None),
            vocab_valid=vocabulary,
            want=("logp", "entropy", "self_certainty"),
        )
    sizes = [len(item.response) for item in items]
    fields = (stats.logp, stats.entropy, stats.self_certainty)
    parts = (torch.split(values.cpu(), sizes) for values in fields)
    return [_TokenStats(*of_item) for of_item in zip(*parts, strict=True)]


def prove_head(model: Any, vocabulary: int) -> None:
    """Raise where the logits are more than a linear map of the last hidden state (a soft cap, a scale)."""
    import torch

    from stepgauge.kernels.stats import lm_stats

    ids = torch.arange(min(8, vocabulary), device=model.device)[None]
    with torch.inference_mode():
        logits = model(input_ids=ids).logits[0, :-1].double()
        states = model.base_model(input_ids=ids)[0][0, :-1]
        head = model.get_output_embeddings()
        bias = getattr(head, "bias", None)
        direct = lm_stats(states, head.weight, ids[0, 1:], bias=bias).logp.double()
    expected = logits.log_softmax(dim=-1).gather(1, ids[0, 1:, None]).squeeze(1)
    tolerance = 1e-3 if model.dtype in (torch.float32, torch.float64) else 0.2
    if not torch.allclose(direct, expected, atol=tolerance, rtol=tolerance):
        raise ValueError(
            f"the head of {type(model).__name__} is not a plain linear map of its last hidden state (a soft cap or a "
            "scale of the logits); its log-probabilities cannot be computed here"
        )


def _step_scores(item: _Encoded, stats: _TokenStats, kind: Kind) -> StepScores:
    values: list[float | None] = []
    reasons: list[Reason | None] = []
    details: list[Mapping[str, Any]] = []
    for first, last in item.steps:
        count = last - first
        missing: Reason | None = None
        if count == 0:
            missing = "no_claim"
        elif last > len(item.response):
            missing = "truncated" if item.response else "too_large"
        reasons.append(missing)
        if missing is not None:
            values.append(None)
            details.append({"n_tokens": count, "token_span": (first, last)})
            continue
        logprob, entropy, self_certainty = (values[first:last].double() for values in stats)
        values.append(float(logprob.mean()))
        details.append(
            {
                "n_tokens": count,
                "token_span": (first, last),
                "sum_logprob": float(logprob.sum()),
                "entropy": float(entropy.mean()),
                "self_certainty": float(self_certainty.mean()),
            }
        )
    if any(value is not None and not math.isfinite(value) for value in values):
        return StepScores.error(len(values), kind, "model", "the model gave a log-probability that is not finite")
    if all(value is None for value in values):
        reason = next(iter(reasons), None) or "no_claim"
        return StepScores(tuple(values), kind, "abstain", tuple(reasons), summary={"reason": reason})
    return StepScores(tuple(values), kind, "ok", tuple(reasons), details=tuple(details))
