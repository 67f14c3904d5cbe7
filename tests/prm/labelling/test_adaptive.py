"""The sequential test: its stated error rate, its cost, and evidence that does not fit."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import betaln

from stepgauge.prm.labelling import Counts, adaptive, binary, first_error_posterior, uniform


def _module():
    import importlib

    return importlib.import_module("stepgauge.prm.labelling.adaptive")


def drawing(outcomes):
    """A draw over a fixed pool (S, n) of outcomes."""

    def draw(step, n):
        right = int(outcomes[step][:n].sum())
        return Counts(right, n - right)

    return draw


def _from_the_prior(random, steps):
    module = _module()
    error = steps if random.random() < module._NO_ERROR else int(random.integers(steps))
    mean = random.choice(module._MEANS)
    good = random.beta(mean * module._SCATTER, (1 - mean) * module._SCATTER, steps)
    rates = np.where(np.arange(steps) < error, good, random.beta(*module._REPAIRED, steps))
    return (-1 if error == steps else error), random.random((steps, 16)) < rates[:, None]


def test_decided_labels_err_at_most_at_the_stated_rate():
    random = np.random.default_rng(0)
    for stated in (0.05, 0.2):
        wrong = decided = 0
        for _ in range(500):
            error, outcomes = _from_the_prior(random, int(random.integers(2, 10)))
            found = adaptive(drawing(outcomes), len(outcomes), error_rate=stated)
            if found.confidence >= 1 - stated:
                decided += 1
                wrong += found.first_error != error
        assert decided > 200
        assert wrong <= stated * decided + 3 * np.sqrt(stated * (1 - stated) * decided)


def test_undecided_labels_are_as_right_as_they_say():
    random = np.random.default_rng(1)
    said, right = [], []
    for _ in range(500):
        error, outcomes = _from_the_prior(random, 6)
        found = adaptive(drawing(outcomes), 6)
        said.append(found.confidence)
        right.append(found.first_error == error)
    assert np.mean(right) == pytest.approx(np.mean(said), abs=0.05)


def test_the_posterior_is_bayes_rule_written_out():
    module = _module()
    correct, wrong = [2, 1, 0], [1, 3, 4]
    weights = []
    for error in range(4):
        total = 0.0
        for mean in module._MEANS:
            a, b = mean * module._SCATTER, (1 - mean) * module._SCATTER
            log = 0.0
            for step in range(3):
                pair = (a, b) if step < error else module._REPAIRED
                log += betaln(pair[0] + correct[step], pair[1] + wrong[step]) - betaln(*pair)
            total += np.exp(log)
        weights.append(total * (module._NO_ERROR if error == 3 else (1 - module._NO_ERROR) / 3))
    assert first_error_posterior(correct, wrong) == pytest.approx(np.array(weights) / sum(weights), rel=1e-12)


def test_the_expected_gain_is_the_mean_over_both_outcomes():
    module = _module()
    correct, wrong = np.array([2, 0, 0]), np.array([1, 3, 0])
    gains = module._gains(correct, wrong, module._tables(5))
    now = module._entropy(first_error_posterior([2, 0, 0], [1, 3, 0]))
    assert (gains >= 0).all()
    joint = module._normalised(module._joint(correct, wrong, module._tables(5)))
    for step in range(3):
        evidence = []
        for outcome in (correct, wrong):
            outcome[step] += 1
            evidence.append(np.exp(module._joint(correct, wrong, module._tables(5))).sum())
            outcome[step] -= 1
        chances = np.array(evidence) / np.exp(module._joint(correct, wrong, module._tables(5))).sum()
        assert chances.sum() == pytest.approx(1.0, rel=1e-9)
        after = []
        for extra in ((1, 0), (0, 1)):
            c, w = correct.copy(), wrong.copy()
            c[step] += extra[0]
            w[step] += extra[1]
            after.append(module._entropy(first_error_posterior(c.tolist(), w.tolist())))
        assert gains[step] == pytest.approx(float(now - chances @ np.array(after)), abs=1e-9)
    assert joint.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("error", [-1, 2, 4, 7])
def test_a_clear_solution_costs_few_completions(error):
    end = 8 if error == -1 else error
    outcomes = np.repeat((np.arange(8) < end)[:, None], 16, axis=1)
    found = adaptive(drawing(outcomes), 8)
    assert (found.first_error, found.contradictions) == (error, ())
    assert found.rollouts <= 12
    assert found.confidence >= 0.95


def test_wrong_everywhere_may_be_a_hard_problem_and_stays_undecided():
    found = adaptive(drawing(np.zeros((8, 16), dtype=bool)), 8)
    assert found.first_error == 0
    assert found.confidence < 0.95


def test_evidence_against_the_label_is_listed():
    outcomes = np.zeros((4, 16), dtype=bool)
    outcomes[0] = True
    outcomes[3, ::8] = True
    for strategy in (lambda d: uniform(d, 4), lambda d: binary(d, 4, recheck=2, rollouts=16)):
        found = strategy(drawing(outcomes))
        end = 4 if found.first_error == -1 else found.first_error
        expected = [i for i, c in enumerate(found.counts) if c.judged and (c.correct > 0) != (i < end)]
        assert expected
        assert list(found.contradictions) == expected


def test_truncated_completions_decide_nothing_and_end_the_search():
    asked = []

    def draw(step, n):
        asked.append((step, n))
        return Counts(truncated=n)

    found = adaptive(draw, 3)
    assert found.first_error is None
    assert found.confidence < 0.95
    assert all(count.judged == 0 for count in found.counts)
    assert max(n for _, n in asked) <= 16
    assert uniform(draw, 3).first_error is None
    assert binary(draw, 3).first_error is None


def test_waves_never_draw_beyond_the_limit():
    found = adaptive(lambda step, n: Counts(0, n), 3, rollouts=5, wave=4, worth=0.0, error_rate=1e-9)
    assert [count.drawn for count in found.counts] == [5, 5, 5]


def test_no_steps_cost_nothing():
    def never(step, n):
        raise AssertionError

    for strategy in (uniform, binary, adaptive):
        assert strategy(never, 0).first_error == -1


@pytest.mark.parametrize("options", [{"error_rate": 0}, {"error_rate": 1}, {"rollouts": 0}, {"wave": 0}, {"worth": -1}])
def test_arguments_out_of_range(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        adaptive(lambda step, n: Counts(n), 2, **options)


def test_the_claim_in_small_a_quarter_of_the_completions_and_no_worse():
    import benchmarks.labelling as bench

    used = {"uniform": 0, "adaptive": 0}
    right = {"uniform": 0, "adaptive": 0}
    for problem in bench.simulate(bench.WORLDS["leaky"], 100, 7):
        for name, strategy in (("uniform", uniform), ("adaptive", adaptive)):
            ok, cost, _ = bench.run(strategy, problem)
            used[name] += cost
            right[name] += ok
    assert used["adaptive"] <= used["uniform"] / 4
    assert right["adaptive"] >= right["uniform"] - 5
