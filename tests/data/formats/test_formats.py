from __future__ import annotations

import itertools
import json
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepgauge import Rollout
from stepgauge.data import rollout_from_text
from stepgauge.data.formats import (
    FORMATS,
    Labelled,
    first_error_labels,
    harden,
    read_labelled,
    truncate_at_first_error,
    write_labelled,
)
from stepgauge.data.formats.trees import Node, paths
from tests.data.formats.rows import (
    BAD,
    GOOD,
    MATH_APS_TREE,
    PHASE_1,
    PHASE_2,
    RLHFLOW,
    TRL,
    completion,
    prefixes,
    session,
)


def read(rows, name, **options):
    bad = []
    items = list(read_labelled(rows, name, on_bad=bad.append, **options))
    assert not bad, bad[0]
    return items


def known(items):
    """What a solution says, without its place in a file."""
    return [(i.rollout.problem, i.rollout.steps, i.rollout.gold, i.labels, i.outcome) for i in items]


@pytest.mark.parametrize(("name", "row"), GOOD, ids=[f"{name}-{i}" for i, (name, _) in enumerate(GOOD)])
def test_round_trip(name, row, tmp_path):
    path = tmp_path / "rows.jsonl"
    items = read([row], name)
    assert items
    assert write_labelled(path, items, name) >= 1
    assert known(read(path, name)) == known(items)


EXACT = {"trl", "math_shepherd", "openrlhf", "er_prm", "rlhflow", "rlhflow_test", "processbench", "prmbench"}
EXACT |= {"ultrainteract", "mr_gsm8k", "mr_ben", "bigbench_mistake"}


@pytest.mark.parametrize(("name", "row"), [(n, r) for n, r in GOOD if n in EXACT])
def test_the_row_itself_comes_back(name, row):
    items = list(FORMATS[name].read(row))
    assert list(FORMATS[name].write(items)) == [row]


def test_every_format_has_rows_here():
    assert {name for name, _ in GOOD} == set(FORMATS)
    assert {name for name, _, _ in BAD} == set(FORMATS)


@pytest.mark.parametrize(("name", "row", "message"), BAD, ids=[f"{n}-{i}" for i, (n, _, _) in enumerate(BAD)])
def test_a_malformed_row_gets_its_own_error_with_its_place(name, row, message, tmp_path):
    good = next(r for n, r in GOOD if n == name)
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps(r) for r in (good, row, good)) + "\n", encoding="utf-8")
    bad = []
    items = list(read_labelled(path, name, on_bad=bad.append))
    assert len(items) == 2 * len(list(FORMATS[name].read(good)))  # the rows around it are read
    assert [b.line for b in bad] == [2]
    assert str(bad[0]).startswith(f"{path}:2: ")
    with pytest.raises(ValueError, match=message):
        raise ValueError(bad[0].message)


def test_unknown_formats_and_options():
    with pytest.raises(ValueError, match="no format 'prm80k'; known: trl"):
        read_labelled([], "prm80k")
    with pytest.raises(TypeError, match="no option 'neutral'"):
        read_labelled([], "trl", neutral="good")
    with pytest.raises(ValueError, match=r"neutral.*good, bad, drop"):
        read_labelled([], "prm800k", neutral="maybe")


def test_ids_name_the_place_where_the_row_has_none():
    assert [item.rollout.id for item in read([TRL, TRL], "trl")] == ["1", "2"]
    assert [item.rollout.id for item in read([PHASE_1], "prm800k")][:2] == ["1/0", "1/1"]


# --- PRM800K


def test_phase_1_expands_to_prefixes_without_leaks():
    steps_and_labels = [(i.rollout.steps, i.labels) for i in read([PHASE_1], "prm800k")]
    assert sorted(steps_and_labels, key=str) == sorted(
        [
            (("a1", "b human", "c0"), (1.0, None, 1.0)),
            (("a1", "b human", "c1"), (None, None, 0.0)),
            (("a1", "b0"), (None, 0.0)),
            (("a1", "b1"), (None, None)),
            (("a0",), (0.0,)),
            (("a2",), (1.0,)),
        ],
        key=str,
    )


def test_phase_2_ends_at_its_error():
    (item,) = read([PHASE_2], "prm800k")
    assert (item.rollout.steps, item.labels, item.first_error()) == (("a", "b"), (1.0, 0.0), 1)
    assert item.rollout.gold == "2"
    assert item.rollout.meta["question"]["pre_generated_verifier_score"] == 0.25


