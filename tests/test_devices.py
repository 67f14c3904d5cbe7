"""A copy of a scorer on each device: dealt fairly, every rollout once, results as from one copy."""

import pickle
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepgauge import Rollout, Scorer, load
from stepgauge.devices import OverDevices, deal
from stepgauge.scoring import score_each
from stepgauge.testing import check_scorer
from tests.prm.tiny import tiny_prm

ROLLOUTS = [Rollout(f"What is {n // 3} + 1?", (f"{n} + 1 = {n + 1}", f"So {n + n % 2}.")) for n in range(9)]


class Threaded(Scorer):
    """Notes the threads that work for it; fails where it is told to."""

    name = "threaded"
    kind = "value"

    def __init__(self, broken=False):
        self.broken = broken
        self._threads = set()

    def score_batch(self, rollouts, *, deadline_s=None, progress=None):
        self._threads.add(threading.get_ident())
        return score_each(self._judge, rollouts, kind="value", deadline_s=deadline_s, progress=progress)

    def _judge(self, rollout):
        if self.broken:
            raise RuntimeError("this device is gone")
        return load("arithmetic").score_batch([rollout])[0]


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 50)), max_size=30), st.integers(1, 5))
def test_everything_is_dealt_once_and_evenly(items, hands):
    problems, sizes = [problem for problem, _ in items], [size for _, size in items]
    dealt = deal(problems, sizes, hands)
    assert sorted(index for hand in dealt for index in hand) == list(range(len(items)))
    loads = [sum(sizes[index] for index in hand) for hand in dealt]
    assert max(loads) <= 2 * sum(sizes) / hands + max(sizes, default=0)


def test_a_problem_stays_on_one_device_unless_it_is_too_large():
    assert deal(["p"] * 4 + ["q"] * 4, [1] * 8, 2) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert sorted(map(len, deal(["p"] * 8, [1] * 8, 2))) == [4, 4]


def test_scores_are_those_of_one_model():
    folder = tiny_prm("qwen")[0]
    one, two = load(folder, device="cpu"), load(folder, device="cpu,cpu")
    assert isinstance(two, OverDevices)
    assert (two.name, two.kind, two.fingerprint) == (one.name, one.kind, one.fingerprint)
    for a, b in zip(one.score_batch(ROLLOUTS), two.score_batch(ROLLOUTS), strict=True):
        assert a.values == pytest.approx(b.values, abs=1e-5)
    sessions = [two.open(Rollout(r.problem, ())) for r in ROLLOUTS]
    assert {id(session.scorer) for session in sessions} == {id(scorer) for scorer in two.scorers}
    for r, scores in zip(ROLLOUTS, two.extend_batch(sessions, [r.steps[0] for r in ROLLOUTS]), strict=True):
        assert scores.values == pytest.approx(one.score(r.steps[:1], problem=r.problem).values, abs=1e-5)


def test_each_copy_has_its_thread_and_progress_counts_all():
    copies = [Threaded(), Threaded()]
    finished = []
    OverDevices(copies).score_batch(ROLLOUTS, progress=finished.append)
    assert sum(finished) == len(ROLLOUTS)
    assert all(copy._threads and threading.get_ident() not in copy._threads for copy in copies)


def test_a_broken_device_costs_its_own_rollouts_only():
    scores = OverDevices([Threaded(), Threaded(broken=True)]).score_batch(ROLLOUTS)
    states = {score.status for score in scores}
    assert states == {"ok", "error"}
    assert all("gone" in str(score.summary) for score in scores if score.status == "error")


def test_it_keeps_the_interface():
    check_scorer(OverDevices([load("arithmetic"), load("arithmetic")]))
    assert pickle.loads(pickle.dumps(OverDevices([load("math")]))).name == "math"


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="at least one scorer"):
        OverDevices([])
    with pytest.raises(ValueError, match="one step a session"):
        OverDevices([load("math")] * 2).extend_batch([], ["a"])
    with pytest.raises(TypeError, match=r"rollouts\[0\] is a dict"):
        OverDevices([load("math")] * 2).score_batch([{}])
