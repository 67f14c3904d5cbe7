"""A generator without a model: prefixes with a false sum rarely reach the answer. Importable by a spawned process."""

from __future__ import annotations

import os
import random
import time

from stepgauge.generation import Completion
from stepgauge.scoring import Rollout


def complete(prompt, seed):
    """Right with probability 0.7, or 0 behind the word WRONG; one in ten is cut. Sleeps if the environment asks."""
    time.sleep(float(os.environ.get("STEPGAUGE_TEST_SLEEP_S", "0")))
    random_ = random.Random(seed)
    if random_.random() < 0.1:
        return Completion("and so on", finish="length", tokens=9)
    right = "WRONG" not in prompt.prefix and random_.random() < 0.7
    return Completion(f"The answer is {7 if right else random_.randint(8, 99)}.", tokens=5)


def judge(prompt, seed):
    """Names the first step that says WRONG."""
    text = prompt.problem.split(" step 0\n", 1)[1]
    steps = text.split(" step ")
    index = next((i for i, step in enumerate(steps) if "WRONG" in step), -1)
    return f"I looked at it. \\boxed{{{index}}}"


def solutions(count, steps=6):
    """Solutions of 3 + 4 whose first wrong step is known by ``meta``."""
    made = []
    for index in range(count):
        error = index % (steps + 1) - 1
        texts = tuple(f"Step {i} of {index}." + (" WRONG." if i == error else "") for i in range(steps))
        made.append(Rollout("3 + 4?", texts, gold="7", id=str(index), meta={"error": error}))
    return made
