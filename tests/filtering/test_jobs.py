"""Jobs in a folder: every row once, why it went where it went, resume, cache, what is refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepgauge.filtering import FilterFailed, InProcess, ProcessPool, cut, filter_dataset, filter_rows, read_parts
from stepgauge.filtering.chunks import read_chunk
from stepgauge.verifiers.math_answers import MathScorer
from tests.filtering.scorers import Fatal, Logged, logged_rows

RULE = "aggregate >= 0.5 and verdict == 'equal'"


def rows_of(count, start=0):
    rows = []
    for number in range(start, start + count):
        answer = number + 7 + (number % 3 == 0)
        rows.append(
            {
                "id": f"r{number:05d}",
                "problem": f"What is {number} + 7?",
                "gold": str(number + 7),
                "steps": [f"We add 7 to {number}.", f"The answer is {answer}."],
                "source": "made",
            }
        )
    return rows


def write_lines(path, rows):
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def found_in(out):
    return {fate: list(read_parts(Path(out) / fate)) for fate in ("kept", "dropped", "quarantined")}


def run(source, out, scorer="math", keep=RULE, **options):
    return filter_dataset(source, scorer, keep, out, **({"runner": InProcess(), "shard_rows": 16} | options))


def test_every_row_goes_somewhere_and_says_why(tmp_path):
    rows = rows_of(50)
    rows[5] = {"id": "bad", "problem": "p", "steps": 3}
    rows[9] = "{broken"
    rows[20] = {"id": "no gold", "problem": "p", "steps": ["The answer is 1."]}
    rows[40] = rows[41] | {"id": "twin"}
    summary = run(write_lines(tmp_path / "in.jsonl", rows), tmp_path / "out")
    found = found_in(tmp_path / "out")
    assert summary.rows == 50
    assert summary.complete
    assert [row["id"] for row in found["kept"]] == [
        row["id"]
        for index, row in enumerate(rows)
        if index not in (5, 9, 20) and (index % 3 != 0 or index == 40)  # the twin of 41
    ]
    assert {row["reason"] for row in found["dropped"]} == {
        "false: aggregate >= 0.5",
        "unknown: aggregate >= 0.5 (math: no_gold)",
    }
    assert [(row["line"], row["reason"]) for row in found["quarantined"]] == [(6, "unreadable"), (10, "unreadable")]
    assert "steps must be a list" in found["quarantined"][0]["message"]
    assert json.loads(found["quarantined"][0]["row"]) == rows[5]
    assert sum(map(len, found.values())) == 50
    kept = found["kept"][0]
    assert kept["math_values"] == [None, 1.0]
    assert (kept["score"], kept["scorer"], kept["source"]) == (1.0, "math", "made")
    told = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert told["reasons"]["unreadable"] == 2
    assert sum(told["histograms"]["math"]["bins"]) == 47
    assert told["histograms"]["math"]["bins"][-1] == told["kept"] == summary.kept
    assert {"id": "r00000", "aggregates": {"math": 0.0}} in told["examples"]["false: aggregate >= 0.5"]


def test_a_pool_gives_the_same_files_as_one_process(tmp_path):
    source = write_lines(tmp_path / "in.jsonl", [*rows_of(100), "{broken"])
    run(source, tmp_path / "one")
    run(source, tmp_path / "pool", runner=ProcessPool(2))
    for fate in ("kept", "dropped", "quarantined"):
        parts = {part.name: part.read_bytes() for part in (tmp_path / "one" / fate).iterdir()}
        assert parts == {part.name: part.read_bytes() for part in (tmp_path / "pool" / fate).iterdir()}


def as_jsonl(tmp_path, rows):
    return write_lines(tmp_path / "in.jsonl", rows)


def as_gzip(tmp_path, rows):
    path = tmp_path / "in.jsonl.gz"
    with gzip.open(path, "wt") as stream:
        stream.write("".join(json.dumps(row) + "\n" for row in rows))
    return path


def as_list(tmp_path, rows):
    (tmp_path / "in.json").write_text(json.dumps(rows))
    return tmp_path / "in.json"


def as_parquet(tmp_path, rows):
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "in.parquet", row_group_size=7)
    return tmp_path / "in.parquet"


def as_one_group(tmp_path, rows):
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "in.parquet")
    return tmp_path / "in.parquet"


def as_folder(tmp_path, rows):
    (tmp_path / "in").mkdir()
    pq.write_table(pa.Table.from_pylist(rows[:30]), tmp_path / "in" / "a.parquet", row_group_size=50)
    write_lines(tmp_path / "in" / "b.jsonl", rows[30:])
    (tmp_path / "in" / "README.md").write_text("not rows")
    return tmp_path / "in"


def as_dataset(tmp_path, rows):
    datasets.Dataset.from_list(rows).save_to_disk(str(tmp_path / "in"))
    return tmp_path / "in"


def as_memory(tmp_path, rows):
    return datasets.Dataset.from_list(rows)


def as_stream(tmp_path, rows):
    write_lines(tmp_path / "in.jsonl", rows)
    return datasets.load_dataset("json", data_files=str(tmp_path / "in.jsonl"), split="train", streaming=True)


@pytest.mark.parametrize(
    "make",
    [as_jsonl, as_gzip, as_list, as_parquet, as_one_group, as_folder, as_dataset, as_memory, as_stream, lambda _, r: r],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_form_of_source_gives_the_same_rows(make, tmp_path):
    rows = rows_of(203)
    source = make(tmp_path, rows)
    assert [row for chunk in cut(source, 16).chunks for _, row in read_chunk(chunk)] == rows
    summary = run(source, tmp_path / "out")
    assert (summary.kept, summary.dropped) == (135, 68)
    assert [row["id"] for row in found_in(tmp_path / "out")["kept"]] == [r["id"] for i, r in enumerate(rows) if i % 3]


def test_chunks_cover_odd_lines(tmp_path, monkeypatch):
    path = tmp_path / "in.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\n\n\r\n{"a": 2}\r\n{"a": "' + b"x" * 3000 + b'"}\n{"a": 3}')
    monkeypatch.setattr("stepgauge.filtering.chunks.MAX_CHUNK_BYTES", 2000)
    for rows in (1, 2, 3, 100):
        found = cut(path, rows)
        assert found.rows == 6
        read = [(line, row["a"]) for chunk in found.chunks for line, row in read_chunk(chunk)]
        assert read == [(1, 1), (4, 2), (5, "x" * 3000), (6, 3)]


def test_rows_without_ids_are_named_by_place(tmp_path):
    rows = [{name: value for name, value in row.items() if name != "id"} for row in rows_of(40)]
    run(as_folder(tmp_path, rows), tmp_path / "out", keep="n_steps == 2")
    names = [row["id"] for row in found_in(tmp_path / "out")["kept"]]
    assert (names[0], names[-1]) == ("a.parquet:1", "b.jsonl:10")
    assert len(set(names)) == 40


def test_done_shards_are_left_alone_and_scores_are_found_again(tmp_path):
    source, log = write_lines(tmp_path / "in.jsonl", rows_of(64)), tmp_path / "log"
    run(source, tmp_path / "out", Logged(log))
    assert logged_rows(log)[1] == 64
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "out").rglob("part-*")}
    again = run(source, tmp_path / "out", Logged(log))
    assert again.complete
    assert again.kept == 42
    assert before == {p: p.stat().st_mtime_ns for p in (tmp_path / "out").rglob("part-*")}
    (tmp_path / "out" / "shards" / "000001.json").unlink()
    run(source, tmp_path / "out", Logged(log))
    assert logged_rows(log)[1] == 64
    other = run(
        source, tmp_path / "other", Logged(log), keep="n_steps == 1", journal=tmp_path / "out" / "journal.sqlite"
    )
    assert (other.kept, other.scored, other.reused) == (0, 0, 64)
    assert logged_rows(log)[1] == 64


def test_equal_rollouts_are_scored_once(tmp_path):
    log = tmp_path / "log"
    rows = [row | {"id": f"{copy} {row['id']}"} for copy in range(5) for row in rows_of(20)]
    summary = run(rows, tmp_path / "out", Logged(log))
    assert logged_rows(log)[1] == summary.scored == 20
    assert summary.reused == 80
    assert summary.kept == 5 * 13


def test_cached_and_fresh_scores_give_the_same_columns(tmp_path):
    source = write_lines(tmp_path / "in.jsonl", rows_of(40))
    run(source, tmp_path / "a", journal=tmp_path / "j")
    run(source, tmp_path / "b", journal=tmp_path / "j")
    assert found_in(tmp_path / "a") == found_in(tmp_path / "b")


def test_filter_rows_agrees_with_the_job(tmp_path):
    rows = rows_of(40)
    run(rows, tmp_path / "out")
    dropped = []
    kept = list(filter_rows(rows, MathScorer(), RULE, on_drop=dropped.append))
    found = found_in(tmp_path / "out")
    assert kept == found["kept"]
    assert [decision.reason for decision in dropped] == [row["reason"] for row in found["dropped"]]


def test_columns_are_the_same_in_every_part(tmp_path):
    rows = rows_of(64)
    for index, row in enumerate(rows):
        row["level"] = index if index < 20 else float(index) if index < 40 else None
        row["mixed"] = index if index < 40 else f"level {index}"
        row["nested"] = {"a": index} if index < 40 else {"b": "x", "empty": {}}
        if index > 50:
            row["late"] = [index]
    rows[3]["mixed"] = "text"
    run(rows, tmp_path / "out")
    schemas = {str(pq.read_schema(part)) for part in (tmp_path / "out" / "kept").iterdir()}
    assert len(schemas) == 1
    table = pq.read_table(tmp_path / "out" / "kept").to_pylist()
    assert [row["level"] for row in table] == [i if i < 40 else None for i in range(64) if i % 3]
    assert [json.loads(row["mixed"]) for row in table] == [r["mixed"] for i, r in enumerate(rows) if i % 3]
    assert [row["late"] for row in table] == [[i] if i > 50 else None for i in range(64) if i % 3]
    assert table[-1]["nested"] == {"a": None, "b": "x", "empty": None}
    loaded = datasets.load_dataset(
        "parquet", data_files=str(tmp_path / "out" / "kept" / "*"), split="train", cache_dir=str(tmp_path / "cache")
    )
    assert len(loaded) == len(table)


def test_values_that_no_column_holds_do_not_stop_the_job(tmp_path):
    odd = ["\ud800", 10**30, {"a": 1}, [1, "x"], True, None, float("nan")]
    rows = [row | {"odd": value} for row, value in zip(rows_of(len(odd)), odd, strict=True)]
    summary = run(rows, tmp_path / "out", keep="n_steps == 2")
    assert summary.kept == len(odd)
    found = [row["odd"] for row in found_in(tmp_path / "out")["kept"]]
    assert [json.loads(text) for text in found[:5]] == odd[:5]
    assert found[5] is None


def test_array_jobs_share_a_folder(tmp_path):
    source = write_lines(tmp_path / "in.jsonl", rows_of(100))
    for index in (2, 0):
        summary = run(source, tmp_path / "out", shard=(index, 3))
        assert not summary.complete
    summary = run(source, tmp_path / "out", shard=(1, 3))
    assert summary.complete
    assert summary.rows == 100
    run(source, tmp_path / "one")
    assert found_in(tmp_path / "out") == found_in(tmp_path / "one")
    assert len(list((tmp_path / "out").glob("journal-*-of-3.sqlite"))) == 3


def test_scores_of_two_scorers_meet_in_the_rule(tmp_path):
    """Consensus: Monte-Carlo labels that came with the rows, and a judge, name the same first error."""
    rows = []
    for number, (monte_carlo, wrong_step) in enumerate([(1, 1), (1, 0), (-1, None), (-1, 1), (None, 1)]):
        steps = ["2 + 2 = 4", "4 + 4 = 8"]
        if wrong_step is not None:
            steps[wrong_step] += "1"
        rows.append({"id": str(number), "problem": "p", "steps": steps, "first_error": monte_carlo})
    summary = run(rows, tmp_path / "out", "judge=arithmetic,fatal=arithmetic", "row.first_error == judge.first_error")
    assert [row["id"] for row in found_in(tmp_path / "out")["kept"]] == ["0", "2"]
    assert dict(summary.tally.reasons) == {
        "false: row.first_error == judge.first_error": 2,
        "unknown: row.first_error == judge.first_error": 1,
    }
    kept = found_in(tmp_path / "out")["kept"][0]
    assert kept["judge_first_error"] == kept["fatal_first_error"] == 1
    assert "score" not in kept


def test_failures_are_quarantined_and_tried_again_by_the_next_run(tmp_path):
    rows = [row | {"steps": [*row["steps"], "raise"] if n == 3 else row["steps"]} for n, row in enumerate(rows_of(40))]
    source, key = write_lines(tmp_path / "in.jsonl", rows), tmp_path / "server is up"
    scorer = Fatal(str(key))
    summary = run(source, tmp_path / "out", scorer, "aggregate == 1")
    assert (summary.kept, summary.quarantined, summary.failed) == (0, 40, 40)
    assert {row["reason"] for row in found_in(tmp_path / "out")["quarantined"]} == {
        "fatal: transport",
        "fatal: internal",
    }
    key.touch()
    summary = run(source, tmp_path / "out", scorer, "aggregate == 1")
    assert (summary.kept, summary.quarantined, summary.failed) == (39, 1, 1)
    ((row),) = found_in(tmp_path / "out")["quarantined"]
    assert (row["line"], row["message"]) == (4, "ZeroDivisionError: on purpose")


def test_a_failure_does_not_matter_where_the_rule_is_certain(tmp_path):
    scorer = {"fatal": Fatal(str(tmp_path / "never")), "math": MathScorer()}
    summary = run(rows_of(9), tmp_path / "out", scorer, "math.aggregate == 1 and fatal.aggregate == 1")
    assert (summary.dropped, summary.quarantined) == (3, 6)


def test_a_broken_scorer_stops_the_job_early(tmp_path):
    with pytest.raises(FilterFailed, match="there is no"):
        run(rows_of(3_000), tmp_path / "out", Fatal(str(tmp_path / "never")), "aggregate == 1", shard_rows=500)
    assert len(list((tmp_path / "out" / "shards").iterdir())) == 2


def test_a_rule_that_does_not_fit_a_row_quarantines_it(tmp_path):
    rows = [row | {"level": "hard" if n == 2 else n} for n, row in enumerate(rows_of(6))]
    summary = run(rows, tmp_path / "out", keep="row.level >= 3")
    assert (summary.kept, summary.dropped, summary.quarantined) == (3, 2, 1)
    ((row),) = found_in(tmp_path / "out")["quarantined"]
    assert row["reason"] == "rule"
    assert "compares str 'hard' with int 3" in row["message"]


def test_another_job_in_the_folder_is_refused(tmp_path):
    source = write_lines(tmp_path / "in.jsonl", rows_of(20))
    run(source, tmp_path / "out")
    with pytest.raises(ValueError, match=r"another job, which differs in keep \(was .aggregate >= 0.5"):
        run(source, tmp_path / "out", keep="n_steps > 3")
    with pytest.raises(ValueError, match="differs in shard_rows"):
        run(source, tmp_path / "out", shard_rows=8)
    write_lines(source, rows_of(21))
    with pytest.raises(ValueError, match="differs in source"):
        run(source, tmp_path / "out")


def test_other_rows_under_the_same_name_are_noticed(tmp_path):
    run(rows_of(64), tmp_path / "out")
    summary = run([*rows_of(16), *rows_of(16, 500)], tmp_path / "out")
    names = [row["id"] for rows in found_in(tmp_path / "out").values() for row in rows]
    assert sorted(names) == [row["id"] for row in [*rows_of(16), *rows_of(16, 500)]]
    assert summary.rows == 32


def test_two_runs_in_one_folder_do_not_meet(tmp_path):
    def rows():
        yield from rows_of(20)
        with pytest.raises(BlockingIOError, match="another run is at work"):
            run(rows_of(5), tmp_path / "out")

    assert run(rows(), tmp_path / "out").rows == 20


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"shard": (3, 3)}, "from 0 to n - 1"),
        ({"shard_rows": 0}, "at least 1"),
        ({"batch_rows": 0}, "at least 1"),
        ({"how": "paragraphs"}, "must be one of"),
        ({"scorer": ""}, "needs a scorer"),
        ({"scorer": "row=math"}, "cannot be called 'row'"),
        ({"keep": "aggregate >"}, "cannot be read"),
        ({"source": "missing.jsonl"}, "there is no file"),
        ({"source": []}, None),
    ],
)
def test_wrong_usage(options, says, tmp_path):
    source = options.pop("source", rows_of(3))
    if says is None:
        assert run(source, tmp_path / "out").rows == 0
        return
    with pytest.raises((ValueError, FileNotFoundError), match=says):
        run(source, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_progress_tells_totals_and_bad_rows(tmp_path):
    seen = []
    source = write_lines(tmp_path / "in.jsonl", [*rows_of(40), "{broken"])
    run(source, tmp_path / "out", progress=seen.append)
    assert [(p.done, p.fresh, p.bad, p.total) for p in seen] == [(16, 16, 0, 41), (32, 32, 0, 41), (41, 41, 1, 41)]
    (tmp_path / "out" / "shards" / "000000.json").unlink()
    run(source, tmp_path / "out", progress=seen.append)
    assert (seen[-1].done, seen[-1].fresh) == (41, 16)
