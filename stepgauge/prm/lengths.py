"""What is scored when a rollout is longer than the model's context. Problem, system text and tags are never cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, get_args

from stepgauge.scoring import Reason

__all__ = ["LengthPolicy", "Pass", "check_policy", "plan_passes"]

LengthPolicy = Literal["error", "window", "drop_leading"]
StepIds = Callable[[int, bool], list[int]]


@dataclass(frozen=True, slots=True)
class Pass:
    """One sequence through the body: its ids and, for each step read in it, (step, first token, last token exclusive).

    The state at ``last - 1`` is read.
    """

    ids: tuple[int, ...]
    reads: tuple[tuple[int, int, int], ...]


def check_policy(policy: str) -> None:
    """Raise ValueError for an unknown policy."""
    if policy not in get_args(LengthPolicy):
        raise ValueError(f"length must be one of {', '.join(get_args(LengthPolicy))}; got {policy!r}")


def plan_passes(
    prompt: Sequence[int], step_ids: StepIds, n_steps: int, context: int, policy: LengthPolicy
) -> tuple[list[Pass], dict[int, Reason]]:
    """The sequences to run, and a reason for each step that none of them reads.

    ``error``: all or nothing ("too_large"). ``drop_leading``: the longest run of last steps that fits; the earlier ones
    are "truncated". ``window``: every step is read, given as many earlier ones as fit; the window moves by half.

    Args:
        prompt: ids of the problem and what surrounds it.
        step_ids: ids of a step, given its index and whether it comes right after the prompt.
        n_steps, context: steps, and tokens that the model takes.

    Example:
        >>> passes, reasons = plan_passes([0], lambda index, first: [index + 1] * 4, 3, 9, "drop_leading")
        >>> passes[0].reads, reasons
        (((1, 1, 5), (2, 5, 9)), {0: 'truncated'})
    """
    own = [step_ids(index, False) for index in range(n_steps)]
    lead = [step_ids(index, True) for index in range(n_steps)] if n_steps else []
    room = context - len(prompt)
    ends = [0, *accumulate(len(ids) for ids in own)]

    def size(first: int, last: int) -> int:
        return len(lead[first]) + ends[last] - ends[first + 1] if first < last else 0

    def run(first: int, last: int, read_from: int) -> Pass:
        ids, reads = list(prompt), []
        for index in range(first, last):
            start = len(ids)
            ids += lead[index] if index == first else own[index]
            if index >= read_from and len(ids) > start:
                reads.append((index, start, len(ids)))
        return Pass(tuple(ids), tuple(reads))

    empty: dict[int, Reason] = {index: "no_claim" for index in range(n_steps) if not lead[index]}
    if size(0, n_steps) <= room:
        return ([run(0, n_steps, 0)] if n_steps else []), empty
    if policy == "error":
        return [], dict.fromkeys(range(n_steps), "too_large")
    if policy == "drop_leading":
        first = next((index for index in range(n_steps) if size(index, n_steps) <= room), n_steps)
        reasons: dict[int, Reason] = dict.fromkeys(range(first), "truncated")
        kept = [run(first, n_steps, first)] if first < n_steps else []
        return kept, {**{index: why for index, why in empty.items() if index >= first}, **reasons}
    return _windows(n_steps, room, size, run, empty)


def _windows(
    n_steps: int,
    room: int,
    size: Callable[[int, int], int],
    run: Callable[[int, int, int], Pass],
    reasons: dict[int, Reason],
) -> tuple[list[Pass], dict[int, Reason]]:
    passes = []
    index = 0
    while index < n_steps:
        if size(index, index + 1) > room:
            reasons[index] = "too_large"
            index += 1
            continue
        first = index
        while first > 0 and size(first - 1, index) <= room // 2 and size(first - 1, index + 1) <= room:
            first -= 1
        last = index + 1
        while last < n_steps and size(first, last + 1) <= room:
            last += 1
        passes.append(run(first, last, index))
        index = last
    return passes, reasons
