"""First-error labels with a real model: 60 steps, one journaled pool of 48 completions a prefix.

    python benchmarks/label_local_model.py MODEL SOLUTIONS --out out/labels.jsonl [--steps 60] [--pool 48] [--minutes 8]

MODEL is a folder or a .gguf file, SOLUTIONS a file of rows with problem, gold and text or steps, or "bundled:dev_1.5b"
(``benchmarks/arithmetic_policy.py`` makes both in minutes). Samples 16 to pool − 1 of each prefix are the truth: the
first error is the first prefix without a right one. The strategies draw from samples 0 to 15 of the same pool, which
the truth never sees. Stopped by --minutes, ctrl-c or kill, it goes on where it was (the journal is OUT.journal) and
writes the same OUT: a row a solution. The last line on stdout is one JSON document.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import transformers

from stepgauge.data import read_rollouts, to_row, write_rows
from stepgauge.lm.generating import LocalGenerator
from stepgauge.loading import load
from stepgauge.prm.labelling import Counts, Journal, SolutionLabels, adaptive, binary, uniform
from stepgauge.prm.labelling.rollouts import PrefixRollouts
from stepgauge.scoring import Rollout
from stepgauge.selection import bootstrap_interval

DRAWS = 16  # samples that the strategies may use
STRATEGIES: dict[str, Callable[..., SolutionLabels]] = {
    "uniform-16": partial(uniform, rollouts=DRAWS),
    "uniform-4": partial(uniform, rollouts=4),
    "binary-16": partial(binary, rollouts=DRAWS, recheck=0),
    "binary-8": partial(binary, rollouts=8, recheck=0),
    "adaptive 0.05": partial(adaptive, error_rate=0.05),
    "adaptive 0.05, waves of 4": partial(adaptive, error_rate=0.05, wave=4),
}


def choose(source: str, steps: int, shortest: int, longest: int) -> list[Rollout]:
    """The first solutions of distinct problems until there are ``steps`` steps."""
    chosen: list[Rollout] = []
    seen: set[str] = set()
    for rollout in read_rollouts(source, how="newline"):
        if rollout.gold is None or rollout.problem in seen or not shortest <= len(rollout.steps) <= longest:
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


def fill(sources: list[PrefixRollouts], pool: int, minutes: float) -> bool:
    """Draw what the pool lacks; False where the time was up before that."""
    places = [(source, step) for source in sources for step in range(len(source.rollout.steps))]
    started = shown = time.monotonic()
    for done, (source, step) in enumerate(places):
        now = time.monotonic()
        if now - started > 60 * minutes:
            print(f"stopped after {minutes:g} minutes, {done} of {len(places)} prefixes; run again to go on")
            return False
        if now - shown > 10:
            shown = now
            left = (now - started) / done * (len(places) - done)
            print(f"{done} of {len(places)} prefixes, {source.journal.totals()}, {left:.0f} s left", flush=True)
        source.draw(step, DRAWS)  # a request of its own: the strategies' samples
        source.draw(step, pool)
    return True


def labels(source: PrefixRollouts, strategy: Callable[..., SolutionLabels]) -> SolutionLabels:
    """What a strategy makes of the first samples of the pool."""

    def draw(step: int, n: int) -> Counts:
        return source.draw(step, min(n, DRAWS))

    return strategy(draw, len(source.rollout.steps))


def compare(gold: list[int | None], found: dict[str, list[SolutionLabels]]) -> dict[str, Any]:
    """Of each strategy: accuracy, difference to uniform-16 and share of its completions, with 95 % intervals."""
    known = [index for index, error in enumerate(gold) if error is not None]
    if not known:
        return {}
    hits = {name: [float(made[i].first_error == gold[i]) for i in known] for name, made in found.items()}
    used = {name: [made[i].rollouts for i in known] for name, made in found.items()}
    base = "uniform-16"
    rows = {}
    for name in found:
        accuracy = bootstrap_interval(hits[name])
        gap = bootstrap_interval([a - b for a, b in zip(hits[name], hits[base], strict=True)])
        rows[name] = {
            "accuracy": [accuracy.mean, accuracy.low, accuracy.high],
            "minus_uniform16": [gap.mean, gap.low, gap.high],
            "rollouts": sum(used[name]),
            "share": sum(used[name]) / sum(used[base]),
            "undecided": sum(found[name][i].first_error is None for i in known),
        }
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("solutions")
    parser.add_argument("--out", required=True)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--shortest", type=int, default=3)
    parser.add_argument("--longest", type=int, default=8)
    parser.add_argument("--pool", type=int, default=48)
    parser.add_argument("--max-tokens", type=int, default=256)
    parser.add_argument("--minutes", type=float, default=60.0)
    options = parser.parse_args()
    if options.pool <= DRAWS:
        parser.error(f"--pool must be above {DRAWS}: the rest of the pool is the truth")
    started = time.monotonic()
    generator = LocalGenerator(options.model, max_tokens=options.max_tokens, temperature=1.0)
    solutions = choose(options.solutions, options.steps, options.shortest, options.longest)
    math = load("math")
    with Journal(f"{options.out}.journal") as journal:
        sources = [PrefixRollouts(rollout, generator, math, journal) for rollout in solutions]
        if not fill(sources, options.pool, options.minutes):
            return
        gold = [truth(source, len(source.rollout.steps), options.pool) for source in sources]
        found = {name: [labels(source, strategy) for source in sources] for name, strategy in STRATEGIES.items()}
        whole = [[source.draw(step, options.pool) for step in range(len(source.rollout.steps))] for source in sources]
        completions, tokens = journal.totals()
    write_rows(
        options.out,
        (
            to_row(rollout)
            | {
                "truth": gold[i],
                "counts": [c.to_json() for c in whole[i]],
                "found": {name: found[name][i].to_json() for name in found},
            }
            for i, rollout in enumerate(solutions)
        ),
    )
    flat = [counts for row in whole for counts in row]
    report = {
        "strategies": compare(gold, found),
        "solutions": len(solutions),
        "steps": len(flat),
        "pool": options.pool,
        "first_errors": {str(key): gold.count(key) for key in sorted(set(gold), key=str)},
        "completions": completions,
        "tokens": tokens,
        "right": sum(c.correct for c in flat) / max(sum(c.judged for c in flat), 1),
        "truncated": sum(c.truncated for c in flat) / max(sum(c.drawn for c in flat), 1),
        "seconds": round(time.monotonic() - started, 1),
        "model": options.model.rstrip("/").rsplit("/", 1)[-1],
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
        "versions": f"torch {torch.__version__}, transformers {transformers.__version__}",
    }
    for name, row in report["strategies"].items():
        print(f"{name:26} {row}")
    print(json.dumps(report))


if __name__ == "__main__":
    main()
