"""A process reward model behind a server: vLLM's ``/pooling`` and ``/classify``, SGLang's ``/v1/score``."""

from __future__ import annotations

import hashlib
import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from stepgauge import __version__
from stepgauge.prm.conventions import CONVENTIONS, Convention
from stepgauge.prm.layouts import PassLayout, StepLayout, build_layout
from stepgauge.prm.writing import TokenWriter
from stepgauge.scoring import Kind, Progress, Rollout, Scorer, StepScores

if TYPE_CHECKING:
    import httpx

__all__ = ["HttpPRM"]

Contract = Literal["pooling", "classify", "score"]
RETRIED = (408, 425, 429, 500, 502, 503, 504)
KEY = "STEPGAUGE_HTTP_API_KEY"


@dataclass(frozen=True, slots=True)
class _Request:
    """A prompt, and the ids or the text up to the end of each step."""

    prompt: list[int] | str
    prefixes: list[list[int] | str]  # each without the prompt

    def whole(self, step: int) -> list[int] | str:
        prompt, prefix = self.prompt, self.prefixes[step]
        if isinstance(prompt, str):
            assert isinstance(prefix, str)
            return prompt + prefix
        assert not isinstance(prefix, str)
        return prompt + prefix


class _Refused(Exception):
    """The server answered, but not with one score a step."""