@pytest.mark.parametrize(("neutral", "label"), [("good", 1.0), ("bad", 0.0), ("drop", None)])
def test_the_neutral_rating_means_what_the_policy_says(neutral, label):
    items = read([PHASE_1], "prm800k", neutral=neutral)
    assert {i.labels[-1] for i in items if i.rollout.steps[-1] in ("a2", "c0")} == {label}


def test_a_bad_problem_gives_nothing():
    assert read([session([([completion("a", 1)], 0, None)], "bad_problem")], "prm800k") == []


@st.composite
def sessions(draw):
    """A PRM800K session of unique texts."""
    number = itertools.count()
    steps = []
    for _ in range(draw(st.integers(1, 4))):
        ratings = draw(st.lists(st.sampled_from([-1, 0, 1]), min_size=1, max_size=3))
        completions = [completion(f"t{next(number)}", rating) for rating in ratings]
        steps.append((completions, draw(st.integers(0, len(ratings) - 1)), None))
    return session(steps)


@given(sessions())
def test_each_rating_counts_once_and_no_later_step_is_seen(row):
    items = read([row], "prm800k")
    labelled = [step for i in items for step, label in zip(i.rollout.steps, i.labels, strict=True) if label is not None]
    levels = [[c["text"] for c in step["completions"]] for step in row["label"]["steps"]]
    assert sorted(labelled) == sorted(itertools.chain(*levels))
    chosen = [step["completions"][step["chosen_completion"]]["text"] for step in row["label"]["steps"]]
    for item in items:
        depth = len(item.rollout.steps)
        assert list(item.rollout.steps[:-1]) == chosen[: depth - 1]
        assert item.rollout.steps[-1] in levels[depth - 1]


# --- the other layouts


def test_a_broken_prompt_is_reported_not_guessed():
    row = {"input": "Step 1: of what? Step 1: 2. ки", "label": "Step 1: of what? Step 1: 2. +"}
    with pytest.raises(ValueError, match="once"):
        FORMATS["math_shepherd"].read(row)


def test_where_the_problem_cannot_be_told_it_is_said():
    row = {"conversations": [{"role": "user", "content": "1+1? It is 2."}, {"role": "assistant", "content": "+"}]}
    (item,) = read([row], "rlhflow")
    assert (item.rollout.problem, item.rollout.steps) == ("", ("1+1? It is 2.",))
    assert item.rollout.meta == {"problem_in_first_step": True}
    assert list(FORMATS["rlhflow"].write([item])) == [row]


def test_sharegpt_names_are_read():
    names = {"user": "human", "assistant": "gpt"}
    turns = [{"from": names[t["role"]], "value": t["content"]} for t in RLHFLOW["conversations"]]
    assert known(read([{"conversations": turns}], "rlhflow")) == known(read([RLHFLOW], "rlhflow"))


def test_er_prm_without_its_last_tag():
    (item,) = read([{"text": "1+1? Step 1: 2. ки\nStep 2: So 2.", "value": [0.5, 1.0]}], "er_prm")
    assert (item.rollout.steps, item.labels) == (("Step 1: 2.", "Step 2: So 2."), (0.5, 1.0))


def test_an_aps_tree_counts_a_shared_step_once():
    items = read([MATH_APS_TREE], "math_aps")
    assert [(i.rollout.steps, i.labels) for i in items] == [
        (("1+1 = 2.", "So 2."), (0.75, 1.0)),
        (("1+1 = 2.", "So 3."), (None, 0.0)),
    ]
    assert items[0].rollout.text == "1+1 = 2. So 2."


def test_aps_prefixes_branch_and_do_not_cut_numbers():
    row = prefixes(("x is 1", 0.5), ("x is 12", 0.25), ("x is 1; so 1", 1.0))
    found = {i.rollout.steps: i.labels for i in read([row], "math_aps")}
    assert found == {("x is 1", "; so 1"): (0.5, 1.0), ("x is 12",): (0.25,)}


def test_outcomes_have_no_step_labels():
    items = read([{"prompt": "1+1?", "answers": ["1+1 = 2.\n\nSo 2."], "labels": [1]}], "rlhflow_test")
    assert (items[0].labels, items[0].outcome, len(items[0].rollout.steps)) == ((None, None), True, 2)


LABELLED = Labelled(Rollout("p", ("a", "b")), (1.0, None))
SOFT = Labelled(Rollout("p", ("a",)), (0.9,))


