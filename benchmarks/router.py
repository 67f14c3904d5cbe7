"""The router over three simulated scorers of different strength: regret against the best single one, and restored.

The reward is 1 where the chosen scorer ranks a right solution above a wrong one, with a chance that depends on scorer
and topic. Worlds: one scorer best everywhere, another one for each topic, three equal ones. The last line is JSON.
"""

from __future__ import annotations

import json
import platform
import time

import numpy as np

from stepgauge.selection import LinearPosterior, Router, bootstrap_interval

ROUNDS, RUNS = 2_000, 10
SCORERS = ("prm", "critic", "arithmetic")
WORLDS = {  # chance that a scorer ranks right, by topic (algebra, geometry, counting)
    "one is best everywhere": ((0.85, 0.85, 0.85), (0.70, 0.70, 0.70), (0.55, 0.55, 0.55)),
    "another is best for each topic": ((0.90, 0.60, 0.60), (0.60, 0.85, 0.60), (0.55, 0.55, 0.80)),
    "all are equal": ((0.70, 0.70, 0.70),) * 3,
}


def new_router(seed: int) -> Router:
    return Router({name: LinearPosterior.prior(np.full(3, 0.5), sigma2=0.25) for name in SCORERS}, seed=seed)


def run(chances: np.ndarray, seed: int, restore_at: int | None = None) -> dict[str, float]:
    """Regret by the expected reward, over all rounds and over the last quarter; each router sees the same problems."""
    rng = np.random.default_rng(seed)
    topics = rng.integers(3, size=ROUNDS)
    luck = rng.uniform(size=ROUNDS)
    router = new_router(seed)
    expected = np.empty(ROUNDS)
    for at, topic in enumerate(topics):
        if at == restore_at:
            router = Router.from_json(json.loads(json.dumps(router.to_json())))
        context = np.eye(3)[topic]
        name = router.choose(context)
        expected[at] = chances[SCORERS.index(name), topic]
        router.update(name, context, float(luck[at] < expected[at]))
    best_single = chances[:, topics].mean(axis=1).max()
    oracle = chances.max(axis=0)[topics].mean()
    return {
        "router": float(expected.mean()),
        "router_last_quarter": float(expected[-ROUNDS // 4 :].mean()),
        "best_single": float(best_single),
        "oracle": float(oracle),
        "mean_of_scorers": float(chances[:, topics].mean()),
        "regret_to_best_single": float((best_single - expected.mean()) * ROUNDS),
        "regret_to_oracle": float((oracle - expected.mean()) * ROUNDS),
    }


def main() -> None:
    report = {}
    for world, rows in WORLDS.items():
        chances = np.array(rows)
        runs = [run(chances, seed) for seed in range(RUNS)]
        assert run(chances, 0, restore_at=ROUNDS // 2) == runs[0], "a restored router chose otherwise"
        report[world] = {name: bootstrap_interval([one[name] for one in runs]) for name in runs[0]}
        print(f"\n{world} ({RUNS} runs of {ROUNDS} problems)")
        for name, value in report[world].items():
            print(f"  {name:24}{value.mean:9.3f}   {value.low:.3f} to {value.high:.3f}")
    print("\nsaved and restored in the middle of a run: the same choices")
    router, context = new_router(0), np.ones(3)
    started = time.perf_counter()
    for _ in range(1_000):
        router.update(router.choose(context), context, 1.0)
    per_choice = (time.perf_counter() - started) / 1_000
    print(f"a choice and an update among 3 scorers, d = 3: {per_choice * 1e6:.0f} us")
    means = {world: {name: value.mean for name, value in values.items()} for world, values in report.items()}
    print(
        json.dumps(
            {
                "worlds": means,
                "us_per_choice": per_choice * 1e6,
                "numpy": np.__version__,
                "python": platform.python_version(),
                "machine": platform.machine(),
            }
        )
    )


if __name__ == "__main__":
    main()