class HttpPRM(Scorer):
    """Step scores from a server that holds the model. A request that fails is an error "transport", never a number.

    Contracts: "pooling" = vLLM ``POST /pooling``, task token_classify, one request a rollout; "classify" = vLLM
    ``POST /classify``, one input a step; "score" = SGLang ``POST /v1/score``, one item a step, the probability of the
    positive of two label tokens. Answers 408, 425, 429, 5xx and broken connections are tried again with growing waits;
    other answers are not. A bearer token is read from the variable STEPGAUGE_HTTP_API_KEY.

    Args:
        url: of the server, as "http://localhost:8000".
        contract: "pooling", "classify" or "score".
        convention: a name of ``CONVENTIONS`` or a ``Convention``: what the served model was trained with.
        tokenizer: folder or hub name of the served model's tokenizer. With it ids are sent, and text cannot forge a
            token. Without it (families whose tag is a control token) text is sent, control tokens in it broken by a
            space.
        served: the model's name on the server, where it serves several.
        weights: a name of the weights for the fingerprint: a server may change its model under one URL.
        concurrency: requests at once.
        timeout_s: seconds of one request. attempts: tries of one request.

    Example:
        >>> HttpPRM("http://localhost:8000").score(["1 + 1 = 2."], problem="1 + 1?")  # doctest: +SKIP
        StepScores(correctness, ok, [0.99])
    """

    name = "http"

    _lock: ClassVar[threading.RLock] = threading.RLock()
    _client: httpx.Client | None = None
    _layout: StepLayout | None = None

    def __init__(
        self,
        url: str,
        *,
        contract: Contract = "pooling",
        convention: str | Convention = "qwen",
        tokenizer: str | None = None,
        served: str | None = None,
        weights: str | None = None,
        concurrency: int = 8,
        timeout_s: float = 60.0,
        attempts: int = 4,
    ) -> None:
        if contract not in get_args(Contract):
            raise ValueError(f"HttpPRM(contract) must be one of {', '.join(get_args(Contract))}; got {contract!r}")
        if isinstance(convention, str) and convention not in CONVENTIONS:
            raise ValueError(f"HttpPRM(convention) must be one of {', '.join(CONVENTIONS)}; got {convention!r}")
        self.url = url.rstrip("/")
        self.contract = contract
        self.convention = convention
        self.tokenizer = tokenizer
        self.served = served
        self.weights = weights
        self.concurrency = concurrency
        self.timeout_s = timeout_s
        self.attempts = attempts

    @property
    def fingerprint(self) -> str:
        """Digest of URL, served model, contract, convention, tokenizer name, ``weights`` and version."""
        asked = [self.url, self.contract, self._row, self.tokenizer, self.served, self.weights]
        return hashlib.blake2b(f"HttpPRM {__version__} {asked}".encode(), digest_size=16).hexdigest()

    @property
    def _row(self) -> Convention:
        return CONVENTIONS[self.convention] if isinstance(self.convention, str) else self.convention

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        """What the convention's numbers mean."""
        return self._row.kind

    def close(self) -> None:
        with self._lock:
            if self._client is not None:
                self._client.close()
            self._client = None

    def _connected(self) -> httpx.Client:
        import httpx

        with self._lock:
            if self._client is None:
                key = os.environ.get(KEY)
                headers = {"Authorization": f"Bearer {key}"} if key else {}
                self._client = httpx.Client(base_url=self.url, headers=headers, timeout=self.timeout_s)
            return self._client

    def score_batch(
        self, rollouts: Sequence[Rollout], *, deadline_s: float | None = None, progress: Progress | None = None
    ) -> list[StepScores]:
        if not rollouts:
            return []
        stop = math.inf if deadline_s is None else time.monotonic() + deadline_s
        with ThreadPoolExecutor(self.concurrency) as pool:
            futures: dict[Future[StepScores], int] = {
                pool.submit(self._score, rollout, stop): index for index, rollout in enumerate(rollouts)
            }
            results: dict[int, StepScores] = {}
            for future in as_completed(futures):
                results[futures[future]] = future.result()
                if progress is not None:
                    progress(1)
        return [results[index] for index in range(len(rollouts))]

    def _score(self, rollout: Rollout, stop: float) -> StepScores:
        """Raises nothing: each failure has its code."""
        import httpx

        row, steps = self._row, len(rollout.steps)
        if not steps:
            return StepScores.abstain(0, row.kind, "no_claim")
        try:
            values = self._ask(self._request(rollout), stop)
        except TimeoutError as error:
            return StepScores.error(steps, row.kind, "timeout", str(error))
        except httpx.HTTPError as error:
            reason = "timeout" if time.monotonic() >= stop else "transport"
            return StepScores.error(steps, row.kind, reason, f"{self.url}: {type(error).__name__}: {error}")  # type: ignore[arg-type]
        except _Refused as error:
            return StepScores.error(steps, row.kind, "model", f"{self.url}: {error}")
        except Exception as error:
            return StepScores.error(steps, row.kind, "internal", f"{type(error).__name__}: {error}")
        summary = {"convention": row.name, "aggregate": row.aggregate, "threshold": row.threshold}
        if row.reading == "signed":
            values = [2 * value - 1 for value in values]
        return StepScores(tuple(values), row.kind, summary=summary)

    def _ask(self, request: _Request, stop: float) -> list[float]:
        """One probability a step."""
        steps = len(request.prefixes)
        body: dict[str, Any]
        if self.contract == "pooling":
            body = {"input": request.whole(steps - 1), "task": "token_classify"}
            return _pooled(self._post("/pooling", body, stop), request)
        if self.contract == "classify":
            inputs = [request.whole(step) for step in range(steps)]
            return _classified(self._post("/classify", {"input": inputs}, stop), steps)
        body = {
            "query": request.prompt,
            "items": request.prefixes,
            "label_token_ids": list(self._labels()),
            "apply_softmax": True,
            "item_first": False,
        }
        return _scored(self._post("/v1/score", body, stop), steps)

    def _post(self, path: str, body: dict[str, Any], stop: float) -> Any:
        import httpx
        import stamina

        if self.served is not None:
            body["model"] = self.served
        client = self._connected()

        def again(error: Exception) -> bool:
            if time.monotonic() >= stop:
                return False
            if isinstance(error, httpx.HTTPStatusError):
                return error.response.status_code in RETRIED
            return isinstance(error, httpx.TransportError)

        for attempt in stamina.retry_context(on=again, attempts=self.attempts, timeout=None, wait_initial=0.1):
            with attempt:
                left = stop - time.monotonic()
                if left <= 0:
                    raise TimeoutError("the deadline passed")
                response = client.post(path, json=body, timeout=min(self.timeout_s, left))
                response.raise_for_status()
        try:
            return response.json()
        except ValueError as error:
            raise _Refused(f"{path} answered something else than JSON: {response.text[:80]!r}") from error

    def _labels(self) -> tuple[int, int]:
        if self.tokenizer is not None and self._row.labels:
            positive, negative = (self._writer().one_id(label, "label") for label in self._row.labels)
            return positive, negative
        if self._row.label_ids is None:
            raise ValueError(f"convention {self._row.name!r} has no label tokens; use contract='pooling'")
        return self._row.label_ids

    def _writer(self) -> TokenWriter:
        from transformers import AutoTokenizer

        assert self.tokenizer is not None
        return TokenWriter(AutoTokenizer.from_pretrained(self.tokenizer, trust_remote_code=False))

    def _request(self, rollout: Rollout) -> _Request:
        if self.tokenizer is None:
            return _text_request(self._row, rollout)
        with self._lock:
            if self._layout is None:
                layout = build_layout(self._row, self._writer())
                if isinstance(layout, PassLayout):
                    raise ValueError(
                        f"convention {self._row.name!r} reads one sequence a step; no server contract has it"
                    )
                self._layout = layout
        layout, ids, prefixes = self._layout, list[int](), list[list[int] | str]()
        for index, step in enumerate(rollout.steps):
            ids = ids + layout.step(rollout.problem, step, index, first=index == 0)
            prefixes.append(ids)
        return _Request(layout.prompt(rollout.problem), prefixes)


