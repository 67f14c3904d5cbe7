"""Choosing among programs by inputs on which they differ (S*): run, group by output, let a judge decide between groups.

The programs are hostile and run in a sandbox; what they return is compared as data.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stepgauge.verifiers.code_compare import same_value
from stepgauge.verifiers.code_judging import Returned, call_outputs
from stepgauge.verifiers.sandbox import Limits, Sandbox

__all__ = ["Distinguished", "Judge", "both_orders", "distinguish", "output_groups"]

# (input number, first candidate, second candidate) -> 1 the first is right, 0 the second, 0.5 no decision
Judge = Callable[[int, int, int], float]


@dataclass(frozen=True, slots=True)
class Distinguished:
    """Points of each candidate, and the winner: the first with most points; None where the judge decided nothing."""

    scores: tuple[int, ...]
    winner: int | None


def distinguish(groups_per_input: Sequence[Mapping[Any, Sequence[int]]], n: int, judge: Judge) -> Distinguished:
    """Choose a program by the inputs on which the candidates give different outputs.

    On each input every two groups are compared once, by their first members; each member of the group the judge
    prefers gets a point. An input on which all agree says nothing and costs no judgement. Without a winner, compare the
    programs themselves.

    Args:
        groups_per_input: for each input, output to the candidates that gave it (see ``output_groups``).
        n: number of candidates.
        judge: see ``Judge``; ``both_orders`` makes one that asks twice.

    Raises:
        ValueError: a candidate outside 0..n-1 or in two groups of one input, an empty group, or a judgement outside
            [0, 1].

    Example:
        >>> distinguish([{"3": [0, 2], "4": [1]}], 3, lambda item, first, second: 1.0)
        Distinguished(scores=(1, 0, 1), winner=0)

    References:
        Li et al. 2025, S*: Test Time Scaling for Code Generation, arXiv:2502.14382.
    """
    scores = [0] * n
    for item, groups in enumerate(groups_per_input):
        members = [candidate for group in groups.values() for candidate in group]
        if len(set(members)) != len(members) or not all(0 <= candidate < n for candidate in members):
            raise ValueError(f"groups_per_input[{item}] must hold candidates 0..{n - 1}, each once; got {members}")
        if not all(groups.values()):
            raise ValueError(f"groups_per_input[{item}] has an empty group")
        for first, second in itertools.combinations(groups.values(), 2):
            value = judge(item, first[0], second[0])
            if not 0 <= value <= 1:
                raise ValueError(f"the judge must give a number in [0, 1] (0.5 = no decision), got {value!r}")
            if value != 0.5:
                for candidate in first if value > 0.5 else second:
                    scores[candidate] += 1
    return Distinguished(tuple(scores), scores.index(max(scores)) if any(scores) else None)


def both_orders(judge: Judge) -> Judge:
    """A judge that is asked in both orders and decides only where both answers agree.

    Language models prefer what stands first.

    Example:
        >>> both_orders(lambda item, first, second: 1.0)(0, 1, 2)  # always the first: no decision
        0.5
    """

    def judged(item: int, first: int, second: int) -> float:
        forward, backward = judge(item, first, second), 1 - judge(item, second, first)
        agree = (forward - 0.5) * (backward - 0.5) > 0
        return (forward + backward) / 2 if agree else 0.5

    return judged


def output_groups(
    programs: Sequence[str | None],
    calls: Sequence[tuple[str, Sequence[Any]]],
    sandbox: Sandbox,
    *,
    limits: Limits | None = None,
) -> list[dict[int, list[int]]]:
    """Run every program on every call; for each call, the candidates that returned the same, by number of the group.

    A program that raises, runs too long or returns no plain data is in no group on that call: it cannot win by it.

    Args:
        programs: (N,) sources; hostile. None = no program.
        calls: pairs (function, arguments), the arguments plain data.
        sandbox: see ``verifiers.sandbox.choose_sandbox``.
        limits: for each call.

    Raises:
        SandboxError: the sandbox is missing or failed. TypeError: arguments that are not plain data.

    Example:
        >>> from stepgauge.verifiers.sandbox import choose_sandbox
        >>> programs = ["def f(x): return x + 1", "def f(x): return x * 2"]
        >>> output_groups(programs, [("f", [1]), ("f", [3])], choose_sandbox())  # doctest: +SKIP
        [{0: [0, 1]}, {0: [0], 1: [1]}]
    """
    allowed = limits or Limits()
    with sandbox as box:
        rows = [[None] * len(calls) if p is None else call_outputs(p, calls, box, allowed) for p in programs]
    return [_groups([row[at] for row in rows]) for at in range(len(calls))]


def _groups(outputs: Sequence[Returned | None]) -> dict[int, list[int]]:
    groups: list[tuple[Returned, list[int]]] = []
    for candidate, output in enumerate(outputs):
        if output is None or not _same(output, output):  # an object, or NaN
            continue
        same = (at for at, (first, _) in enumerate(groups) if _same(output, first))
        at = next(same, len(groups))
        if at == len(groups):
            groups.append((output, []))
        groups[at][1].append(candidate)
    return {at: members for at, (_, members) in enumerate(groups)}


def _same(left: Returned, right: Returned) -> bool:
    return same_value(left.value, right.value, tuples_as_lists=False)
