import gzip
import io
import json
import math
import signal
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepgauge.data import BadRow, bundled, files, from_row, read_rollouts, to_row, write_rows
from stepgauge.scoring import Rollout

GOOD = {"problem": "1+1?", "steps": ["1+1 = 2.", "The answer is 2."], "gold": "2"}


def read(source, **options):
    bad = []
    return list(read_rollouts(source, on_bad=bad.append, **options)), bad


def turn(role, content):
    return {"role": role, "content": content}


SHAPES = [
    # row, problem, steps, gold, id, meta
    (GOOD, "1+1?", ("1+1 = 2.", "The answer is 2."), "2", "1", {}),
    (
        {"problem_id": "p", "problem": "q", "gold": 3, "sample_id": 0, "text": "a\nb", "model": "m"},
        *("q", ("a", "b"), "3", "p/0", {"problem_id": "p", "sample_id": 0, "model": "m"}),
    ),
    ({"problem": "q", "response": "a\n\nb"}, "q", ("a", "b"), None, "1", {}),
    ({"question": "q", "completion": "a", "answer": "4", "id": 7}, "q", ("a",), None, "7", {"answer": "4"}),
    ({"prompt": "q", "text": "<think>a"}, "q", ("a",), None, "1", {"truncated": True}),
    ({"problem": "q", "text": ""}, "q", (), None, "1", {}),
    ({"steps": ["a"]}, "", ("a",), None, "1", {}),
    ({"problem": "q", "steps": ["a", "a"], "text": "a, a"}, "q", ("a", "a"), None, "1", {}),
    ({"problem": "q", "steps": [""], "gold": 2.0, "token_ids": [1, 2]}, "q", ("",), "2", "1", {}),
    ({"problem": "q", "steps": ["a"], "gold": 0.5}, "q", ("a",), "0.5", "1", {}),
    (
        {"messages": [turn("system", "s"), turn("user", "q"), turn("assistant", "a\nb")]},
        *("q", ("a", "b"), None, "1", {}),
    ),
    (
        {
            "messages": [
                turn("user", [{"type": "text", "text": "q"}]),
                turn("assistant", "a\nb"),
                turn("assistant", "c"),
            ]
        },
        *("q", ("a\nb", "c"), None, "1", {}),
    ),
]


@pytest.mark.parametrize(("row", "problem", "steps", "gold", "id", "meta"), SHAPES)
def test_row_shapes(row, problem, steps, gold, id, meta):
    [rollout], bad = read([row])
    assert bad == []
    assert (rollout.problem, rollout.steps, rollout.gold, rollout.id) == (problem, steps, gold, id)
    assert rollout.meta == meta
    assert rollout.token_ids == (tuple(row["token_ids"]) if "token_ids" in row else None)
    assert from_row(json.loads(json.dumps(to_row(rollout)))) == rollout


BAD = [
    ({"problem": "q", "gold": "1"}, "no steps and no text.*besides the problem the row has nothing"),
    ({"problem": "q", "steps": []}, "steps is empty"),
    ({"problem": "q", "steps": "a"}, "steps must be a list of strings, got str"),
    ({"problem": "q", "steps": ["a", None]}, r"steps\[1\] must be a string, got NoneType"),
    ({"problem": 5, "steps": ["a"]}, "problem must be a string, got int 5"),
    ({"problem": "q", "text": 5}, "text must be a string, got int"),
    ({"problem": "q", "steps": ["a"], "gold": math.nan}, "gold must be finite, got nan"),
    ({"problem": "q", "steps": ["a"], "gold": True}, "gold must be a string or a number, got bool"),
    ({"problem": "q", "steps": ["a"], "gold": ["2"]}, "gold must be a string or a number, got list"),
    ({"problem": "q", "steps": ["a"], "id": 1.5}, "id must be a string or an integer"),
    ({"problem": "q", "steps": ["a"], "token_ids": ["x"]}, "token_ids must be a list of integers"),
    ({"problem": "q", "steps": ["b"], "text": "a"}, r"steps\[0\] = 'b' is not in the text"),
    ({"problem": "q", "steps": ["b"], "text": "a", "spans": [[0, 1]]}, r"spans\[0\]"),
    ({"problem": "q", "steps": ["b"], "text": "b", "spans": [["x"]]}, "spans must be a list of pairs"),
    ({"problem": "q", "steps": ["\ud800"]}, "response has a lone surrogate at character 0"),
    ({"messages": [{"role": "assistant", "content": "a"}]}, "no turn with role 'user'"),
    ({"messages": [{"role": "user", "content": "a"}]}, "no assistant turn"),
    ({"messages": "hello"}, "messages must be a list"),
    ({"messages": [turn("user", [{"type": "image"}]), turn("assistant", "a")]}, "images and tool calls"),
    ([1], "a row must be an object"),
    (None, "a row must be an object"),
]