@pytest.mark.parametrize(
    ("name", "item", "message"),
    [
        ("trl", LABELLED, "step 1 has no label"),
        ("trl", SOFT, "harden"),
        ("math_shepherd", SOFT, "harden"),
        ("math_shepherd", Labelled(Rollout("p", ("a ки b",)), (1.0,)), "holds the step tag"),
        ("openrlhf", LABELLED, "step 1 has no label"),
        ("er_prm", LABELLED, "step 1 has no label"),
        ("prm800k", SOFT, "harden"),
        ("prm800k", Labelled(Rollout("p", ()), ()), "at least one step"),
        ("rlhflow", SOFT, "harden"),
        ("processbench", Labelled(Rollout("p", ("a",)), (1.0,)), "outcome"),
        ("processbench", Labelled(Rollout("p", ("a",)), (None,), True), "label 0 or 1"),
        ("prmbench", SOFT, "harden"),
        ("math_aps", Labelled(Rollout("p", ("a", " ")), (1.0, 1.0)), "needs text"),
        ("ultrainteract", SOFT, "outcome"),
        ("mr_gsm8k", SOFT, "harden"),
        ("mr_gsm8k", Labelled(Rollout("p", ("a",), gold="1"), (1.0,)), "outcome"),
        ("mr_ben", Labelled(Rollout("p", ("a",), gold="A"), (0.0,)), "must begin 'Step k'"),
        ("mr_ben", Labelled(Rollout("p", ("Step 1: a", "Step 1: b"), gold="A"), (1.0, 0.0)), "a k of its own"),
        ("bigbench_mistake", Labelled(Rollout("p", ("a",)), (1.0,)), "gold"),
        ("bigbench_mistake", Labelled(Rollout("p", ("a", "b"), gold="1"), (0.9, 0.0)), "harden"),
        ("rlhflow_test", SOFT, "outcome"),
    ],
)
def test_what_a_format_cannot_hold_is_refused_and_nothing_is_written(name, item, message, tmp_path):
    path = tmp_path / "rows.jsonl"
    with pytest.raises(ValueError, match=message):
        write_labelled(path, [item], name)
    assert not path.exists()


PIECES = st.sampled_from(["Step 1:", "Step 2: ", "## Step 1: ", " ", "\n", "1+1", "Step 1 :", "+", "-", "кі", "\u2028"])
TEXT = st.lists(st.one_of(PIECES, st.text(st.characters(codec="utf-8", exclude_characters="ки"), max_size=8))).map(
    "".join
)
STEP = TEXT.filter(lambda t: t.strip() != "")


@given(TEXT, st.lists(st.tuples(STEP, st.booleans()), min_size=1, max_size=4))
def test_any_hard_labelled_solution_survives_every_hard_format(problem, steps):
    """Whatever the texts, "Step 1:" in the problem or twice in the first step included; tagged layouts strip steps."""
    item = Labelled(Rollout(problem, tuple(s for s, _ in steps)), tuple(float(x) for _, x in steps), True)
    for name in ("trl", "prm800k", "prmbench"):
        row = next(iter(FORMATS[name].write([_for(name, item)])))
        back = FORMATS[name].read(json.loads(json.dumps(row)))[0]
        assert (back.rollout.problem, back.rollout.steps, back.labels) == (problem, item.rollout.steps, item.labels)
    for name in ("math_shepherd", "openrlhf", "er_prm", "rlhflow"):
        back = FORMATS[name].read(json.loads(json.dumps(next(iter(FORMATS[name].write([item]))))))[0]
        assert (back.rollout.problem, back.rollout.steps, back.labels) == (problem, _named(name, item), item.labels)
        assert back.rollout.meta == {}


def _named(name, item):
    """The steps as a layout with named steps gives them back."""
    named = [s if re.match(rf"Step {i}\s?:", s) else f"Step {i}: {s}" for i, s in enumerate(item.rollout.steps, 1)]
    kept = named if name != "rlhflow" else [named[0], *item.rollout.steps[1:]]
    return tuple(step.strip() for step in kept)


def _for(name, item):
    if name != "prmbench":
        return item
    return Labelled(Rollout(item.rollout.problem, item.rollout.steps, meta={"classification": "x"}), item.labels)


# --- hostile rows

HOSTILE = [
    None,
    True,
    -1,
    2**70,
    10**4000,  # what JSON can hold
    1.5,
    float("nan"),
    float("inf"),
    "",
    "ки",
    "\ud800",
    "\x00",
    "Step 1: Step 1:",
    "+",
    [],
    [[]],
    [None],
    {},
    {"text": None},
    {"text": "a", "mc_value": 1, "children": {}},
    {"role": "user", "content": []},
]


def places(value, path=()):
    """Every place in a row."""
    yield path
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


