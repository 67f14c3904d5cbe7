"""Critics for tests, importable by a spawned process."""

from __future__ import annotations

import re


def numbers_critic(prompt: str, n: int) -> list[str]:
    """Finds the first step with a false sum of two numbers: a critic without a model."""
    mark = re.search(r"#[0-9a-f]{12}", prompt)[0]
    steps = re.split(rf"{mark} (?:step \d+|end)\n?", prompt)[1:]
    for index, step in enumerate(steps):
        for left, sign, right, result in re.findall(r"(\d+) ([+*]) (\d+) = (\d+)", step):
            value = int(left) + int(right) if sign == "+" else int(left) * int(right)
            if value != int(result):
                return [f"That is false. \\boxed{{{index}}}"] * n
    return ["\\boxed{-1}"] * n
