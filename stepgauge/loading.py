"""``load(spec)``: a string to a Scorer. The one registry; nothing is imported before its scorer is asked for."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stepgauge.scoring import Kind, Scorer

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["SCORERS", "ScorerInfo", "available", "load"]

ENTRY_POINTS = "stepgauge.scorers"


@dataclass(frozen=True, slots=True)
class ScorerInfo:
    """One row of the registry: where a scorer lives, what it needs and what its numbers mean."""

    target: str  # "module:Class"
    kind: Kind
    needs: str
    about: str
    argument: str | None = None  # the parameter that takes TEXT in "name:TEXT"


SCORERS: dict[str, ScorerInfo] = {
    "embedded": ScorerInfo(
        "stepgauge.verifiers.step_arithmetic:ArithmeticScorer",
        "correctness",
        "nothing",
        "the default that needs no download: today the arithmetic scorer",
    ),
    "arithmetic": ScorerInfo(
        "stepgauge.verifiers.step_arithmetic:ArithmeticScorer",
        "correctness",
        "nothing",
        "1 where every equality a step states is true, 0 where one is false, None where it states none",
    ),
    "word_problems": ScorerInfo(
        "stepgauge.prm.word_problems:WordProblemPRM",
        "value",
        "the problem's text",
        "a small learned process reward model of word problems: chance that the solution is right so far",
    ),
    "math": ScorerInfo(
        "stepgauge.verifiers.math_answers:MathScorer",
        "correctness",
        "gold",
        "1 or 0 on the last step: the final answer equals the gold answer or does not",
    ),
    "code": ScorerInfo(
        "stepgauge.verifiers.code_answers:CodeScorer",
        "correctness",
        "reference: unit tests; a sandbox (bubblewrap or sandlock)",
        "1 or 0 on the last step: the program passes its unit tests, run in a sandbox, or does not",
    ),
    "random": ScorerInfo(
        "stepgauge.evaluate.baselines:RandomScorer",
        "correctness",
        "nothing",
        "a uniform random number for each step: the floor that every scorer must beat",
    ),
    "dag": ScorerInfo(
        "stepgauge.dag_scoring.scorer:DagScorer",
        "credit",
        "reference: a FormulaDag or its JSON",
        "what each step adds to the share of a reference derivation: formulas matched, in any equivalent form",
    ),
    "logprob": ScorerInfo(
        "stepgauge.kernels.scorer:LogprobScorer",
        "confidence",
        "a local causal LM: logprob:FOLDER or logprob:FILE.gguf",
        "mean log-probability of the step's tokens, nats per token; entropy and self-certainty in details",
        argument="model",
    ),
    "prm": ScorerInfo(
        "stepgauge.prm.loading:load_prm",
        "correctness",
        "a process reward model: prm:FOLDER, or its folder or hub name alone",
        "each step's score as the model's authors read it: 12 published families",
        argument="model",
    ),
    "implicit": ScorerInfo(
        "stepgauge.prm.implicit_scorer:ImplicitPRM",
        "log_ratio",
        "a causal LM, and the one it was trained from: implicit:FOLDER with reference=FOLDER",
        "beta times the log-ratio of two models, summed over each step's tokens, nats",
        argument="model",
    ),
    "monte_carlo": ScorerInfo(
        "stepgauge.prm.monte_carlo:MonteCarloScorer",
        "value",
        "gold, and a generator: monte_carlo:FOLDER, monte_carlo:http://HOST:PORT",
        "share of sampled completions of each prefix that reach the gold answer",
        argument="generator",
    ),
    "http": ScorerInfo(
        "stepgauge.prm.http:HttpPRM",
        "correctness",
        "a server: http://HOST:PORT",
        "step scores from vLLM (/pooling, /classify) or SGLang (/v1/score)",
        argument="url",
    ),
}


def _third_party() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}


def available() -> list[dict[str, str | None]]:
    """The scorers that ``load`` knows here, third-party ones included: name, kind, needs, about."""
    own: list[dict[str, str | None]] = [
        {"name": name, "kind": info.kind, "needs": info.needs, "about": info.about} for name, info in SCORERS.items()
    ]
    others: list[dict[str, str | None]] = [
        {"name": name, "kind": None, "needs": "see its documentation", "about": f"from {entry.value}"}
        for name, entry in sorted(_third_party().items())
    ]
    return own + others


def load(
    spec: str, *, device: str | None = None, dtype: str | None = None, download: bool = False, **options: Any
) -> Scorer:
    """Turn a name into a Scorer.

    Args:
        spec: a name from ``SCORERS`` or from the entry points of group ``stepgauge.scorers``; ``name:argument`` passes
            the argument that the scorer needs, as in ``"logprob:/models/smollm2"``. A folder or hub name alone is a
            process reward model, ``"http://host:port"`` a server of one.
        device, dtype: for scorers that run a model, e.g. "cuda", "bfloat16"; others refuse them. Several devices,
            "cuda:0,cuda:1", get a copy of the model and a worker each.
        download: allow a model hub to be asked for weights that are not on this machine.
        options: parameters of the scorer.

    Raises:
        ValueError: unknown name (the message lists what there is), or a missing or unwanted argument.
        TypeError: an option the scorer does not have.

    Example:
        >>> load("arithmetic").score(["3 * 12 = 36.", "So 36 + 1 = 38."]).values
        (1.0, 0.0)
    """
    if not isinstance(spec, str):
        raise TypeError(f"load(spec) takes a string such as 'embedded', got {type(spec).__name__}")
    if device is not None and "," in device:
        from stepgauge.devices import OverDevices

        places = [place.strip() for place in device.split(",")]
        return OverDevices([load(spec, device=place, dtype=dtype, download=download, **options) for place in places])
    name, colon, argument = _parts(spec)
    for key, value in (("device", device), ("dtype", dtype), ("download", download or None)):
        if value is not None:
            options[key] = value
    if name not in SCORERS:
        return _load_third_party(spec, name, argument, options)
    info = SCORERS[name]
    if colon and info.argument is None:
        raise ValueError(f"scorer {name!r} takes no argument, got {spec!r}; write {name!r}")
    if info.argument is not None:
        if argument:
            options[info.argument] = argument
        if info.argument not in options:
            raise ValueError(f"scorer {name!r} needs {info.needs}")
    module, _, attribute = info.target.partition(":")
    scorer: Scorer = getattr(importlib.import_module(module), attribute)(**options)
    return scorer


def _parts(spec: str) -> tuple[str, str, str]:
    """(name, ":", argument); a URL is the HTTP scorer's, a folder or a hub name (owner/name) a process reward model."""
    if spec.startswith(("http://", "https://")):
        return "http", ":", spec
    if "/" in spec.partition(":")[0]:
        return "prm", ":", spec
    return spec.partition(":")


def _load_third_party(spec: str, name: str, argument: str, options: dict[str, Any]) -> Scorer:
    entries = _third_party()
    if name not in entries:
        names = sorted({*SCORERS, *entries})
        import difflib

        near = difflib.get_close_matches(name, names, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"there is no scorer {spec!r}.{hint} Known scorers: {', '.join(names)}")
    build = entries[name].load()
    scorer: Scorer = build(argument, **options) if argument else build(**options)
    return scorer
