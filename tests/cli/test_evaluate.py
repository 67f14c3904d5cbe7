from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from stepgauge.data import bundled, to_row
from tests.cli.test_cli import RUN, app, write
from tests.cli.test_cli import run as run_process

PROCESSBENCH = [
    {
        "id": "a",
        "problem": "p",
        "steps": ["1 + 1 = 2.", "2 + 2 = 5.", "So 5."],
        "final_answer_correct": False,
        "label": 1,
    },
    {"id": "b", "problem": "p", "steps": ["1 + 1 = 2.", "2 + 2 = 4."], "final_answer_correct": True, "label": -1},
    {"id": "c", "problem": "p", "steps": ["Think.", "Hence."], "final_answer_correct": True, "label": 0},
]


@pytest.fixture
def folder(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    write(data / "gsm8k.jsonl", PROCESSBENCH)
    write(data / "math.jsonl", [{**row, "id": f"math-{row['id']}"} for row in PROCESSBENCH])
    return data


COMMANDS = [["evaluate"], *(["evaluate", name] for name in ("processbench", "prmbench", "best-of-n"))]


def run(*arguments):
    """The command line in this process; what ``main`` turns into exit code 2 is code 2 here too."""
    result = RUN.invoke(app, [str(argument) for argument in arguments])
    if isinstance(result.exception, (ValueError, TypeError, OSError)):
        return SimpleNamespace(returncode=2, stdout=result.stdout, stderr=str(result.exception))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return SimpleNamespace(returncode=result.exit_code, stdout=result.stdout, stderr=result.stderr)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_teaches(command, flag):
    result = RUN.invoke(app, [*command, flag])
    assert result.exit_code == 0
    assert "Usage:" in result.output
    assert len(command) == 1 or f"stepgauge evaluate {command[1]}" in result.output


def test_processbench_table(folder, tmp_path):
    out = tmp_path / "scores.jsonl"
    result = run("evaluate", "processbench", folder, "--scorer", "arithmetic", "--out", out)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[1].split() == ["protocol", "gsm8k", "math", "mean"]
    assert lines[2].split() == ["0.5", "F1", "66.7", "66.7", "66.7"]
    table = {line.split("  ")[0].strip(): line.split()[-2:] for line in lines}
    assert table["abstained, %"] == ["33.3", "33.3"]
    assert table["solutions"] == ["3", "3"]
    assert "Qwen2.5-Math-PRM-7B" in result.stdout
    assert "arXiv 2501.07301v2" in result.stdout
    again = run("evaluate", "processbench", folder, "--scores", out)
    assert again.stdout.splitlines()[1:] == lines[1:]
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert rows[0]["predicted"] == {"0.5": 1, "tuned-on-gsm8k": 1, "oracle": 1}
    assert (rows[0]["split"], rows[0]["label"], rows[2]["status"]) == ("gsm8k", 1, "abstain")


def test_scores_of_the_score_command_are_taken(folder, tmp_path):
    saved = tmp_path / "scores.jsonl"
    assert run("score", folder / "gsm8k.jsonl", "--scorer", "arithmetic", "--out", saved).returncode == 0
    result = run("evaluate", "processbench", folder, "--scores", saved, "--json", "--protocol", "0.5")
    report = json.loads(result.stdout)
    assert [s["split"] for s in report["splits"]] == ["gsm8k"]
    assert report["mean_f1"] == {"0.5": pytest.approx(2 / 3)}
    assert "3 of 6 solutions have no saved scores" in result.stderr


def test_json_svg_and_limit(folder, tmp_path):
    svg = tmp_path / "plot.svg"
    result = run("evaluate", "processbench", folder, "--scorer", "random", "--json", "--svg", svg, "--limit", 2)
    report = json.loads(result.stdout)
    assert [s["solutions"] for s in report["splits"]] == [2, 2]
    assert svg.read_text(encoding="utf-8").startswith("<svg")
    assert report["scorer"] == "random"


def test_the_limit_is_a_choice_from_the_whole_file(folder):
    """The files of the benchmark are sorted by label: their first rows are no sample."""
    wrong, right = PROCESSBENCH[0], PROCESSBENCH[1]
    rows = [{**(wrong if i < 50 else right), "id": str(i)} for i in range(100)]
    write(folder / "gsm8k.jsonl", rows)
    arguments = ("evaluate", "processbench", folder / "gsm8k.jsonl", "--scorer", "random", "--limit", 40, "--json")
    report = json.loads(run(*arguments).stdout)
    assert 10 <= report["splits"][0]["wrong"] <= 30
    assert json.loads(run(*arguments).stdout) == report


def test_bad_rows_are_counted_and_skipped(folder):
    write(folder / "math.jsonl", [*PROCESSBENCH, "{broken\n", {**PROCESSBENCH[0], "label": 9}])
    result = run("evaluate", "processbench", folder, "--scorer", "arithmetic")
    assert result.returncode == 0
    assert f"skipped {folder / 'math.jsonl'}:4: broken JSON" in result.stderr
    assert "math.jsonl:5: label must be -1 (no error) or a step 0..2, got 9" in result.stderr
    assert "2 of 8 rows were skipped" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--scorer", "random", "--scores", "x"], "either --scorer NAME or --scores FILE"),
        ([], "either --scorer NAME or --scores FILE"),
        (["--scorer", "random", "--protocol", "best"], "--protocol must be of"),
        (["--scores", "missing.jsonl"], "no file 'missing.jsonl'"),
        (["--scorer", "math", "--svg", "x.svg"], "--svg needs probabilities"),
    ],
)
def test_wrong_usage(folder, arguments, message, tmp_path):
    result = run("evaluate", "processbench", folder, *arguments)
    assert result.returncode == 2
    assert message in result.stderr


