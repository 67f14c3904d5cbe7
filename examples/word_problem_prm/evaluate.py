"""How good is the scorer of word problems? Best-of-n on five sets it was not trained on, beside simpler choices.

    python examples/word_problem_prm/evaluate.py --shared ../shared [--weights word_problems.safetensors]

Sets: the bundled rollouts; a 0.5B and a 1.5B model on GSM8K test problems; four models of 6B to 175B on all 1,319
problems of GSM8K's test set (calculator notes taken out, "A: 7" written as "The answer is 7."). Ties are shared: a
choice among k equals counts by the share of right ones. "over X" is the difference to X, paired, with a 95 % bootstrap
interval over problems.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from stepgauge import Rollout, load
from stepgauge.data import bundled
from stepgauge.data.steps import rollout_from_text
from stepgauge.prm import word_problems
from stepgauge.selection import bootstrap_interval
from stepgauge.verifiers import answer_classes, extract_answer

Problems = list[list[Rollout]]


def from_file(path: Path) -> Problems:
    """Candidates of each problem of a rollouts file."""
    groups: dict[str, list[Rollout]] = defaultdict(list)
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        groups[str(row["problem_id"])].append(rollout_from_text(row["problem"], row["text"], gold=row["gold"]))
    return list(groups.values())


def from_example_solutions(path: Path) -> Problems:
    """GSM8K's example solutions: one each of four models a problem."""
    out = []
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        gold = row["ground_truth"].rpartition("A:")[2].strip()
        texts = [found["solution"] for name, found in row.items() if isinstance(found, dict) and "solution" in found]
        plain = [re.sub(r"\nA:", "\nThe answer is", re.sub(r"<<[^<>]*>>", "", text)) + "." for text in texts]
        out.append([rollout_from_text(row["question"], text, gold=gold) for text in plain])
    return out


def shared_pick(scores: Sequence[float | None], right: Sequence[bool]) -> float:
    """Chance that the best-scored candidate is right, ties drawn at random; None ranks last."""
    ranked = [float("-inf") if score is None else score for score in scores]
    best = [ok for score, ok in zip(ranked, right, strict=True) if score == max(ranked)]
    return sum(best) / len(best)


def shared_vote(answers: Sequence[object], right: Sequence[bool], weights: Sequence[float]) -> float:
    """The same for the answer with the largest sum of weights."""
    totals: dict[object, float] = defaultdict(float)
    for answer, weight in zip(answers, weights, strict=True):
        if answer is not None:
            totals[answer] += weight
    if not totals:
        return 0.0
    best = [answer for answer, total in totals.items() if total == max(totals.values())]
    return sum(any(ok for a, ok in zip(answers, right, strict=True) if a == answer) for answer in best) / len(best)


def _answer(rollout: Rollout) -> str | None:
    answer = extract_answer(rollout.text or "")
    return None if answer is None else answer.text


def report(name: str, problems: Problems) -> None:
    """Print the table of one set."""
    flat = [rollout for group in problems for rollout in group]
    right = iter([scores.aggregate() == 1.0 for scores in load("math").score_batch(flat)])
    start = time.process_time()
    prm_scores = load("word_problems").score_batch(flat)
    spent = time.process_time() - start
    found = iter([scores.aggregate() for scores in prm_scores])
    sums = iter([scores.aggregate() for scores in load("arithmetic").score_batch(flat)])
    rows: dict[str, list[float]] = defaultdict(list)
    for group in problems:
        ok = [next(right) for _ in group]
        prm, arithmetic = [next(found) for _ in group], [next(sums) for _ in group]
        answers = answer_classes([_answer(rollout) for rollout in group])
        rows["random pick"].append(sum(ok) / len(ok))
        rows["arithmetic"].append(shared_pick(arithmetic, ok))
        rows["majority"].append(shared_vote(answers, ok, [1.0] * len(ok)))
        rows["word_problems"].append(shared_pick(prm, ok))
        rows["word_problems, weighted vote"].append(shared_vote(answers, ok, [score or 0.0 for score in prm]))
        rows["any right"].append(float(any(ok)))
    print(f"\n{name}: {len(problems)} problems, {len(flat)} rollouts, {len(flat) / spent:.0f} rollouts a CPU second")
    for rule, solved in rows.items():
        line = f"  {rule:30}{_shown(solved)}"
        if rule.startswith("word_problems"):
            for other in ("random pick", "arithmetic", "majority"):
                gain = [a - b for a, b in zip(solved, rows[other], strict=True)]
                line += f"   over {other} {_shown(gain, signed=True)}"
        print(line)


def _shown(values: Sequence[float], *, signed: bool = False) -> str:
    found = bootstrap_interval(values)
    form = "{:+.3f}" if signed else "{:.3f}"
    return f"{form} [{form}, {form}]".format(found.mean, found.low, found.high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shared", type=Path, required=True, help="the folder whose data/ holds the evaluation sets")
    parser.add_argument("--weights", type=Path, help="weights to judge instead of those in the package")
    options = parser.parse_args()
    if options.weights:
        word_problems._weights = options.weights.read_bytes  # type: ignore[assignment]
    data = options.shared / "data"
    for name in ("dev_0.5b", "dev_1.5b"):
        groups: dict[str, list[Rollout]] = defaultdict(list)
        for rollout in bundled(name):
            groups[rollout.problem].append(rollout)
        report(f"bundled {name}", list(groups.values()))
    for size in ("0.5b", "1.5b"):
        report(f"GSM8K test, Qwen {size}", from_file(data / f"gsm8k_rollouts/qwen2.5-coder-{size}-instruct.jsonl"))
    report(
        "GSM8K test, four models of 6B to 175B", from_example_solutions(data / "gsm8k/example_model_solutions.jsonl")
    )


if __name__ == "__main__":
    main()
