"""First-error labels of simulated solutions: completions used and accuracy of uniform, binary and adaptive.

Each solution has a known first error (or none) and known success rates of its prefixes; completions are coin flips, the
same pool for every strategy. Three worlds: "clean" (rates 0 past the error), "leaky" (an error is sometimes repaired)
and "hard" (low rates before the error). None of them is the prior of the adaptive test.

    python benchmarks/labelling.py [--problems 200] [--seed 0] [--json]
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from stepgauge.prm.labelling import Counts, SolutionLabels, adaptive, binary, uniform

POOL = 16


@dataclass(frozen=True)
class World:
    """How success rates come about: Beta of a solution's rate, scatter of its prefixes, repaired share and rate."""

    ease: tuple[float, float]
    scatter: float
    repaired: float
    repair_rate: float


WORLDS = {
    "clean": World((2.0, 1.2), 0.10, 0.0, 0.0),
    "leaky": World((2.0, 1.2), 0.10, 0.25, 0.10),
    "hard": World((1.5, 4.0), 0.08, 0.1, 0.05),
}
STRATEGIES: dict[str, Callable[..., SolutionLabels]] = {
    "uniform-16": partial(uniform, rollouts=16),
    "uniform-4": partial(uniform, rollouts=4),
    "binary-16": partial(binary, rollouts=16, recheck=0),
    "binary-8": partial(binary, rollouts=8, recheck=0),
    "adaptive 0.10": partial(adaptive, error_rate=0.10),
    "adaptive 0.05": partial(adaptive, error_rate=0.05),
    "adaptive 0.02": partial(adaptive, error_rate=0.02),
    "adaptive 0.05, waves of 4": partial(adaptive, error_rate=0.05, wave=4),
}


def simulate(world: World, problems: int, seed: int) -> list[tuple[int, np.ndarray]]:
    """(first error or -1, outcomes (S, POOL)) of each problem: 4 to 12 steps, 60 % with an error at a uniform step."""
    random = np.random.default_rng(seed)
    made = []
    for _ in range(problems):
        steps = int(random.integers(4, 13))
        error = int(random.integers(steps)) if random.random() < 0.6 else -1
        ease = np.clip(random.beta(*world.ease), 0.05, 0.99)
        rates = np.clip(ease + random.normal(0, world.scatter, steps), 0.05, 0.99)
        if error >= 0:
            repaired = random.random(steps - error) < world.repaired
            rates[error:] = np.where(repaired, random.uniform(0, 2 * world.repair_rate, steps - error), 0.0)
        made.append((error, random.random((steps, POOL)) < rates[:, None]))
    return made


def run(strategy: Callable[..., SolutionLabels], problem: tuple[int, np.ndarray]) -> tuple[bool, int, bool]:
    """(label is right, completions used, decided with the stated error rate of at most 0.1)."""
    error, outcomes = problem

    def draw(step: int, n: int) -> Counts:
        right = int(outcomes[step, :n].sum())
        return Counts(right, n - right)

    found = strategy(draw, len(outcomes))
    return found.first_error == error, found.rollouts, found.confidence is None or found.confidence >= 0.9


def measure(problems: int, seed: int) -> list[dict]:
    """One row a world and strategy; intervals: 95 % bootstrap over problems, paired with uniform-16."""
    rows = []
    picks = np.random.default_rng(seed + 1).integers(problems, size=(10_000, problems))
    for name, world in WORLDS.items():
        made = simulate(world, problems, seed)
        found = {label: np.array([run(strategy, p) for p in made]) for label, strategy in STRATEGIES.items()}
        base = found["uniform-16"].astype(float)
        for label, result in found.items():
            right, used = result[:, 0].astype(float), result[:, 1].astype(float)
            gap = (right - base[:, 0])[picks].mean(1)
            share = used[picks].sum(1) / base[:, 1][picks].sum(1)
            rows.append(
                {
                    "world": name,
                    "strategy": label,
                    "problems": problems,
                    "accuracy": right.mean(),
                    "accuracy_95": np.quantile(right[picks].mean(1), [0.025, 0.975]).tolist(),
                    "minus_uniform16": (right - base[:, 0]).mean(),
                    "minus_uniform16_95": np.quantile(gap, [0.025, 0.975]).tolist(),
                    "rollouts": used.mean(),
                    "share": used.sum() / base[:, 1].sum(),
                    "share_95": np.quantile(share, [0.025, 0.975]).tolist(),
                }
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = measure(options.problems, options.seed)
    if options.json:
        print("\n".join(json.dumps(row) for row in rows))
        return
    print(f"{options.problems} solutions a world, seed {options.seed}; 95 % bootstrap intervals over solutions")
    for row in rows:
        low, high = row["accuracy_95"]
        gap_low, gap_high = row["minus_uniform16_95"]
        share_low, share_high = row["share_95"]
        print(
            f"{row['world']:6} {row['strategy']:26} accuracy {row['accuracy']:.3f} [{low:.3f}, {high:.3f}]  "
            f"minus uniform-16 {row['minus_uniform16']:+.3f} [{gap_low:+.3f}, {gap_high:+.3f}]  "
            f"rollouts {row['rollouts']:6.1f}  share {row['share']:.3f} [{share_low:.3f}, {share_high:.3f}]"
        )


if __name__ == "__main__":
    main()
