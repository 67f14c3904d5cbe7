"""Conventions that decide contested answers: one frozen policy, three named presets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Policy:
    """What counts as the same answer where readers disagree.

    ``decimals``: a decimal stands for an exact value within half a unit of its last digit, from
    ``min_digits`` significant digits on.
    ``percent_sign``: ``required`` or ``optional`` (28% and 28). ``missing_unit``: a unit on one side only is accepted.
    ``names``: ``x = 3`` is the value 3. ``unordered``: a bare list is a set.
    ``tuple_as_set``: brackets do not fix an order.
    ``base_suffix``: a base written on one side only is accepted. ``fold_case``: letters' case of words does not count.
    """

    decimals: bool = True
    min_digits: int = 3
    percent_sign: Literal["required", "optional"] = "optional"
    missing_unit: bool = True
    names: bool = True
    unordered: bool = True
    tuple_as_set: bool = False
    base_suffix: bool = True
    fold_case: bool = True


PRESETS: dict[str, Policy] = {
    "default": Policy(),
    "strict": Policy(
        decimals=False,
        percent_sign="required",
        missing_unit=False,
        names=False,
        unordered=False,
        base_suffix=False,
        fold_case=False,
    ),
    "math_verify": Policy(min_digits=1, tuple_as_set=True),
}


def resolve(policy: Policy | str) -> Policy:
    """The policy itself, or the preset of that name.

    >>> resolve("strict").decimals
    False
    """
    if isinstance(policy, Policy):
        return policy
    if policy in PRESETS:
        return PRESETS[policy]
    raise ValueError(f"policy must be a Policy or one of {sorted(PRESETS)}, got {policy!r}")
