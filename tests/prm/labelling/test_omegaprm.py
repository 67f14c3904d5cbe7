"""OmegaPRM's tree: what it holds, what it costs, that it repeats and resumes, and that it can be written."""

from __future__ import annotations

import math
import random

import pytest

from stepgauge.data.formats import read_labelled
from stepgauge.generation import CallableGenerator, Completion
from stepgauge.prm.labelling import Journal, math_aps_row, omegaprm_search
from stepgauge.scoring import Rollout

PROBLEM = Rollout("3 + 4?", (), gold="7", id="p")
STEPS = 6


def write(prompt, seed):
    """The rest of a solution of six lines: each new one is a slip with chance 0.15, and no slip is undone."""
    random_ = random.Random(seed)
    begun = prompt.prefix.count("\n")
    lines = [f"Line {i}{' SLIP' if random_.random() < 0.15 else ''}.\n" for i in range(begun, STEPS)]
    text = "".join(lines)
    return f"{text}The answer is {8 if 'SLIP' in prompt.prefix + text else 7}."


def searched(generator=None, **options):
    return omegaprm_search(PROBLEM, generator or CallableGenerator(write), **options)


def test_the_tree_knows_where_the_slips_are():
    tree = searched(searches=30)
    assert len(tree) > 15
    assert tree[0].prefix == ""
    for node in tree:
        assert (node.rate == 0) == ("SLIP" in node.prefix)
        assert node.counts.drawn == 8
        assert node.prefix == "" or node.prefix.endswith("\n")
    assert sum(node.visits for node in tree) <= 30


def test_each_search_ends_at_the_first_slip_of_its_rollout():
    """Behind a prefix with exactly one slip, in its last line, stands the same prefix without it: rate above 0."""
    for node in searched(searches=30):
        lines = node.prefix.splitlines()
        if lines and "SLIP" in lines[-1] and "SLIP" not in "".join(lines[:-1]):
            assert node.rate == 0


def test_it_costs_at_most_what_it_says_and_a_journal_pays_once(tmp_path):
    asked = []

    def counted(prompt, seed):
        asked.append((prompt.prefix, seed))
        return write(prompt, seed)

    generator = CallableGenerator(counted)
    with Journal(tmp_path / "j") as journal:
        tree = searched(generator, searches=10, rollouts=4, journal=journal)
        assert len(asked) == len(set(asked)) == 4 * len(tree) <= 4 * (1 + 10 * math.ceil(math.log2(STEPS + 2)))
        assert searched(generator, searches=10, rollouts=4, journal=journal) == tree
        assert len(asked) == 4 * len(tree)
        longer = searched(generator, searches=20, rollouts=4, journal=journal)
    assert longer[: len(tree)] != ()
    assert {node.prefix for node in tree} <= {node.prefix for node in longer}


def test_a_run_that_dies_goes_on_to_the_same_tree(tmp_path):
    whole = searched(searches=10)
    left = iter(range(1000))
    with Journal(tmp_path / "j") as journal:
        for life in range(1, 6):

            def failing(prompt, seed, limit=life * 15):
                if next(left) >= limit:
                    raise ConnectionError("gone")
                return write(prompt, seed)

            with pytest.raises(ConnectionError):
                searched(CallableGenerator(failing, name="w"), searches=10, journal=journal)
        done = journal.totals()[0]
        assert done > 0
        assert done % 8 == 0
        assert searched(CallableGenerator(write, name="w"), searches=10, journal=journal) == whole


@pytest.mark.parametrize("answer", [7, 8])
def test_a_problem_always_or_never_solved_has_nothing_to_search(answer):
    tree = searched(CallableGenerator(lambda prompt, seed: f"Line.\nThe answer is {answer}."))
    assert [node.prefix for node in tree] == [""]
    with pytest.raises(ValueError, match="nothing to label"):
        math_aps_row(PROBLEM, tree)


def test_cut_completions_say_nothing_and_end_a_search():
    def cut_later(prompt, seed):
        text = write(prompt, seed)
        return Completion(text, finish="length" if prompt.prefix and not text.endswith("7.") else "stop")

    for node in searched(CallableGenerator(cut_later)):
        assert node.counts.drawn == 8
    only_cut = CallableGenerator(lambda prompt, seed: Completion("...", finish="length"))
    (root,) = searched(only_cut)
    assert root.rate is None


def test_the_tree_becomes_labelled_solutions():
    tree = searched(searches=30)
    bad = []
    items = list(read_labelled([math_aps_row(PROBLEM, tree)], "math_aps", on_bad=bad.append))
    assert not bad
    labels = [label for item in items for label in item.labels if label is not None]
    assert sorted(labels) == sorted(node.rate for node in tree if node.prefix)
    for item in items:
        for end, label in zip((b for _, b in item.rollout.step_spans), item.labels, strict=True):
            if label is not None:
                assert (label == 0) == ("SLIP" in item.rollout.response[:end])


@pytest.mark.parametrize("options", [{"rollouts": 0}, {"searches": -1}])
def test_options_out_of_range(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        searched(**options)