def test_the_process_itself(folder):
    result = run_process("evaluate", "processbench", folder, "--scorer", "random", "--protocol", "best")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error: --protocol must be of 0.5, tuned-on-gsm8k, oracle")


def test_where_nothing_fits_it_fails(folder, tmp_path):
    saved = write(tmp_path / "scores.jsonl", [{"id": "other", "values": [1.0]}])
    result = run("evaluate", "processbench", folder, "--scores", saved)
    assert result.returncode == 1
    assert "no solution has scores" in result.stderr
    (tmp_path / "empty").mkdir()
    assert run("evaluate", "processbench", tmp_path / "empty", "-s", "random").returncode == 2


def test_prmbench(tmp_path):
    row = {"modified_question": "p", "error_steps": [2], "classification": "counterfactual", "idx": "x"}
    row["modified_process"] = ["1 + 1 = 2.", "2 + 2 = 5.", "So."]
    rows = [row, {**row, "classification": "circular"}, row, {**row, "classification": "odd"}]
    path, out = write(tmp_path / "rows.jsonl", rows), tmp_path / "scores.jsonl"
    result = run("evaluate", "prmbench", path, "--scorer", "arithmetic", "--json", "--out", out)
    report = json.loads(result.stdout)
    overall = report["rows"][0]
    assert (overall["solutions"], overall["steps"], overall["wrong_steps"], overall["score"]) == (2, 6, 2, 1.0)
    assert "unknown class 'odd'" in result.stderr
    again = json.loads(run("evaluate", "prmbench", path, "--scores", out, "--json").stdout)
    assert again["rows"] == report["rows"]
    assert "PRMScore" in run("evaluate", "prmbench", path, "--scores", out, "--threshold", "oracle").stdout
    assert run("evaluate", "prmbench", path, "--scores", out, "--threshold", "best").returncode == 2


def test_best_of_n_from_rollouts_and_from_saved_picks(tmp_path):
    rollouts = write(tmp_path / "rollouts.jsonl", [to_row(r) for r in bundled("dev_1.5b")[:64]])
    picks, out = tmp_path / "picks.jsonl", tmp_path / "curves.jsonl"
    assert run("rerank", rollouts, "--scorer", "embedded", "--out", picks).returncode == 0
    fresh = run("evaluate", "best-of-n", rollouts, "--scorer", "embedded", "--json", "--out", out)
    saved = run("evaluate", "best-of-n", picks, "--json")
    assert json.loads(fresh.stdout) == json.loads(saved.stdout)
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert {row["n"] for row in rows} == {1, 2, 4, 8}
    table = run("evaluate", "best-of-n", picks, "--ns", "1,8").stdout
    assert "n=8" in table
    assert run("evaluate", "best-of-n", picks, "--ns", "1,x").returncode == 2
    assert run("evaluate", "best-of-n", rollouts).returncode == 1  # rollouts are no picks: every row is reported


def test_the_real_benchmarks(shared):
    report = json.loads(
        run("evaluate", "processbench", shared / "data" / "processbench", "-s", "random", "--json").stdout
    )
    counts = [(s["split"], s["solutions"], s["wrong"], s["right_answer_wrong_process"]) for s in report["splits"]]
    assert counts == [
        ("gsm8k", 400, 207, 7),
        ("math", 1000, 594, 94),
        ("olympiadbench", 1000, 661, 161),
        ("omnimath", 1000, 759, 259),
    ]
    assert 0.03 < report["mean_f1"]["0.5"] < 0.08  # what a uniform score a step gets at 0.5
    overall = json.loads(run("evaluate", "prmbench", shared / "data" / "prmbench", "-s", "random", "--json").stdout)[
        "rows"
    ][0]
    assert (overall["solutions"], overall["steps"]) == (6211, 83371)  # 6,216 rows, 5 of them twice
