"""TRL: a reward function for ``GRPOTrainer(reward_funcs=...)`` or RLOO.

Written against trl 1.16.0. ``None`` is TRL's word for "no reward": what could not be judged takes no part in the group.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stepgauge.rl.reward import Reward, RolloutReward

__all__ = ["AsyncStepReward", "StepReward", "completion_text"]

Completion = str | Sequence[Mapping[str, Any]]


def completion_text(completion: Completion) -> str:
    """The text of a completion: itself, or the content of its assistant messages.

    Example:
        >>> completion_text([{"role": "assistant", "content": "The answer is 4."}])
        'The answer is 4.'
    """
    if isinstance(completion, str):
        return completion
    spoken = [m.get("content") for m in completion if m.get("role", "assistant") == "assistant"]
    return "\n\n".join(text for text in spoken if isinstance(text, str))


def _prompt_text(prompt: Completion) -> str:
    if isinstance(prompt, str):
        return prompt
    asked = [m.get("content") for m in prompt if m.get("role") == "user"]
    return asked[-1] if asked and isinstance(asked[-1], str) else ""


class StepReward:
    """A TRL reward function. ``gold_column`` names the dataset column with the gold answers.

    Picklable; its ``__name__`` is the name of the metric in TRL's logs.

    Example:
        >>> reward = StepReward(RolloutReward("math"))
        >>> reward(prompts=["2+2?"] * 2, completions=["The answer is 4.", "Hm."], solution=["4", "("])
        [1.0, None]
    """

    def __init__(self, reward: RolloutReward, gold_column: str = "solution", name: str = "step_reward") -> None:
        self.reward = reward
        self.gold_column = gold_column
        self.__name__ = name

    def __call__(
        self,
        prompts: Sequence[Completion],
        completions: Sequence[Completion],
        completion_ids: Sequence[Sequence[int]] | None = None,
        log_extra: Callable[[str, list[Any]], None] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """One reward a completion, None where it could not be judged."""
        rewards = self._rewards(prompts, completions, columns)
        if log_extra is not None:
            log_extra(f"{self.__name__}/reason", [reward.reason or "" for reward in rewards])
            scores = [r.process_scores for r in rewards]
            log_extra(f"{self.__name__}/steps", ["" if s is None else str(list(s.values)) for s in scores])
        if log_metric is not None:
            log_metric(f"{self.__name__}/abstained", sum(r.value is None for r in rewards) / max(1, len(rewards)))
        return [reward.value for reward in rewards]

    def _rewards(
        self, prompts: Sequence[Completion], completions: Sequence[Completion], columns: Mapping[str, Any]
    ) -> list[Reward]:
        golds = columns.get(self.gold_column) or [None] * len(completions)
        if not len(prompts) == len(completions) == len(golds):
            raise ValueError(
                f"{self.__name__} needs one prompt and one {self.gold_column} a completion; got {len(prompts)} "
                f"prompts, {len(completions)} completions, {len(golds)} golds"
            )
        return self.reward.score(
            [
                self.reward.rollout(_prompt_text(prompt), completion_text(completion), gold)
                for prompt, completion, gold in zip(prompts, completions, golds, strict=True)
            ]
        )


class AsyncStepReward(StepReward):
    """``StepReward`` for TRL's event loop: judged in a thread, beside other async rewards."""

    async def __call__(self, *args: Any, **kwargs: Any) -> list[float | None]:  # type: ignore[override]
        """See ``StepReward``."""
        return await asyncio.to_thread(super().__call__, *args, **kwargs)
