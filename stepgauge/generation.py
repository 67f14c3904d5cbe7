"""Completions of a prefix from any generator: a local model, an OpenAI-compatible server, or a callable.

A generator draws sample i of a prefix from a seed made of the prefix and i, so that a rerun draws the same again.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, get_args, runtime_checkable

if TYPE_CHECKING:
    import httpx

__all__ = [
    "CallableGenerator",
    "Completion",
    "Finish",
    "Generator",
    "Prompt",
    "ServerGenerator",
    "asking",
    "load_generator",
    "sample_seed",
]

Finish = Literal["stop", "length", "error"]
Api = Literal["chat", "completions"]
KEY = "OPENAI_API_KEY"
RETRIED = (408, 425, 429, 500, 502, 503, 504)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A problem, and the beginning of a solution that a completion continues."""

    problem: str
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Completion:
    """What a generator wrote.

    Args:
        text: the continuation, without the prefix.
        token_ids, logprobs: of each token where the generator tells them, nats, before temperature and top-p.
        finish: "stop" = it ended by itself; "length" = cut at the token limit; "error" = the server refused the prompt.
        tokens: how many tokens were drawn, where known; what a run costs.
    """

    text: str
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    finish: Finish = "stop"
    tokens: int = 0


@runtime_checkable
class Generator(Protocol):
    """What draws completions. ``fingerprint`` names everything that changes them; ``parallel``: safe and of use in
    several threads at once.
    """

    @property
    def fingerprint(self) -> str:
        """Digest of model, template and sampling parameters."""

    @property
    def parallel(self) -> bool:
        """Whether several threads may ask at once, and gain from it."""

    def complete(self, prompts: Sequence[Prompt], n: int, *, first: int = 0) -> list[list[Completion]]:
        """Samples ``first`` … ``first + n − 1`` of each prompt, in order."""


def sample_seed(prompt: Prompt, index: int) -> int:
    """Seed of one sample, in [0, 2^31): a digest of problem, prefix and index.

    Example:
        >>> sample_seed(Prompt("1 + 1?"), 0) == sample_seed(Prompt("1 + 1?"), 1)
        False
    """
    content = "\x00".join((prompt.problem, prompt.prefix, str(index))).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(content, digest_size=4).digest(), "big") >> 1


def check_request(prompts: Sequence[Prompt], n: int, first: int) -> None:
    """Raise ValueError or TypeError for a request that no generator can serve."""
    if n < 1 or first < 0:
        raise ValueError(f"complete needs n >= 1 and first >= 0, got {n} and {first}")
    for index, prompt in enumerate(prompts):
        if not isinstance(prompt, Prompt):
            raise TypeError(f"complete(prompts[{index}]) must be a Prompt, got {type(prompt).__name__}")


class CallableGenerator:
    """A function (prompt, seed) → text or ``Completion`` as a generator.

    Args:
        function: draws one completion; the same seed must give the same text.
        name: what stands for the function in the fingerprint; default its qualified name.
        parallel: whether several threads may call it at once.

    Example:
        >>> guess = CallableGenerator(lambda prompt, seed: f" The answer is {seed % 2}.")
        >>> [c.text for c in guess.complete([Prompt("1 + 1?", "Adding.")], 2)[0]]
        [' The answer is 0.', ' The answer is 1.']
    """

    def __init__(
        self, function: Callable[[Prompt, int], str | Completion], *, name: str | None = None, parallel: bool = True
    ) -> None:
        self.function = function
        self.name = name
        self.parallel = parallel

    @property
    def fingerprint(self) -> str:
        """The name."""
        own = getattr(self.function, "__qualname__", type(self.function).__qualname__)
        return f"callable:{self.name or own}"

    def complete(self, prompts: Sequence[Prompt], n: int, *, first: int = 0) -> list[list[Completion]]:
        """See ``Generator.complete``."""
        check_request(prompts, n, first)
        return [[self._one(prompt, first + at) for at in range(n)] for prompt in prompts]

    def _one(self, prompt: Prompt, index: int) -> Completion:
        drawn = self.function(prompt, sample_seed(prompt, index))
        if isinstance(drawn, Completion):
            return drawn
        if not isinstance(drawn, str):
            raise TypeError(f"{self.fingerprint} must return a str or a Completion, got {type(drawn).__name__}")
        return Completion(drawn, tokens=len(drawn.split()))


