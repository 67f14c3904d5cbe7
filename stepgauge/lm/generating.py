"""Completions from a local causal language model: the prompt is run once, its key-value cache shared by all samples."""

from __future__ import annotations

import hashlib
import math
import random
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from stepgauge.generation import Completion, Prompt, check_request, sample_seed
from stepgauge.lm.loading import load_causal_lm, model_folder, placement, weights_fingerprint

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["LocalGenerator"]


class LocalGenerator:
    """Samples of a local model. Loads on first use; one request at a time.

    The problem is the user turn of the model's chat template (plain text without one), the prefix the beginning of the
    answer. Sample i is drawn by the inverse of the cumulative distribution, in float64, with uniform numbers seeded by
    (prefix, i); logits come from a batch of the samples that were asked for together. The same request on the same
    machine gives the same samples; another batch may differ where a rounding error of a logit moves a draw.

    Args:
        model, device, dtype, download: see ``load_causal_lm``.
        temperature: 0 = the likeliest token. top_p: share of the distribution to draw from.
        max_tokens: of one completion; at the limit ``finish`` is "length".
        batch: samples at once.

    Raises:
        ValueError: a parameter out of its range.

    Example:
        >>> LocalGenerator("SmolLM2-135M-Instruct.Q4_1.gguf").complete([Prompt("1 + 1?")], 8)  # doctest: +SKIP
    """

    parallel = False
    _lock: ClassVar[threading.RLock] = threading.RLock()
    _loaded: tuple[Any, Any] | None = None
    _weights: str | None = None

    def __init__(
        self,
        model: str,
        *,
        device: str | None = None,
        dtype: str | None = None,
        download: bool = False,
        temperature: float = 1.0,
        top_p: float = 1.0,
        max_tokens: int = 512,
        batch: int = 16,
    ) -> None:
        if temperature < 0 or not 0 < top_p <= 1 or max_tokens < 1 or batch < 1:
            raise ValueError(
                "LocalGenerator needs temperature >= 0, top_p in (0, 1], max_tokens >= 1 and batch >= 1; got "
                f"{temperature}, {top_p}, {max_tokens}, {batch}"
            )
        self.model = model
        self.device = device
        self.dtype = dtype
        self.download = download
        self.temperature = temperature
        self.top_p = top_p
        self.max_tokens = max_tokens
        self.batch = batch

    @property
    def fingerprint(self) -> str:
        """Digest of weights, tokenizer, precision and sampling parameters."""
        with self._lock:
            if self._weights is None:
                self._weights = weights_fingerprint(model_folder(self.model, download=self.download))
        drawn = [self._weights, placement(self.device, self.dtype)[1], self.temperature, self.top_p, self.max_tokens]
        return f"local:{hashlib.blake2b(repr(drawn).encode(), digest_size=16).hexdigest()}"

    def complete(self, prompts: Sequence[Prompt], n: int, *, first: int = 0) -> list[list[Completion]]:
        """See ``Generator.complete``."""
        check_request(prompts, n, first)
        with self._lock:
            return [
                [
                    completion
                    for start in range(first, first + n, self.batch)
                    for completion in self._draw(prompt, range(start, min(start + self.batch, first + n)))
                ]
                for prompt in prompts
            ]

    def _load(self) -> tuple[Any, Any]:
        if self._loaded is None:
            self._loaded = load_causal_lm(self.model, device=self.device, dtype=self.dtype, download=self.download)
        return self._loaded

    def _prompt_ids(self, prompt: Prompt) -> list[int]:
        """Ids of the problem and the prefix; control tokens written in either are text."""
        _, tokenizer = self._load()
        if tokenizer.chat_template:
            mark = f"«{hashlib.blake2b(prompt.problem.encode('utf-8', 'surrogatepass'), digest_size=8).hexdigest()}»"
            turns = [{"role": "user", "content": mark}]
            shown = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
            head, _, tail = shown.partition(mark)
        else:
            head, tail = tokenizer.bos_token or "", "\n\n"
        plain = {"add_special_tokens": False, "split_special_tokens": True}
        ids: list[int] = list(tokenizer.encode(head, add_special_tokens=False)) if head else []
        ids += tokenizer.encode(prompt.problem, **plain)
        ids += tokenizer.encode(tail, add_special_tokens=False)
        return ids + (tokenizer.encode(prompt.prefix, **plain) if prompt.prefix else [])

    def _stop_ids(self) -> set[int]:
        model, tokenizer = self._load()
        ends = model.generation_config.eos_token_id
        ends = ends if isinstance(ends, list) else [ends]
        return {end for end in (*ends, tokenizer.eos_token_id) if end is not None}

    def _draw(self, prompt: Prompt, indices: range) -> list[Completion]:
        import torch

        model, tokenizer = self._load()
        ids, stops = self._prompt_ids(prompt), self._stop_ids()
        context = getattr(model.config, "max_position_embeddings", None) or math.inf
        room = int(min(self.max_tokens, context - len(ids)))
        if room < 1:
            return [Completion("", finish="error") for _ in indices]
        dice = [random.Random(sample_seed(prompt, index)) for index in indices]
        tokens: list[list[int]] = [[] for _ in indices]
        logps: list[list[float]] = [[] for _ in indices]
        done = [False] * len(indices)
        rows = list(range(len(indices)))  # samples still being written
        with torch.inference_mode():
            last = torch.tensor([ids], device=model.device)  # (1, T)
            out = model(input_ids=last, use_cache=True, logits_to_keep=1)
            name = "cache" if "cache" in out else "past_key_values"  # its name before transformers 5.24
            cache = out[name]
            logits = out.logits[:, -1].expand(len(rows), -1)  # (B, V)
            if len(rows) > 1:
                cache.batch_repeat_interleave(len(rows))
            for length in range(1, room + 1):
                picked, logp = self._pick(logits[:, : len(tokenizer)].double(), [dice[row] for row in rows])
                for row, token, value in zip(rows, picked, logp, strict=True):
                    done[row] = token in stops
                    if not done[row]:
                        tokens[row].append(token)
                        logps[row].append(value)
                kept = [at for at, row in enumerate(rows) if not done[row]]
                if not kept or length == room:
                    break
                if len(kept) < len(rows):
                    cache.batch_select_indices(torch.tensor(kept, device=model.device))
                rows = [rows[at] for at in kept]
                last = torch.tensor([[tokens[row][-1]] for row in rows], device=model.device)  # (B, 1)
                out = model(input_ids=last, use_cache=True, **{name: cache})
                cache, logits = out[name], out.logits[:, -1]
        return [
            Completion(
                tokenizer.decode(written, skip_special_tokens=True, clean_up_tokenization_spaces=False),
                tuple(written),
                tuple(values),
                "stop" if ended else "length",
                len(written) + ended,
            )
            for written, values, ended in zip(tokens, logps, done, strict=True)
        ]

    def _pick(self, logits: Tensor, dice: Sequence[random.Random]) -> tuple[list[int], list[float]]:
        """One token a row and its log-probability at temperature 1. logits (B, V), float64."""
        import torch

        logps = logits.log_softmax(-1)
        if self.temperature == 0:
            picked = logits.argmax(-1)
        else:
            uniform = torch.tensor([die.random() for die in dice], dtype=torch.float64, device=logits.device)
            p = (logits / self.temperature).softmax(-1)  # (B, V)
            if self.top_p < 1:
                falling, order = p.sort(dim=-1, descending=True, stable=True)
                tail = falling.cumsum(-1) - falling >= self.top_p
                p = p.masked_fill(torch.zeros_like(tail).scatter(1, order, tail), 0.0)
            cumulative = p.cumsum(-1)
            at = torch.searchsorted(cumulative, (uniform * cumulative[:, -1])[:, None], right=True)
            picked = at.clamp(max=p.shape[1] - 1)[:, 0]
        return picked.tolist(), logps.gather(1, picked[:, None])[:, 0].tolist()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def close(self) -> None:
        """Free the model; it is loaded again when used."""
        with self._lock:
            self._loaded = None
