"""Labels of many solutions, the journal, the judge, the scorer, the command; and a run that is killed five times."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time

import pytest

from stepgauge.data import write_rows
from stepgauge.generation import CallableGenerator, Completion
from stepgauge.loading import load
from stepgauge.prm import MonteCarloScorer
from stepgauge.prm.labelling import Journal, judge_solution, label_solutions
from stepgauge.prm.labelling.journal import Drawn, tally
from stepgauge.prm.labelling.rollouts import PrefixRollouts, judge_completion, prefix_text
from stepgauge.scoring import Rollout
from tests.prm.labelling import worlds

WORLD = CallableGenerator(worlds.complete)
SPEC = "python:tests.prm.labelling.worlds:complete"


@pytest.mark.parametrize("strategy", ["uniform", "binary", "adaptive"])
def test_strategies_find_known_errors(strategy):
    solutions = worlds.solutions(21)
    found = list(label_solutions(solutions, WORLD, strategy=strategy))
    assert [rollout for rollout, _ in found] == solutions
    right = sum(labels.first_error == rollout.meta["error"] for rollout, labels in found)
    assert right >= 18
    counts = [count for _, labels in found for count in labels.counts]
    assert sum(count.truncated for count in counts) > 0
    assert all(count.drawn <= 16 for count in counts)


def test_labels_do_not_depend_on_workers_or_on_a_journal(tmp_path):
    solutions = worlds.solutions(12)
    alone = [labels for _, labels in label_solutions(solutions, WORLD, workers=1)]
    for workers in (1, 4):
        with Journal(tmp_path / "pool.sqlite") as journal:
            assert [
                labels for _, labels in label_solutions(solutions, WORLD, workers=workers, journal=journal)
            ] == alone


def test_every_sample_is_paid_for_once_across_strategies(tmp_path):
    asked = []

    def counted(prompt, seed):
        asked.append((prompt, seed))
        return worlds.complete(prompt, seed)

    generator = CallableGenerator(counted)
    for strategy in ("adaptive", "binary", "uniform", "uniform"):
        with Journal(tmp_path / "pool.sqlite") as journal:
            list(label_solutions(worlds.solutions(5), generator, strategy=strategy, journal=journal))
    assert len(asked) == len(set(asked)) == 5 * 6 * 16


def test_progress_counts_everything_and_knows_what_is_left():
    seen = []
    found = list(label_solutions(worlds.solutions(4), WORLD, strategy="binary", progress=seen.append, workers=1))
    assert seen[-1].solutions == 4
    assert seen[-1].drawn == sum(labels.rollouts for _, labels in found)
    assert seen[-1].tokens > 0
    assert seen[0].left_s(4) is None
    assert seen[-1].left_s(8) == pytest.approx(seen[-1].seconds)


def test_a_server_that_is_gone_stops_the_run_and_keeps_what_was_drawn(tmp_path):
    calls = []

    def failing(prompt, seed):
        calls.append(1)
        if len(calls) > 40:
            raise ConnectionError("gone")
        return worlds.complete(prompt, seed)

    options = {"strategy": "uniform", "workers": 1}
    with Journal(tmp_path / "pool.sqlite") as journal, pytest.raises(ConnectionError):
        list(label_solutions(worlds.solutions(9), CallableGenerator(failing), journal=journal, **options))
    with Journal(tmp_path / "pool.sqlite") as journal:
        assert journal.totals()[0] == 32


def test_outcomes_are_told_apart():
    math, rollout = load("math"), Rollout("3 + 4?", ("Adding.",), gold="7")

    def outcome(text, finish="stop", rollout=rollout):
        return judge_completion(rollout, "Adding.\n\n", Completion(text, finish=finish), math)

    assert outcome("The answer is 7.") == "correct"
    assert outcome("The answer is 8.") == "wrong"
    assert outcome("I cannot tell.") == "wrong"
    assert outcome("The answer is 8.", "length") == "truncated"
    assert outcome("The answer is 7.", "length") == "correct"
    assert outcome("", "error") == "failed"


def test_the_prefix_ends_where_the_next_step_begins():
    rollout = Rollout("p", ("a", "b"), text="a \n b!", spans=((0, 1), (4, 5)))
    assert prefix_text(rollout, 0) == "a \n "
    assert prefix_text(rollout, 1) == "a \n b"


def test_the_key_covers_problem_gold_prefix_generator_and_verifier():
    base = Rollout("p", ("a", "b"), gold="1")
    variants = [
        (base, WORLD, "math", 0),
        (base, WORLD, "math", 1),
        (Rollout("q", ("a", "b"), gold="1"), WORLD, "math", 0),
        (Rollout("p", ("a", "b"), gold="2"), WORLD, "math", 0),
        (Rollout("p", ("c", "b"), gold="1"), WORLD, "math", 0),
        (base, CallableGenerator(worlds.complete, name="other"), "math", 0),
        (base, WORLD, "code", 0),
    ]
    with Journal(":memory:") as journal:
        keys = [PrefixRollouts(r, g, load(v), journal).key(step) for r, g, v, step in variants]
    assert len(set(keys)) == len(keys)


def test_the_journal_keeps_the_first_of_two_and_survives_threads(tmp_path):
    path = tmp_path / "deep" / "journal.sqlite"
    with Journal(path) as journal:
        journal.put(b"k", {0: Drawn("correct", 3, "first \ud800")})
        journal.put(b"k", {0: Drawn("wrong", 3, "second"), 1: Drawn("wrong", 4, "new")})
        threads = [
            threading.Thread(target=lambda i=i: journal.put(b"t", {i: Drawn("truncated", 1, "")})) for i in range(20)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with Journal(path) as journal:
        assert {i: d.outcome for i, d in journal.get(b"k").items()} == {0: "correct", 1: "wrong"}
        assert tally(list(journal.get(b"t").values())).truncated == 20
        assert journal.totals() == (22, 27)


def test_other_files_are_refused_and_left_alone(tmp_path):
    text, database = tmp_path / "rows.jsonl", tmp_path / "other.sqlite"
    text.write_text("not a database, " * 100)
    with sqlite3.connect(database) as other:
        other.execute("CREATE TABLE mine (x)")
    other.close()
    for path in (text, database):
        with pytest.raises(ValueError, match="name another file"):
            Journal(path)
    assert text.read_text().startswith("not a database")


def test_the_judge_votes_and_is_paid_for_once(tmp_path):
    asked = []

    def judge(prompt, seed):
        asked.append(seed)
        return ["\\boxed{1}", "\\boxed{1}", "hm", "\\boxed{-1}", "\\boxed{9}"][len(asked) - 1]

    rollout = Rollout("p", ("a", "b"))
    with Journal(tmp_path / "j") as journal:
        said = judge_solution(rollout, CallableGenerator(judge), critiques=5, journal=journal)
        again = judge_solution(rollout, CallableGenerator(judge), critiques=5, journal=journal)
    assert said == again
    assert len(asked) == 5
    assert (said.first_error, said.agreement) == (1, pytest.approx(2 / 3))
    assert [c.score(1) for c in said.critiques] == [1.0, 1.0, None, 0.0, None]
    cut = CallableGenerator(lambda prompt, seed: Completion("\\boxed{0}", finish="length"))
    assert judge_solution(rollout, cut).first_error is None
    with pytest.raises(ValueError, match="critiques"):
        judge_solution(rollout, cut, critiques=0)


def test_the_scorer_gives_values_with_their_counts():
    rollout = worlds.solutions(4)[3]  # step 2 is wrong
    scores = MonteCarloScorer(WORLD, completions=32).score_batch([rollout])[0]
    assert min(scores.values[:2]) > 0.4
    assert scores.values[2:] == (0.0,) * 4
    assert scores.first_error() == 2
    detail = scores.details[0]
    assert detail["interval"][0] < scores.values[0] < detail["interval"][1]
    assert detail["counts"]["truncated"] > 0
    hard, er = (MonteCarloScorer(WORLD, completions=32, target=t).score_batch([rollout])[0] for t in ("hard", "er"))
    assert hard.values[0] == 1.0
    assert scores.values[0] < er.values[0] < 1


def test_the_scorer_abstains_with_the_reason():
    cut = CallableGenerator(lambda prompt, seed: Completion("...", finish="length"))
    refused = CallableGenerator(lambda prompt, seed: Completion("", finish="error"))

    def gone(prompt, seed):
        raise ConnectionError("gone")

    rollout = Rollout("p", ("a", "b"), gold="1")
    assert MonteCarloScorer(cut).score_batch([rollout])[0].reasons == ("truncated", "truncated")
    assert MonteCarloScorer(refused).score_batch([rollout])[0].reasons == ("model", "model")
    failed = MonteCarloScorer(CallableGenerator(gone)).score_batch([rollout])[0]
    assert (failed.status, failed.reasons[0]) == ("error", "transport")
    assert MonteCarloScorer(WORLD).score(["a"]).reasons == ("no_gold",)
    with pytest.raises(ValueError, match="target"):
        MonteCarloScorer(WORLD, target="best")


def _run(arguments, **environment):
    return subprocess.Popen(
        [sys.executable, "-m", "stepgauge", "label", *arguments],
        env={**os.environ, **environment},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _input(path, count):
    from stepgauge.data import to_row

    write_rows(path, [to_row(rollout) for rollout in worlds.solutions(count)])
    return str(path)


def test_the_command_writes_labels_judgements_and_its_cost(tmp_path):
    source, out = _input(tmp_path / "in.jsonl", 8), tmp_path / "out.jsonl"
    with open(source, "a", encoding="utf-8") as stream:
        stream.write('{"id": "x", "problem": "no gold", "steps": ["a"]}\n')
    judge = "python:tests.prm.labelling.worlds:judge"
    process = _run(
        [source, "--out", str(out), "--generator", SPEC, "--judge", judge, "--price", "2", "--rollouts", "15"]
    )
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 0, said
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rows) == 8
    assert sum(row["first_error"] == row["error"] for row in rows) >= 7
    for row in rows:
        assert row["judge_first_error"] == row["error"]
        assert row["keep"] == (row["first_error"] == row["error"])
        assert len(row["labels"]) == len(row["counts"]) == 6
    assert "no gold answer" in said
    assert "at 2 a million" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--strategy", "greedy"], "strategy"),
        (["--strategy", "uniform", "--error-rate", "0.1"], "adaptive"),
        (["--target", "best"], "target"),
    ],
)
def test_the_command_refuses_before_anything_is_drawn(tmp_path, arguments, message):
    from typer.testing import CliRunner

    from stepgauge.cli import app

    source, out = _input(tmp_path / "in.jsonl", 1), str(tmp_path / "o.jsonl")
    result = CliRunner().invoke(app, ["label", source, "--out", out, "--generator", SPEC, *arguments])
    assert isinstance(result.exception, ValueError)
    assert message in str(result.exception)
    assert not os.path.exists(out)


def test_killed_five_times_the_final_file_is_that_of_an_uninterrupted_run(tmp_path):
    source = _input(tmp_path / "in.jsonl", 30)
    whole, killed = tmp_path / "whole.jsonl", tmp_path / "killed.jsonl"
    clean = _run([source, "--out", str(whole), "--generator", SPEC, "--strategy", "uniform"])
    assert (clean.communicate(timeout=120), clean.returncode)[1] == 0
    random_ = random.Random(os.urandom(8))
    arguments = [source, "--out", str(killed), "--generator", SPEC, "--strategy", "uniform"]
    journal, drawn = tmp_path / "killed.jsonl.journal", [0]
    for _ in range(5):
        process = _run([*arguments, "--workers", "2"], STEPGAUGE_TEST_SLEEP_S="0.003")
        started = time.monotonic()
        while time.monotonic() - started < 60:  # until it draws; then a random moment of its work
            if journal.exists() and _drawn(journal) > drawn[-1]:
                break
            time.sleep(0.02)
        time.sleep(random_.uniform(0, 0.5))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        assert not killed.exists()
        drawn.append(_drawn(journal))
    assert drawn == sorted(set(drawn))  # every life got further
    assert all(count % 16 == 0 for count in drawn)  # requests are there whole or not at all
    last = _run(arguments)
    assert (last.communicate(timeout=120), last.returncode)[1] == 0
    assert killed.read_bytes() == whole.read_bytes()


def _drawn(journal):
    try:
        db = sqlite3.connect(journal, timeout=10)
        try:
            return db.execute("SELECT count(*) FROM samples").fetchone()[0]
        finally:
            db.close()
    except sqlite3.OperationalError:
        return 0
