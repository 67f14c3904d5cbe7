"""First-error labels with a real model: 60 steps, one journaled pool of 48 completions a prefix.

Run: python benchmarks/label_local_model.py MODEL [--steps 60] [--pool 48] [--minutes 60] [--journal FILE]

MODEL is a folder or a .gguf file (docs/logprob.md says where to get one). The solutions are bundled ones, written by a
0.5B or 1.5B model for problems of reasoning-gym. Samples 16 to pool − 1 of each prefix are the truth: the first error
is the first prefix without a right one. The strategies draw from samples 0 to 15 of the same pool, which the truth
never sees. Stopped (by --minutes, ctrl-c or kill), it goes on where it was; the last line is one JSON document.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from functools import partial

import torch
import transformers

from stepgauge.data import bundled
from stepgauge.lm.generating import LocalGenerator
from stepgauge.loading import load
from stepgauge.prm.labelling import Counts, Journal, SolutionLabels, adaptive, binary, uniform
from stepgauge.prm.labelling.rollouts import PrefixRollouts
from stepgauge.scoring import Rollout
from stepgauge.selection import bootstrap_interval

DRAWS = 16  # samples that the strategies may use
STRATEGIES: dict[str, Callable[..., SolutionLabels]] = {
    "uniform-16": partial(uniform, rollouts=DRAWS),
    "binary-16": partial(binary, rollouts=DRAWS, recheck=0),
    "binary-8": partial(binary, rollouts=8, recheck=0),
    "adaptive 0.05": partial(adaptive, error_rate=0.05),
    "adaptive 0.05, waves of 4": partial(adaptive, error_rate=0.05, wave=4),
}


def choose(sample: str, steps: int, shortest: int, longest: int) -> list[Rollout]:
    """Solutions of distinct problems until there are ``steps`` steps."""
    chosen: list[Rollout] = []
    seen: set[str] = set()
    for rollout in bundled(sample):
        if rollout.problem in seen or not shortest <= len(rollout.steps) <= longest or not rollout.meta["finished"]:
            continue
        seen.add(rollout.problem)
        chosen.append(rollout)
        if sum(len(r.steps) for r in chosen) >= steps:
            break
    return chosen


def truth(source: PrefixRollouts, n_steps: int, pool: int) -> int | None:
    """First prefix without a right completion among samples DRAWS to pool − 1; None where one has none judged."""
    for step in range(n_steps):
        early, whole = source.draw(step, DRAWS), source.draw(step, pool)
        if whole.correct == early.correct:
            return step if whole.judged > early.judged else None
    return -1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--sample", default="dev_1.5b")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--shortest", type=int, default=3)
    parser.add_argument("--longest", type=int, default=8)
    parser.add_argument("--pool", type=int, default=48)
    parser.add_argument("--max-tokens", type=int, default=256)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--journal", default="out/label_local_model.journal")
    options = parser.parse_args()
    if options.pool <= DRAWS:
        parser.error(f"--pool must be above {DRAWS}: the rest of the pool is the truth")
    generator = LocalGenerator(options.model, max_tokens=options.max_tokens, temperature=1.0)
    solutions = choose(options.sample, options.steps, options.shortest, options.longest)
    prefixes = sum(len(rollout.steps) for rollout in solutions)
    math, started, done = load("math"), time.monotonic(), 0
    with Journal(options.journal) as journal:
        sources = [PrefixRollouts(rollout, generator, math, journal) for rollout in solutions]
        for source in sources:
            for step in range(len(source.rollout.steps)):
                source.draw(step, DRAWS)  # a request of its own: the strategies' samples
                source.draw(step, options.pool)
                done += 1
                minutes = (time.monotonic() - started) / 60
                if minutes > options.minutes:
                    print(f"stopped after {minutes:.0f} minutes, {done} of {prefixes} prefixes; run again to go on")
                    return
                left = minutes / done * (prefixes - done)
                print(f"{done} of {prefixes} prefixes, {journal.totals()}, {left:.0f} min left", flush=True)
        completions, tokens = journal.totals()
        gold = [truth(source, len(source.rollout.steps), options.pool) for source in sources]
        report = _compare(sources, gold)
    whole = [source.draw(step, options.pool) for source in sources for step in range(len(source.rollout.steps))]
    report |= {
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
        "versions": f"torch {torch.__version__}, transformers {transformers.__version__}",
        "model": options.model.rsplit("/", 1)[-1],
        "solutions": len(solutions),
        "steps": prefixes,
        "pool": options.pool,
        "completions": completions,
        "tokens": tokens,
        "right": sum(c.correct for c in whole) / sum(max(c.judged, 1) for c in whole),
        "truncated": sum(c.truncated for c in whole) / sum(c.drawn for c in whole),
        "first_errors": {str(key): gold.count(key) for key in dict.fromkeys(gold)},
    }
    print(json.dumps(report))


def _compare(sources: list[PrefixRollouts], gold: list[int | None]) -> dict:
    """Accuracy of each strategy against the truth, and what it used."""
    known = [index for index, error in enumerate(gold) if error is not None]
    rows = {}
    for name, strategy in STRATEGIES.items():

        def draw(step: int, n: int, source: PrefixRollouts) -> Counts:
            return source.draw(step, min(n, DRAWS))

        found = [strategy(partial(draw, source=sources[i]), len(sources[i].rollout.steps)) for i in known]
        right = [float(labels.first_error == gold[i]) for i, labels in zip(known, found, strict=True)]
        interval = bootstrap_interval(right) if right else None
        rows[name] = {
            "accuracy": None if interval is None else [interval.mean, interval.low, interval.high],
            "rollouts": sum(labels.rollouts for labels in found),
        }
        print(f"{name:26} {rows[name]}")
    return {"strategies": rows, "without_truth": len(gold) - len(known)}


if __name__ == "__main__":
    main()