class _Refused(Exception):
    """The server answered, but not with a completion."""


def _tokens_used(usage: object) -> int:
    """``completion_tokens`` of a server's answer; 0 where it says nothing that is a count."""
    used = usage.get("completion_tokens") if isinstance(usage, dict) else None
    return used if type(used) is int and 0 <= used < 2**31 else 0


class ServerGenerator:
    """Completions from an OpenAI-compatible server: vLLM, SGLang, llama.cpp.

    One request a sample, each with its own ``seed``; the server's prefix cache makes the shared prefix cheap. Broken
    connections and answers 408, 425, 429, 5xx are tried again with growing waits and then raise ConnectionError; any
    other refusal (a prompt beyond the context) is a completion with ``finish`` "error". A bearer token is read from the
    variable OPENAI_API_KEY.

    Args:
        url: of the server, as "http://localhost:8000" or "http://localhost:8000/v1".
        model: the model's name on the server; "" asks the server for its first.
        api: "chat" sends the problem as user turn and the prefix as an assistant turn to go on with (vLLM and SGLang:
            ``continue_final_message``); "completions" sends ``template`` with problem and prefix filled in.
        template: text with {problem} for api "completions"; the prefix is appended.
        temperature, top_p, max_tokens: of sampling. concurrency: requests at once. timeout_s: of one request.
        attempts: tries of one request.

    Example:
        >>> ServerGenerator("http://localhost:8000").complete([Prompt("1 + 1?")], 8)  # doctest: +SKIP
    """

    parallel = True
    _lock: ClassVar[threading.Lock] = threading.Lock()
    _http: httpx.Client | None = None

    def __init__(
        self,
        url: str,
        *,
        model: str = "",
        api: Api = "chat",
        template: str = "{problem}\n\n",
        temperature: float = 1.0,
        top_p: float = 1.0,
        max_tokens: int = 1024,
        concurrency: int = 16,
        timeout_s: float = 600.0,
        attempts: int = 4,
    ) -> None:
        if api not in get_args(Api):
            raise ValueError(f"ServerGenerator(api) must be one of {', '.join(get_args(Api))}; got {api!r}")
        self.url = url.rstrip("/").removesuffix("/v1")
        self.model = model
        self.api = api
        self.template = template
        self.temperature = temperature
        self.top_p = top_p
        self.max_tokens = max_tokens
        self.concurrency = concurrency
        self.timeout_s = timeout_s
        self.attempts = attempts

    @property
    def fingerprint(self) -> str:
        """Digest of URL, model, template and sampling; the server may change its model under one name."""
        asked = [self.url, self.model, self.api, self.template, self.temperature, self.top_p, self.max_tokens]
        return f"server:{hashlib.blake2b(repr(asked).encode(), digest_size=16).hexdigest()}"

    def complete(self, prompts: Sequence[Prompt], n: int, *, first: int = 0) -> list[list[Completion]]:
        """See ``Generator.complete``. Raises ConnectionError where the server cannot be reached."""
        check_request(prompts, n, first)
        wanted = [(prompt, index) for prompt in prompts for index in range(first, first + n)]
        with ThreadPoolExecutor(min(self.concurrency, max(len(wanted), 1))) as pool:
            drawn = list(pool.map(lambda item: self._one(*item), wanted))
        return [drawn[at : at + n] for at in range(0, len(drawn), n)]

    def _one(self, prompt: Prompt, index: int) -> Completion:
        body: dict[str, Any] = {
            "model": self._model_name(),
            "temperature": self.temperature,
            "top_p": self.top_p,
            "max_tokens": self.max_tokens,
            "seed": sample_seed(prompt, index),
            "n": 1,
        }
        if self.api == "completions":
            body["prompt"] = self.template.replace("{problem}", prompt.problem) + prompt.prefix
        else:
            body["messages"] = [{"role": "user", "content": prompt.problem}]
            if prompt.prefix:
                body["messages"].append({"role": "assistant", "content": prompt.prefix})
                body |= {"continue_final_message": True, "add_generation_prompt": False}
        try:
            answer = self._ask("POST", "/v1/chat/completions" if self.api == "chat" else "/v1/completions", body)
            choice = answer["choices"][0]
            text = choice["text"] if self.api == "completions" else choice["message"]["content"] or ""
            if not isinstance(text, str):
                raise _Refused(f"the completion is a {type(text).__name__}")
        except (_Refused, KeyError, IndexError, TypeError):
            return Completion("", finish="error")
        finish: Finish = "length" if choice.get("finish_reason") == "length" else "stop"
        return Completion(text, finish=finish, tokens=_tokens_used(answer.get("usage")))

    def _model_name(self) -> str:
        if not self.model:
            try:
                self.model = str(self._ask("GET", "/v1/models", None)["data"][0]["id"])
            except (_Refused, KeyError, IndexError, TypeError) as error:
                raise ValueError(f"{self.url} does not list its models; give ServerGenerator(model=...)") from error
        return self.model

    def _client(self) -> httpx.Client:
        import httpx

        with self._lock:
            if self._http is None:
                key = os.environ.get(KEY)
                headers = {"Authorization": f"Bearer {key}"} if key else {}
                limits = httpx.Limits(max_connections=self.concurrency)
                self._http = httpx.Client(timeout=self.timeout_s, headers=headers, limits=limits)
            return self._http

    def _ask(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        import httpx
        import stamina

        def once() -> Any:
            reply = self._client().request(method, self.url + path, json=body)
            if reply.status_code in RETRIED:
                reply.raise_for_status()
            if reply.is_error:
                raise _Refused(f"{reply.status_code} {reply.text[:200]}")
            try:
                return reply.json()
            except ValueError as error:
                raise _Refused(f"no JSON: {error}") from error

        try:
            for attempt in stamina.retry_context(on=httpx.HTTPError, attempts=self.attempts, timeout=None):
                with attempt:
                    return once()
        except httpx.HTTPError as error:
            raise ConnectionError(f"{self.url}{path}: {error or type(error).__name__}") from error
        raise AssertionError  # the loop returns or raises

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            if self._http is not None:
                self._http.close()
                self._http = None


def asking(generator: Generator) -> Callable[[str, int], list[str]]:
    """The generator as what a critic asks: ``ask(prompt, n)`` gives n replies; carries the generator's fingerprint.

    Replies cut at the token limit are left out: their last index may be one the critic was only considering.

    Example:
        >>> ask = asking(CallableGenerator(lambda prompt, seed: "All right. \\\\boxed{-1}"))
        >>> ask("Check this.", 2)
        ['All right. \\\\boxed{-1}', 'All right. \\\\boxed{-1}']
    """

    def ask(prompt: str, n: int) -> list[str]:
        return [reply.text for reply in generator.complete([Prompt(prompt)], n)[0] if reply.finish == "stop"]

    ask.fingerprint = generator.fingerprint  # type: ignore[attr-defined]  # what CriticScorer reads
    return ask


def load_generator(spec: str, **options: Any) -> Generator:
    """A generator by name.

    Args:
        spec: "http://HOST:PORT" = an OpenAI-compatible server; "python:MODULE:FUNCTION" = your own function
            (prompt, seed) → text; else a model folder, a hub name in the local cache or a .gguf file.
        options: parameters of the generator, such as temperature and max_tokens; a function takes none.

    Raises:
        ValueError: a spec that names nothing. TypeError: an option the generator does not have.

    Example:
        >>> load_generator("http://localhost:8000", max_tokens=512).fingerprint[:7]
        'server:'
    """
    if spec.startswith(("http://", "https://")):
        return ServerGenerator(spec, **options)
    if spec.startswith("python:"):
        module, colon, name = spec.removeprefix("python:").partition(":")
        if not colon or not module or not name:
            raise ValueError(f"a function is named python:MODULE:FUNCTION, got {spec!r}")
        try:
            function = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise ValueError(f"{spec!r} cannot be imported: {error}") from error
        return CallableGenerator(function, name=spec, **options)
    local: Any = importlib.import_module("stepgauge.lm.generating")
    generator: Generator = local.LocalGenerator(spec, **options)
    return generator
