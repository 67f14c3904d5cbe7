"""The process reward model that ships with the package."""

import math

import numpy as np
import pytest

from examples.word_problem_prm.evaluate import from_example_solutions, shared_pick
from stepgauge import load
from stepgauge.data import bundled
from stepgauge.prm.step_features import FEATURES, step_features
from stepgauge.prm.word_problems import Trees, WordProblemPRM, _load
from stepgauge.scoring import KINDS
from stepgauge.selection import bootstrap_interval

PROBLEM = "Ann has 3 bags of 4 nuts and eats 2 nuts. How many nuts are left?"


def walked(trees, row):
    """Log-odds by following each tree by hand."""
    total = trees.bias
    for node in trees.roots:
        while trees.feature[node] >= 0:
            node = trees.left[node] if row[trees.feature[node]] <= trees.threshold[node] else trees.right[node]
        total += float(trees.value[node])
    return total


def test_load_gives_it():
    scorer = load("word_problems")
    assert isinstance(scorer, WordProblemPRM)
    assert (scorer.name, scorer.kind, KINDS[scorer.kind].aggregate) == ("word_problems", "value", "last")


def test_scores_are_the_sigmoid_of_the_leaves_sum():
    rollout = bundled("dev_0.5b")[5]
    trees = _load()
    (scores,) = WordProblemPRM().score_batch([rollout])
    for row, value, detail in zip(
        step_features(rollout.problem, rollout.steps), scores.values, scores.details, strict=True
    ):
        expected = walked(trees, row)
        assert detail["log_odds"] == pytest.approx(expected, abs=1e-5)
        assert value == pytest.approx(1 / (1 + math.exp(-expected)), abs=1e-6)


def test_trees_of_two_nodes_by_hand():
    trees = Trees(
        np.array([0, -1, -1, 1, -1, -1]), np.array([0.5, 0, 0, 2.0, 0, 0]), np.array([1, 0, 0, 4, 0, 0]),
        np.array([2, 0, 0, 5, 0, 0]), np.array([0, 10.0, 20.0, 0, 1.0, 2.0]), np.array([0, 3]), 0.25,
    )  # fmt: skip
    assert trees.log_odds([[0.5, 2.0], [0.6, 2.1]]) == [11.25, 22.25]


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (["3 * 4 = 12.", "12 - 2 = 10.", "The answer is 10."], ["3 * 4 = 14.", "14 - 2 = 12.", "The answer is 12."]),
        (["3 * 4 = 12.", "12 - 2 = 10.", "The answer is 10."], ["3 * 4 = 12.", "The answer is 12."]),
        (["3 * 4 = 12.", "12 - 2 = 10.", "The answer is 10."], ["3 * 4 = 12.", "12 - 2 = 10.", "The answer is 77."]),
        (["3 * 4 = 12.", "12 - 2 = 10.", "The answer is 10."], ["3 * 17 = 51.", "51 - 2 = 49.", "The answer is 49."]),
        (["3 * 4 = 12.", "12 - 2 = 10.", "The answer is 10."], ["The answer is 4."]),
    ],
    ids=["false sum", "number unused", "answer from nowhere", "operand from nowhere", "no work"],
)  # fmt: skip
def test_flaws_cost(better, worse):
    scorer = WordProblemPRM()
    right, wrong = (scorer.score(steps, problem=PROBLEM).aggregate() for steps in (better, worse))
    assert right > wrong


def test_a_false_sum_is_named():
    scores = WordProblemPRM().score(["3 * 4 = 13.", "So 13."], problem=PROBLEM)
    assert scores.details[0]["false_claims"] == ["3 * 4 = 13"]
    assert "false_claims" not in scores.details[1]


def test_a_step_too_long_is_not_scored():
    scores = WordProblemPRM().score(["3 * 4 = 12.", "x" * 20_001], problem=PROBLEM)
    assert scores.values[1] is None
    assert scores.reasons == (None, "too_large")


def test_nothing_to_score():
    assert WordProblemPRM().score([]).status == "abstain"
    assert WordProblemPRM().score(["x" * 20_001]).reasons == ("too_large",)


def test_features_of_other_weights_are_refused(monkeypatch):
    from safetensors.numpy import load as read
    from safetensors.numpy import save

    from stepgauge.prm import word_problems

    found = read(word_problems._weights())
    found["names"] = np.frombuffer(b"a b", dtype=np.uint8)
    monkeypatch.setattr(word_problems, "_weights", lambda: save(found))
    with pytest.raises(ValueError, match="trained on other features"):
        word_problems._load()


def test_gsm8k_solutions_are_picked_better_than_by_arithmetic_or_chance(shared):
    sets = from_example_solutions(shared / "data/gsm8k/example_model_solutions.jsonl")[:400]
    solved = {name: [] for name in ("word_problems", "arithmetic", "random pick")}
    for group in sets:
        right = [s.aggregate() == 1.0 for s in load("math").score_batch(group)]
        solved["random pick"].append(sum(right) / len(right))
        for name in ("word_problems", "arithmetic"):
            scores = [s.aggregate() for s in load(name).score_batch(group)]
            solved[name].append(shared_pick(scores, right))
    for other in ("arithmetic", "random pick"):
        gain = [a - b for a, b in zip(solved["word_problems"], solved[other], strict=True)]
        assert bootstrap_interval(gain).low > 0, (other, bootstrap_interval(gain))


def test_every_feature_is_known_to_the_weights():
    assert _load().feature.max() < len(FEATURES)
