"""The pairs and derivations written by hand, some with the project's cases and some beside them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepgauge import load
from stepgauge.dag_scoring import FormulaDag, equal_formulas, grade

CASES = Path(__file__).parent.parent / "cases"


def _rows(name):
    return [json.loads(line) for line in (CASES / name).read_text(encoding="utf-8").splitlines()]


PAIRS = [row for name in ("formula_pairs.jsonl", "own_formula_pairs.jsonl") for row in _rows(name)]
CANDIDATES = [(case, candidate) for case in _rows("dag_cases.jsonl") for candidate in case["candidates"]]


@pytest.mark.parametrize("row", [row for row in PAIRS if not row["policy"]], ids=lambda row: row["id"])
def test_pair(row):
    got = equal_formulas(row["a"], row["b"], row["constants"], row["context"], row["assumptions"], row["rtol"])
    assert got.verdict not in ("undecided", "unparsed"), got.reason
    assert (got.verdict == "equivalent") == row["equivalent"], got


def test_no_policy_pair_is_a_false_positive():
    rows = [row for row in PAIRS if row["policy"] and not row["equivalent"]]
    assert rows
    for row in rows:
        got = equal_formulas(row["a"], row["b"], row["constants"], row["context"], row["assumptions"], row["rtol"])
        assert got.verdict != "equivalent", row["id"]


@pytest.mark.parametrize(("case", "candidate"), CANDIDATES, ids=[f"{a['id']}-{b['kind']}" for a, b in CANDIDATES])
def test_candidate(case, candidate):
    dag = FormulaDag.from_json(case)
    steps = [step["text"] for step in candidate["steps"]]
    report = grade(steps, dag)
    assert sorted(report.matched) == sorted(candidate["expected_matched"])
    assert report.closure_score == pytest.approx(candidate["expected_score"], abs=1e-5)
    assert report.strict_score == pytest.approx(candidate["strict_match_score"], abs=1e-5)
    assert report.first_error == candidate["first_error_step"]
    kind = candidate["kind"]
    if kind == "perfect_rearranged":
        assert report.supported_score == 1.0
    if kind.startswith("hack_"):
        assert report.supported_score <= 0.2
    if kind == "first_error":
        assert report.supported_score < 1.0
    for credit, total in (("closure", report.closure_score), ("supported", report.supported_score)):
        scores = load("dag", credit=credit).score(steps, reference=dag)
        assert scores.aggregate() == pytest.approx(total)
        assert len(scores.values) == len(steps)


def test_shown_work_beats_hacks():
    kinds = {}
    for case, candidate in CANDIDATES:
        report = grade([step["text"] for step in candidate["steps"]], FormulaDag.from_json(case))
        kinds.setdefault(candidate["kind"], []).append(report.supported_score)
    mean = {kind: sum(values) / len(values) for kind, values in kinds.items()}
    hacks = max(value for kind, value in mean.items() if kind.startswith("hack_"))
    assert mean["skipped_steps_final_right"] >= hacks + 0.2