def changed(value, path, new):
    """The row with another value at one place; without the field where ``new`` is ``...``."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    if new is ... and len(path) == 1:
        del copy[path[0]]
    else:
        copy[path[0]] = changed(value[path[0]], path[1:], new)
    return copy


@pytest.mark.parametrize(("name", "row"), GOOD, ids=[f"{name}-{i}" for i, (name, _) in enumerate(GOOD)])
def test_a_row_with_any_value_anywhere_is_read_or_reported(name, row):
    """Each place of each good row with each hostile value: never a crash, and what is read can be written or not."""
    rows = [changed(row, path, new) for path in places(row) for new in (*HOSTILE, *([...] if path else []))]
    bad = []
    items = list(read_labelled(rows, name, on_bad=bad.append))
    assert bad
    assert len({place.line for place in bad}) == len(bad)
    assert all(0 < len(str(place)) < 500 for place in bad)
    for item in items:
        assert len(item.labels) == len(item.rollout.steps)
        try:
            written = list(FORMATS[name].write([item]))
        except ValueError:
            continue
        json.dumps(written).encode()
        assert known(read(written, name)) == known([item])


# --- labels


@given(st.lists(st.sampled_from([0.0, 1.0, 0.5, None]), min_size=1, max_size=6))
def test_truncation_keeps_the_first_error_and_nothing_behind_it(labels):
    item = Labelled(Rollout("p", tuple(f"s{i}" for i in range(len(labels)))), tuple(labels))
    cut = truncate_at_first_error(item)
    assert cut.first_error() == item.first_error()
    assert cut.rollout.steps == item.rollout.steps[: len(cut.labels)]
    assert len(cut.labels) == (item.first_error() + 1 or len(labels))
    assert truncate_at_first_error(cut) == cut


def test_truncation_cuts_text_and_spans_too():
    rollout = rollout_from_text("p", "One.\n\nTwo.\n\nThree.")
    cut = truncate_at_first_error(Labelled(rollout, (1.0, 0.0, 0.0))).rollout
    assert (cut.text, cut.steps) == ("One.\n\nTwo.", ("One.", "Two."))
    assert [cut.text[a:b] for a, b in cut.spans] == list(cut.steps)


def test_labels_and_thresholds():
    assert first_error_labels(3, -1) == (1.0, 1.0, 1.0)
    for at in (-2, 3):
        with pytest.raises(ValueError, match="first error"):
            first_error_labels(3, at)
    assert harden(Labelled(Rollout("p", ("a", "b", "c")), (0.5, None, 0.0)), 0.5).labels == (0.0, None, 0.0)
    with pytest.raises(ValueError, match="1 steps, 2 labels"):
        Labelled(Rollout("p", ("a",)), (1.0, 1.0))
    with pytest.raises(ValueError, match=r"labels\[0\]"):
        Labelled(Rollout("p", ("a",)), (1.5,))


def test_a_deep_tree_is_refused_not_a_crash():
    node = {"text": "x", "mc_value": 1.0}
    for _ in range(1100):
        node = {"text": "x", "mc_value": 1.0, "children": [node]}
    bad = []
    assert list(read_labelled([{**MATH_APS_TREE, "reasoning_steps": [node]}], "math_aps", on_bad=bad.append)) == []
    assert len(bad) == 1


def test_a_tree_that_explodes_is_refused():
    steps = [([completion(f"a{i}", 1), completion(f"b{i}", -1)], 0, None) for i in range(1000)]
    bad = []
    started = time.process_time()
    assert list(read_labelled([session(steps)], "prm800k", on_bad=bad.append)) == []
    assert time.process_time() - started < 5
    assert "more than 200000 steps" in bad[0].message


def test_paths_of_a_wide_tree():
    roots = [Node("a", 1.0, [Node("b", 0.5, [Node("c", 0.0), Node("d", 1.0)]), Node("e", None)])]
    assert list(paths(roots)) == [
        (("a", "b", "c"), (1.0, 0.5, 0.0)),
        (("a", "b", "d"), (None, None, 1.0)),
        (("a", "e"), (None, None)),
    ]


# --- real rows


@pytest.mark.parametrize("split", ["gsm8k", "math", "olympiadbench", "omnimath"])
def test_processbench_round_trips(split, shared, tmp_path):
    source = shared / "data" / "processbench" / f"{split}.json"
    rows = json.loads(source.read_text(encoding="utf-8"))
    items = read(source, "processbench")
    assert list(FORMATS["processbench"].write(items)) == rows
    assert [item.first_error() for item in items] == [row["label"] for row in rows]


def test_prmbench_round_trips(shared):
    count = 0
    for source in sorted((shared / "data" / "prmbench").glob("*.jsonl")):
        rows = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
        items = read(source, "prmbench")
        for row, back in zip(rows, FORMATS["prmbench"].write(items), strict=True):
            assert sorted(set(row.pop("error_steps"))) == sorted(set(back.pop("error_steps")))  # some are out of order
            assert row == back
        count += len(rows)
    assert count == 6216


TRAINING = ("trl", "math_shepherd", "openrlhf", "er_prm", "prm800k", "rlhflow", "math_aps")


@pytest.fixture(scope="module")
def real(shared):
    """3,400 solutions of ProcessBench, cut behind the first error, and 6,216 of PRMBench."""
    data = shared / "data"
    items = [
        truncate_at_first_error(item)
        for split in ("gsm8k", "math", "olympiadbench", "omnimath")
        for item in read(data / "processbench" / f"{split}.json", "processbench")
    ]
    items += [item for file in sorted((data / "prmbench").glob("*.jsonl")) for item in read(file, "prmbench")]
    return [
        Labelled(Rollout(item.rollout.problem, item.rollout.steps, id=item.rollout.id), item.labels) for item in items
    ]


@pytest.mark.parametrize("name", TRAINING)
def test_every_real_solution_becomes_a_training_row_and_comes_back(name, real):
    assert len(real) == 9616
    refused = 0
    for plain in real:
        if name == "math_aps" and not all(step.strip() for step in plain.rollout.steps):
            with pytest.raises(ValueError, match="needs text"):
                list(FORMATS[name].write([plain]))
            refused += 1
            continue
        (row,) = json.loads(json.dumps(list(FORMATS[name].write([plain]))))
        (back,) = FORMATS[name].read(row)
        steps = plain.rollout.steps
        if name == "math_aps":
            steps = tuple(step.strip() for step in steps)
        elif name not in ("trl", "prm800k"):
            steps = _named(name, plain)
        assert (back.rollout.problem, back.rollout.steps, back.labels) == (plain.rollout.problem, steps, plain.labels)
    assert refused == (3 if name == "math_aps" else 0)


HUMAN = [
    ("mr_gsm8k", "mr_gsm8k/mr_gsm8k_subset.jsonl", 590, 0),
    ("mr_ben", "mr_ben/math.jsonl", 918, 0),
    ("mr_ben", "mr_ben/physics.jsonl", 665, 2),  # two labels name a step that four steps are called
    ("bigbench_mistake", "bigbench_mistake/multistep_arithmetic.jsonl", 300, 0),
    ("bigbench_mistake", "bigbench_mistake/dyck_languages.jsonl", 986, 0),
    ("bigbench_mistake", "bigbench_mistake/word_sorting.jsonl", 300, 0),
    ("bigbench_mistake", "bigbench_mistake/logical_deduction.jsonl", 300, 0),
    ("bigbench_mistake", "bigbench_mistake/tracking_shuffled_objects.jsonl", 300, 0),
]


@pytest.mark.parametrize(("name", "file", "good", "ambiguous"), HUMAN, ids=[file for _, file, _, _ in HUMAN])
def test_first_errors_found_by_people_round_trip(name, file, good, ambiguous, shared):
    source = shared / "data" / file
    bad = []
    items = list(read_labelled(source, name, on_bad=bad.append))
    assert (len(items), len(bad)) == (good, ambiguous)
    rows = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
    for place in reversed(bad):
        del rows[place.line - 1]
    if name == "mr_ben":  # empty lines are no steps
        for row in rows:
            row["Model_Solution_Steps"] = [step for step in row["Model_Solution_Steps"] if step.strip()]
    assert list(FORMATS[name].write(items)) == rows


def test_outcomes_of_real_solutions_round_trip(shared):
    """OpenAI's four solutions of each of 1,319 GSM8K problems, as UltraInteract's and RLHFlow's rows."""
    models = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")
    source = shared / "data" / "gsm8k" / "example_model_solutions.jsonl"
    for solutions, outcomes, name in (
        ("completions", "correctness", "ultrainteract"),
        ("answers", "label", "rlhflow_test"),
    ):
        rows = []
        for line in source.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            rights = [row[model]["is_correct"] for model in models]
            texts = [row[model]["solution"] for model in models]
            known = rights if name == "ultrainteract" else [int(right) for right in rights]
            rows.append({"prompt": row["question"], solutions: texts, outcomes: known})
        items = read(rows, name)
        assert len(items) == 4 * len(rows) == 5276
        assert list(FORMATS[name].write(items)) == rows


def test_processbench_becomes_training_rows(shared):
    items = read(shared / "data" / "processbench" / "gsm8k.json", "processbench")
    rows = list(FORMATS["trl"].write(truncate_at_first_error(item) for item in items))
    back = read(rows, "trl")
    assert [item.first_error() for item in back] == [item.first_error() for item in items]
