"""Train the scorer of word problems that ships with the package.

    python examples/word_problem_prm/train.py --gsm8k train.jsonl --shared ../shared --out OUT

Worked solutions of GSM8K's training set and damaged copies of them (damage.py) give step labels: 1 until something has
gone wrong. Problems that share 13 words in a row with an evaluation set are left out and counted. A fifth of them is
kept back to choose settings on; then all are used. evaluate.py looks at the sets that are for evaluation.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
from damage import Labelled, worked_and_damaged
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from stepgauge.data import bundled
from stepgauge.data.decontamination import BenchmarkIndex
from stepgauge.prm.step_features import FEATURES, step_features

SEED = 20261201


def evaluation_problems(shared: Path) -> list[str]:
    """Every problem of the sets that are for evaluation only."""
    data = shared / "data"
    found = [rollout.problem for name in ("dev_0.5b", "dev_1.5b") for rollout in bundled(name)]
    for path in [*data.glob("gsm8k_rollouts/*.jsonl"), *data.glob("mr_gsm8k/*.jsonl"), *data.glob("mr_ben/*.jsonl"),
                 *data.glob("prmbench/*.jsonl"), data / "gsm8k/test.jsonl"]:  # fmt: skip
        for line in path.open(encoding="utf-8"):
            row = json.loads(line)
            texts = [row.get(name) for name in ("problem", "question", "Question", "original_question")]
            found += [text for text in texts if isinstance(text, str) and text.strip()]
    for path in data.glob("processbench/*.json"):
        found += [row["problem"] for row in json.loads(path.read_text(encoding="utf-8"))]
    return sorted(set(found))


def table(items: list[Labelled]) -> tuple[Any, Any, Any, Any]:
    """(features, labels, whether a row is its solution's last, group) of every step."""
    x, y, last, group = [], [], [], []
    for item in items:
        rows = step_features(item.problem, item.steps)
        for index, (row, label) in enumerate(zip(rows, item.labels, strict=True)):
            if row is not None:
                x.append(row)
                y.append(label)
                last.append(index == len(rows) - 1)
                group.append(item.group)
    return np.array(x), np.array(y), np.array(last), np.array(group)


def exported(model: GradientBoostingClassifier, x: Any) -> dict[str, Any]:
    """The trees as ``stepgauge.prm.word_problems.Trees`` reads them."""
    parts: dict[str, list[Any]] = {name: [] for name in ("feature", "threshold", "left", "right", "value")}
    roots, size = [], 0
    for (regressor,) in model.estimators_:
        tree = regressor.tree_
        leaf = tree.children_left < 0
        roots.append(size)
        parts["feature"].append(np.where(leaf, -1, tree.feature))
        parts["threshold"].append(np.where(leaf, 0.0, tree.threshold))
        parts["left"].append(np.where(leaf, 0, tree.children_left + size))
        parts["right"].append(np.where(leaf, 0, tree.children_right + size))
        parts["value"].append(np.where(leaf, tree.value[:, 0, 0] * model.learning_rate, 0.0))
        size += tree.node_count
    whole = {name: np.concatenate(part) for name, part in parts.items()}
    whole |= {name: whole[name].astype(np.int32) for name in ("feature", "left", "right")}
    whole["value"] = whole["value"].astype(np.float32)
    whole["roots"] = np.array(roots, dtype=np.int32)
    bias = (
        model.decision_function(x[:1])[0] - sum(r[0].predict(x[:1])[0] for r in model.estimators_) * model.learning_rate
    )
    whole["bias"] = np.array([bias])
    whole["names"] = np.frombuffer(" ".join(FEATURES).encode(), dtype=np.uint8)
    return whole


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gsm8k", type=Path, required=True, help="train.jsonl of GSM8K")
    parser.add_argument("--shared", type=Path, required=True, help="the folder whose data/ holds the evaluation sets")
    parser.add_argument("--trees", type=int, default=400)
    parser.add_argument("--depth", type=int, default=5)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    index = BenchmarkIndex(evaluation_problems(options.shared))
    rng = random.Random(SEED)
    items: list[Labelled] = []
    shared = 0
    for at, line in enumerate(options.gsm8k.open(encoding="utf-8")):
        row = json.loads(line)
        if index.overlap(row["question"]) is not None:
            shared += 1
        else:
            items += worked_and_damaged(str(at), row["question"], row["answer"], rng)
    print(f"{shared} problems share 13 words with an evaluation set and are left out; {len(items)} solutions")
    x, y, last, group = table(items)
    held = np.array([int(name) % 5 == 0 for name in group])

    def fit(rows: Any, labels: Any) -> GradientBoostingClassifier:
        model = GradientBoostingClassifier(
            n_estimators=options.trees, max_depth=options.depth, learning_rate=0.08, subsample=0.7, min_samples_leaf=20,
            max_features=0.4, random_state=SEED,
        )  # fmt: skip
        return model.fit(rows, labels)

    odds = fit(x[~held], y[~held]).decision_function(x[held])
    every, final = roc_auc_score(y[held], odds), roc_auc_score(y[held & last], odds[last[held]])
    print(f"kept back: AUC of all steps {every:.3f}, of last steps {final:.3f}")
    model = fit(x, y)
    from safetensors.numpy import save_file

    save_file(exported(model, x), options.out)
    print(f"wrote {options.out}: {options.out.stat().st_size / 1e3:.0f} kB")
    best = sorted(zip(model.feature_importances_, FEATURES, strict=True), reverse=True)[:12]
    print("most used:", ", ".join(f"{name} {share:.2f}" for share, name in best))


if __name__ == "__main__":
    main()