@pytest.mark.parametrize(("row", "message"), BAD)
def test_bad_rows_are_reported_and_the_rest_read(row, message):
    rollouts, [bad] = read([GOOD, row, GOOD])
    assert len(rollouts) == 2
    assert bad.line == 2
    with pytest.raises((ValueError, TypeError), match=message):
        from_row(row)


def test_answer_is_gold_only_when_asked():
    row = {**GOOD, "answer": 4}
    assert read([row])[0][0].gold == "2"
    [rollout], _ = read([row], gold_field="answer")
    assert (rollout.gold, rollout.meta) == ("4", {"gold": "2"})
    assert from_row(to_row(rollout)) == rollout
    _, [bad] = read([GOOD], gold_field="answr")
    assert "no column 'answr'" in bad.message


def test_broken_lines_are_reported_with_file_and_line(tmp_path):
    good = json.dumps(GOOD).encode()
    lines = [
        b"\xef\xbb\xbf" + good,
        b"{",
        b"",
        b'{"a": \xff}',
        good + b"\r",
        b"[" * 100_000,
        b"7",
        b'{"gold": NaN, "steps": ["a"]}',
    ]
    path = tmp_path / "runs.jsonl"
    path.write_bytes(b"\n".join([*lines, good]))  # no newline at the end
    rollouts, bad = read(path)
    assert len(rollouts) == 3
    assert [row.line for row in bad] == [2, 4, 6, 7, 8]
    assert str(bad[0]).startswith(f"{path}:2: broken JSON")
    assert "0xff" in bad[1].message
    assert "UTF-8" in bad[1].message


def test_bad_rows_are_logged_by_default(caplog):
    assert list(read_rollouts([None])) == []
    assert "skipped rows:1: a row must be an object" in caplog.text


