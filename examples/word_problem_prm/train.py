"""Train the embedded process reward model and say how good it is.

    python examples/word_problem_prm/train.py --gsm8k train.jsonl --rollouts rollouts.jsonl --shared ../shared --out OUT

Step labels come from rules: a sampled solution is right up to its first false sum or its first computed number that the
worked solution does not hold; one that reaches the gold answer is right throughout. Damaged worked solutions (of
damage.py) add errors whose place is known. Problems that share 13 words in a row with an evaluation set are left out
and counted. A fifth of the problems is kept back to choose settings on; evaluate.py looks at the sets for evaluation.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
from damage import Labelled, worked_and_damaged
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from stepgauge.data import bundled
from stepgauge.data.decontamination import BenchmarkIndex
from stepgauge.data.steps import split
from stepgauge.prm.step_features import FEATURES, step_features
from stepgauge.verifiers.step_arithmetic import step_claims

SEED = 20261201
_NUMBER = re.compile(r"-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")
_ANSWER = re.compile(r"(?i)answer is[^\d\-.]{0,20}(-?[\d,]*\.?\d+)")


def numbers(text: str) -> list[float]:
    return [round(float(found.replace(",", "")), 3) for found in _NUMBER.findall(text)]


def stated_answer(text: str) -> float | None:
    """The last number after "answer is", else the last number."""
    marked = _ANSWER.findall(text)
    found = numbers(marked[-1]) if marked else numbers(text)
    return found[-1] if found else None


def labelled_rollout(row: dict[str, Any]) -> Labelled | None:
    """A sampled solution with labels by rule."""
    steps = [row["text"][a:b] for a, b in split(row["text"])]
    if not steps:
        return None
    gold = round(float(row["gold"]), 3)
    if row["finished"] and stated_answer(row["text"]) == gold:
        return Labelled(row["problem_id"], row["problem"], steps, [1] * len(steps))
    right = {gold} | {number for part in re.split(r"[=≈]", row["solution"])[1:] for number in numbers(part)[:1]}
    labels: list[int] = []
    for index, step in enumerate(steps):
        claims = step_claims(step) if len(step) < 20_000 else []
        results = [numbers(re.split(r"[=≈]", claim.text)[-1])[:1] for claim in claims]
        computed = [found[0] for found in results if found]
        wrong = any(claim.holds is False for claim in claims) or (computed and not set(computed) & right)
        broken = bool(wrong) or index == len(steps) - 1 or (bool(labels) and labels[-1] == 0)
        labels.append(int(not broken))
    return Labelled(row["problem_id"], row["problem"], steps, labels)


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
    parser.add_argument("--rollouts", type=Path, required=True, help="what sample.py wrote")
    parser.add_argument("--shared", type=Path, required=True, help="the folder whose data/ holds the evaluation sets")
    parser.add_argument("--damaged", type=int, default=4000, help="GSM8K problems to damage the solutions of")
    parser.add_argument(
        "--weight", type=float, default=0.3, help="weight of a damaged solution's step; a sampled one's is 1"
    )
    parser.add_argument("--trees", type=int, default=200)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    index = BenchmarkIndex(evaluation_problems(options.shared))
    rng = random.Random(SEED)
    sampled = [
        found for line in options.rollouts.open(encoding="utf-8") if (found := labelled_rollout(json.loads(line)))
    ]
    worked: list[Labelled] = []
    rows = [json.loads(line) for line in options.gsm8k.open(encoding="utf-8")]
    random.Random(7).shuffle(rows)  # as sample.py does: g17 is the same problem in both
    for at, row in enumerate(rows[: options.damaged]):
        worked += worked_and_damaged(f"g{at}", row["question"], row["answer"], rng)
    shared_words = {item.problem for item in sampled + worked if index.overlap(item.problem) is not None}
    print(f"{len(shared_words)} problems share 13 words with an evaluation set and are left out")
    sampled = [item for item in sampled if item.problem not in shared_words]
    worked = [item for item in worked if item.problem not in shared_words]
    print(f"{len(sampled)} sampled and {len(worked)} worked or damaged solutions")
    (x, y, last, group), (wx, wy, _, wgroup) = table(sampled), table(worked)
    groups = sorted(set(group.tolist()))
    random.Random(SEED).shuffle(groups)
    held = np.isin(group, groups[: len(groups) // 5])
    clear = ~np.isin(wgroup, groups[: len(groups) // 5])

    def fit(rows: Any, labels: Any, weights: Any) -> GradientBoostingClassifier:
        model = GradientBoostingClassifier(
            n_estimators=options.trees, max_depth=options.depth, learning_rate=0.08, subsample=0.7, min_samples_leaf=20,
            max_features=0.4, random_state=SEED,
        )  # fmt: skip
        return model.fit(rows, labels, sample_weight=weights)

    trial = fit(
        np.r_[x[~held], wx[clear]],
        np.r_[y[~held], wy[clear]],
        np.r_[np.ones((~held).sum()), np.full(clear.sum(), options.weight)],
    )
    odds = trial.decision_function(x[held])
    every, final = roc_auc_score(y[held], odds), roc_auc_score(y[held & last], odds[last[held]])
    print(f"kept back: AUC of all steps {every:.3f}, of last steps {final:.3f}")
    model = fit(np.r_[x, wx], np.r_[y, wy], np.r_[np.ones(len(x)), np.full(len(wx), options.weight)])
    from safetensors.numpy import save_file

    save_file(exported(model, x), options.out)
    print(f"wrote {options.out}: {options.out.stat().st_size / 1e3:.0f} kB")
    best = sorted(zip(model.feature_importances_, FEATURES, strict=True), reverse=True)[:12]
    print("most used:", ", ".join(f"{name} {share:.2f}" for share, name in best))


if __name__ == "__main__":
    main()