def _text_request(row: Convention, rollout: Rollout) -> _Request:
    if row.layout != "tag" or not row.tag.startswith("<"):
        raise ValueError(
            f"convention {row.name!r} cannot be sent as text, where a step could forge its tag; pass tokenizer="
        )

    def safe(text: str) -> str:
        return text.replace("<|", "< |").replace(row.tag, f"< {row.tag[1:]}")

    text, prefixes = "", list[list[int] | str]()
    for index, step in enumerate(rollout.steps):
        text += row.lead[min(index, 1)] + safe(step) + row.tag
        prefixes.append(text)
    return _Request(row.prompt.replace("{problem}", safe(rollout.problem)), prefixes)


def _probability(value: Any) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= 1:
        raise _Refused(f"a score is {value!r}, not a probability; turn the server's activation on")
    return float(value)


def _rows(answer: Any, key: str, read: Callable[[Any], list[Any]]) -> list[Any]:
    try:
        return read(answer)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise _Refused(f"the answer is not of this contract (no {key}): {str(answer)[:80]}") from error


def _pooled(answer: Any, request: _Request) -> list[float]:
    """Last column of each tag's row; of a server that pools every token, the rows at the tags are taken."""
    steps = len(request.prefixes)
    rows = _rows(answer, "data[0].data", lambda found: list(found["data"][0]["data"]))
    if len(rows) != steps:
        whole = request.whole(steps - 1)
        if isinstance(whole, str) or len(rows) != len(whole):
            raise _Refused(f"{len(rows)} scores for {steps} steps; serve the model with its step pooler")
        rows = [rows[len(request.whole(step)) - 1] for step in range(steps)]
    return [_probability(_rows(row, "columns", lambda found: [found[-1]])[0]) for row in rows]


def _classified(answer: Any, steps: int) -> list[float]:
    rows = _rows(answer, "data[k].probs", lambda found: [(row["index"], row["probs"][-1]) for row in found["data"]])
    if sorted(index for index, _ in rows) != list(range(steps)):
        raise _Refused(f"{len(rows)} classes for {steps} steps")
    return [_probability(value) for _, value in sorted(rows)]


def _scored(answer: Any, steps: int) -> list[float]:
    rows = _rows(answer, "scores[k][0]", lambda found: [row[0] for row in found["scores"]])
    if len(rows) != steps:
        raise _Refused(f"{len(rows)} scores for {steps} steps")
    return [_probability(value) for value in rows]