def test_a_line_beyond_the_limit_is_skipped(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_LINE_BYTES", 1000)
    path = tmp_path / "runs.jsonl"
    long = json.dumps({**GOOD, "steps": ["x" * 5000]})
    path.write_text("\n".join([json.dumps(GOOD), long, json.dumps(GOOD)]))
    rollouts, bad = read(path)
    assert len(rollouts) == 2
    assert bad == [BadRow(str(path), 2, "the line is longer than 0 MB; leave such rows out")]


def test_a_step_of_10_megabytes(tmp_path):
    path = tmp_path / "big.jsonl"
    row = {**GOOD, "steps": ["x" * 10_000_000]}
    write_rows(path, [row])
    [rollout], bad = read(path)
    assert (len(rollout.steps[0]), bad) == (10_000_000, [])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b"", "is empty"),
        ("a.jsonl", b"\n \n", "is empty"),
        ("a.json", b"[1, ", "not a JSON list"),
        ("a.csv", b"a,b", "suffix that is not known; use one of .jsonl"),
        ("a.parquet", b"nonsense", "not a parquet file"),
    ],
)
def test_sources_that_cannot_be_read(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        list(read_rollouts(tmp_path / name))


def test_missing_sources(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no file 'nothing.jsonl'"):
        read_rollouts("nothing.jsonl")  # at the call, not at the first row
    with pytest.raises(ValueError, match="not written by datasets"):
        list(read_rollouts(tmp_path))
    with pytest.raises(ValueError, match=r"no bundled rollouts 'dev_7b'; known: dev_0.5b"):
        read_rollouts("bundled:dev_7b")
    with pytest.raises(ValueError, match=r"read_rollouts\(how\)"):
        read_rollouts([], how="words")


def test_json_list_gz_and_stdin(tmp_path, monkeypatch):
    (tmp_path / "a.json").write_text(json.dumps([GOOD, None, GOOD]))
    rollouts, bad = read(tmp_path / "a.json")
    assert (len(rollouts), bad[0].line) == (2, 2)
    lines = f"{json.dumps(GOOD)}\n{json.dumps(GOOD)}\n".encode()
    (tmp_path / "b.json").write_bytes(lines)
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(lines))
    assert len(read(tmp_path / "b.json")[0]) == len(read(tmp_path / "b.jsonl.gz")[0]) == 2
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
    assert len(read("-")[0]) == 2


def test_a_damaged_gz_gives_what_comes_before(tmp_path):
    packed = gzip.compress((json.dumps(GOOD) + "\n").encode() * 5000)
    (tmp_path / "a.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    rollouts, bad = read(tmp_path / "a.jsonl.gz")
    assert len(rollouts) > 10
    assert "damaged" in bad[0].message


def test_parquet_and_datasets(tmp_path):
    import datasets

    rows = [{**GOOD, "score": 0.5}, {**GOOD, "steps": None, "gold": "3", "score": None}] * 300
    assert write_rows(tmp_path / "a.parquet", rows) == 600
    rollouts, bad = read(tmp_path / "a.parquet")
    assert (len(rollouts), len(bad), bad[0].line) == (300, 300, 2)
    assert rollouts[0].meta == {"score": 0.5}
    data = datasets.Dataset.from_list([GOOD, GOOD])
    data.save_to_disk(str(tmp_path / "set"))
    datasets.DatasetDict({"train": data}).save_to_disk(str(tmp_path / "splits"))
    assert len(read(tmp_path / "set")[0]) == len(read(data)[0]) == len(read(tmp_path / "splits" / "train")[0]) == 2
    with pytest.raises(ValueError, match="holds the splits train; name the folder of one"):
        list(read_rollouts(tmp_path / "splits"))


def test_a_datasets_folder_round_trips(tmp_path):
    rollouts = bundled("dev_1.5b")
    assert write_rows(tmp_path / "set", map(to_row, rollouts)) == len(rollouts)
    assert read(tmp_path / "set") == (rollouts, [])
    assert [path.name for path in tmp_path.iterdir()] == ["set"]
    with pytest.raises(ValueError, match="exists; name a file in it, or another folder"):
        write_rows(tmp_path / "set", [])


def test_no_datasets_folder_is_left_when_the_rows_raise(tmp_path):
    def rows():
        yield {"a": 1}
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        write_rows(tmp_path / "set", rows())
    assert list(tmp_path.iterdir()) == []


def test_bundled():
    rollouts = bundled()
    assert len(rollouts) == 512
    assert len({r.meta["problem_id"] for r in rollouts}) == 64
    assert all(r.gold and r.text is not None and len(r.spans) == len(r.steps) for r in rollouts)
    assert list(read_rollouts("bundled")) == rollouts
    assert list(read_rollouts("bundled:dev_1.5b")) == bundled("dev_1.5b")
    assert [from_row(to_row(r)) for r in rollouts] == rollouts
    assert [from_row(to_row(r)).meta for r in rollouts] == [r.meta for r in rollouts]


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@given(
    steps=st.lists(TEXT, min_size=1, max_size=4),
    gold=st.none() | TEXT,
    gap=st.none() | TEXT,
    token_ids=st.none() | st.lists(st.integers(0, 9), max_size=3),
    meta=st.dictionaries(
        TEXT | st.sampled_from(["text", "gold", "response", "meta", "id", "seed"]), st.integers() | TEXT
    ),
)
@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz"])
def test_round_trip(tmp_path_factory, suffix, steps, gold, gap, token_ids, meta):
    text, spans = (None, ()) if gap is None else (gap.join(steps), [])
    if text is not None:
        at = 0
        for step in steps:
            spans.append((at, at + len(step)))
            at += len(step) + len(gap)
    rollout = Rollout("p", steps, gold, None, text, spans, token_ids, "x", meta)
    path = tmp_path_factory.getbasetemp() / f"round.{suffix}"
    write_rows(path, [to_row(rollout)])
    [again], _ = read(path)
    assert (again, dict(again.meta)) == (rollout, meta)


def test_write_rows_writes_strict_json(tmp_path):
    path = tmp_path / "new" / "a.jsonl"
    assert write_rows(path, iter([{"x": math.nan, "y": [math.inf, "é"]}, {"z": "\ud800"}])) == 2
    assert path.read_text() == '{"x": null, "y": [null, "é"]}\n{"z": "\\ud800"}\n'


def test_parquet_columns_that_appear_late_or_disagree(tmp_path):
    import pyarrow.parquet as pq

    rows = [{"a": None, "b": 1}] * 600 + [{"a": "x", "b": 0.5, "c": [1, 2]}]
    write_rows(tmp_path / "a.parquet", rows)
    assert pq.read_table(tmp_path / "a.parquet").to_pylist()[-1] == {"a": "x", "b": 0.5, "c": [1, 2]}
    with pytest.raises(ValueError, match=r"parquet cannot hold these rows .*; write .jsonl"):
        write_rows(tmp_path / "b.parquet", [{"a": 1}, {"a": "x"}])
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.parquet"])
def test_nothing_is_left_when_the_rows_raise(tmp_path, name):
    def rows():
        yield {"a": 1}
        raise RuntimeError("stop")

    path = tmp_path / name
    path.write_text("before")
    with pytest.raises(RuntimeError, match="stop"):
        write_rows(path, rows())
    assert path.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_write_rows_refuses(tmp_path):
    with pytest.raises(ValueError, match=r"must end in .jsonl, .jsonl.gz or .parquet"):
        write_rows(tmp_path / "a.txt", [])
    with pytest.raises(TypeError, match="row 1 must be a mapping, got int"):
        write_rows(tmp_path / "a.jsonl", [1])


def test_a_killed_writer_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("before")
    code = "import itertools, sys; from stepgauge.data import write_rows; "
    code += "write_rows(sys.argv[1], ({'a': i} for i in itertools.count()))"
    child = subprocess.Popen([sys.executable, "-c", code, str(path)])
    deadline = time.monotonic() + 50
    while not any(p.name.endswith(".tmp") and p.stat().st_size > 0 for p in tmp_path.iterdir()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert path.read_text() == "before"
