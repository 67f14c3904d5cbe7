"""Drop-ins: ``parse``/``verify`` called as Math-Verify calls them, and TRL's ``accuracy_reward``.

No signals, any thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stepgauge.verifiers.answers import verify as decide
from stepgauge.verifiers.answers import verify_response
from stepgauge.verifiers.extraction import extract_answer

__all__ = ["accuracy_reward", "parse", "verify"]


def parse(pred: str, *_: Any, **__: Any) -> list[str]:
    """The final answer of a text, as a list of one string; empty where there is none.

    Math-Verify's extraction settings are accepted and not needed.

    >>> parse("The answer is $\\\\frac{1}{2}$.")
    ['$\\\\frac{1}{2}$']
    """
    found = extract_answer(pred)
    if found is not None:
        return [found.text]
    return [pred] if pred.strip() else []


def verify(gold: Sequence[str] | str, target: Sequence[str] | str, *_: Any, **__: Any) -> bool:
    """Whether a parsed target is the gold answer; True only for the verdict ``equal``.

    Departs from Math-Verify: symmetric, and one answer a side, so no subset of answers passes.

    >>> verify(parse("1/2"), parse("0.5"))
    True
    """
    left = gold if isinstance(gold, str) else (gold[0] if gold else "")
    right = target if isinstance(target, str) else (target[0] if target else "")
    return decide(left, right, policy="math_verify").equal


def accuracy_reward(
    completions: Sequence[Sequence[Mapping[str, str]] | str], solution: Sequence[str], **_: Any
) -> list[float | None]:
    """TRL's reward function: 1.0 right, 0.0 wrong, None (no reward) where the verifier cannot tell.

    Raises ValueError where completions and solutions differ in number.

    >>> accuracy_reward([[{"role": "assistant", "content": "So \\\\boxed{4}"}], "no idea"], ["4", "("])
    [1.0, None]
    """
    if len(completions) != len(solution):
        raise ValueError(f"accuracy_reward needs one solution a completion, got {len(completions)} and {len(solution)}")
    rewards: list[float | None] = []
    for completion, gold in zip(completions, solution, strict=True):
        text = completion if isinstance(completion, str) else completion[-1]["content"]
        verdict = verify_response(gold, text).verdict
        rewards.append({"equal": 1.0, "different": 0.0}.get(verdict))
    return rewards
