"""The graph, its policies and the scorer, as laws."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepgauge import load
from stepgauge.dag_scoring import FormulaDag, FormulaNode, equal_formulas, extract_formulas, grade
from stepgauge.dag_scoring.building import dag_from_solution, shared_dag
from stepgauge.dag_scoring.picture import draw

NAMES = ("n1", "n2", "n3", "n4", "n5", "n6")


@st.composite
def dags(draw_from):
    pairs = [(a, b) for k, b in enumerate(NAMES) for a in NAMES[:k]]
    edges = draw_from(st.lists(st.sampled_from(pairs), unique=True))
    order = draw_from(st.permutations(NAMES))
    weights = draw_from(st.lists(st.integers(1, 5), min_size=6, max_size=6))
    nodes = tuple(FormulaNode(name, f"a_{name} = b", float(w)) for name, w in zip(order, weights, strict=True))
    starts = {a for a, _ in edges}
    return FormulaDag(nodes, tuple(edges), tuple(name for name in NAMES if name not in starts))


sets = st.sets(st.sampled_from(NAMES))


@given(dags(), sets, sets)
def test_closure_is_a_closure(dag, first, second):
    closed = dag.closure(first)
    assert first <= closed
    assert dag.closure(closed) == closed
    assert dag.closure(first | second) == closed | dag.closure(second)
    assert dag.share(closed) <= dag.share(dag.closure(first | second)) + 1e-12
    assert (dag.share(closed) > 1 - 1e-12) == (set(dag.finals) <= first)
    position = {name: k for k, name in enumerate(dag.order)}
    assert all(position[a] < position[b] for a, b in dag.edges)
    assert FormulaDag.from_json(json.loads(json.dumps(dag.to_json()))).to_json() == dag.to_json()


CHAIN = [r"N = m g \cos\theta", r"f = \mu N", r"m g\sin\theta - f = m a", r"a = g(\sin\theta - \mu\cos\theta)"]
STEPS = [f"So $${latex}$$" for latex in CHAIN]


def _dag(latex=CHAIN):
    nodes = tuple(FormulaNode(f"n{k + 1}", text) for k, text in enumerate(latex))
    return FormulaDag(nodes, (("n1", "n2"), ("n2", "n3"), ("n3", "n4")), ("n4",))


def test_renaming_changes_nothing():
    renamed = [text.replace("N", "R_n").replace("f", "F_r") for text in CHAIN]
    report = grade([f"$${text}$$" for text in renamed], _dag(renamed))
    assert (report.closure, report.supported) == (grade(STEPS, _dag()).closure, grade(STEPS, _dag()).supported)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 3), st.integers(2, 9))
def test_scaling_an_equation_changes_nothing(which, factor):
    left, right = CHAIN[which].split("=")
    steps = list(STEPS)
    steps[which] = f"$${factor}({left}) = {factor}({right})$$"
    report = grade(steps, _dag())
    assert (report.strict_score, report.supported_score, report.first_error) == (1.0, 1.0, -1)


def test_a_true_formula_off_the_graph_changes_nothing():
    report = grade(
        [STEPS[0], r"$$N^2 = m^2 g^2 \cos^2\theta + 0$$", r"$$\frac{f}{m} = \mu g\cos\theta$$", *STEPS[1:]], _dag()
    )
    assert (report.supported_score, report.first_error) == (1.0, -1)


def test_independent_steps_may_change_places():
    nodes = (FormulaNode("n1", "p = m v"), FormulaNode("n2", "F = k x"), FormulaNode("n3", "F p = k x m v"))
    dag = FormulaDag(nodes, (("n1", "n3"), ("n2", "n3")), ("n3",))
    texts = ["$$p = m v$$", "$$F = k x$$", "$$F p = k m v x$$"]
    assert grade(texts, dag).supported_score == grade([texts[1], texts[0], texts[2]], dag).supported_score == 1.0


@pytest.mark.parametrize("which", range(4))
@pytest.mark.parametrize("how", ["sign", "coefficient"])
def test_an_injected_error_is_located(which, how):
    left, right = CHAIN[which].split("=")
    steps = list(STEPS)
    steps[which] = f"$${left} = -({right})$$" if how == "sign" else f"$${left} = 3({right})$$"
    report = grade(steps, _dag())
    assert report.strict_score == 0.75
    assert report.supported_score < 1.0
    assert report.first_error == which


def test_hacks_earn_nothing():
    dag = _dag()
    assert grade([STEPS[3]], dag).closure_score == 1.0
    assert grade([STEPS[3]], dag).supported_score == 0.0
    assert grade(["$$m = m$$", "$$2g = g + g$$"], dag).closure_score == 0.0
    both = grade([*STEPS[:3], STEPS[3] + r" or $$a = g(\sin\theta + \mu\cos\theta)$$"], dag)
    assert both.supported_score < grade(STEPS, dag).supported_score
    assert grade([STEPS[0], STEPS[0], STEPS[0]], dag).supported_score == grade([STEPS[0]], dag).supported_score


def test_scorer():
    scores = load("dag").score([STEPS[0], "Only words.", *STEPS[1:], STEPS[3]], reference=_dag().to_json())
    assert (scores.values[1], scores.reasons[1]) == (None, "no_claim")
    assert scores.values[-1] == 0.0
    assert scores.aggregate() == pytest.approx(1.0)
    assert scores.details[0]["matched"] == ["n1"]
    assert load("dag").score(STEPS).reasons == ("no_reference",) * 4
    assert load("dag").score(["$$\\foo{x} = 1$$"], reference=_dag()).reasons == ("unparsed",)
    with pytest.raises(ValueError, match="credit must be"):
        load("dag", credit="all")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nodes": []}, "nodes is empty"),
        ({"final": ["n9"]}, "not nodes"),
        ({"nodes": [{"id": "a", "latex": "x = 1", "depends_on": ["a"]}], "final": ["a"]}, "cycle"),
        ({"nodes": [{"id": "a", "latex": "x = 1"}, {"id": "a", "latex": "y = 1"}], "final": ["a"]}, "repeated"),
        ({"nodes": [{"id": "a"}]}, "needs 'latex'"),
    ],
)
def test_invalid_derivations_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        FormulaDag.from_json({**_dag().to_json(), **change})


def test_prism_standard_as_list_and_as_string():
    rows = [
        {"index": 2, "formula": "$$f = \\mu N$$", "dependency": [1], "is_final_answer": True},
        {"index": 1, "formula": "$$N = m g$$", "dependency": []},
    ]
    dag = FormulaDag.from_json({"grading_standard": json.dumps(rows)})
    assert dag == FormulaDag.from_json(rows)
    assert (dag.order, dag.finals, dag.nodes[0].latex) == (("1", "2"), ("2",), "f = \\mu N")
    doubtful = FormulaDag((FormulaNode("a", "x = y"), FormulaNode("b", "2y = 2x")), (), ("b",)).problems()
    assert doubtful == ["a leads to no final answer", "a and b are the same formula"]


def test_picture_is_xml_with_each_node():
    report = grade(STEPS[:2], _dag())
    tree = ElementTree.fromstring(draw(_dag(), report))
    classes = [item.get("class") for item in tree.iter() if item.get("class")]
    assert classes == ["matched", "matched", "missing", "missing"]
    assert _dag()._repr_html_().startswith("<svg")


def test_building():
    dag = dag_from_solution([*STEPS, "$$E = h f$$"][:4])
    assert dag.nodes[-1].latex == CHAIN[3]
    assert dag.closure(dag.finals) == {node.id for node in dag.nodes}
    both = shared_dag([STEPS, STEPS[1:]])
    assert all(node.latex != CHAIN[0] for node in both.nodes)
    with pytest.raises(ValueError, match="no equation"):
        dag_from_solution(["words"])
    with pytest.raises(ValueError, match="in common"):
        shared_dag([STEPS, ["$$q = 1$$"]])


def test_extraction():
    text = (
        "We get\n\\begin{align}a &= b \\\\ &= 2c\\end{align} and \\[\\boxed{x = \\frac{y}{2}}\\tag{3}\\] with $t > 0$."
    )
    found = extract_formulas(text, 4)
    assert [item.latex for item in found] == ["a = b", "a = 2c", "x = \\frac{y}{2}", "t > 0"]
    assert all(item.step == 4 for item in found)
    assert text[slice(*found[0].span)].startswith("\\begin{align}")
    assert extract_formulas("no math, cost $5") == []


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="abtx0123=+-*/^_{}()[]|\\ '&.,<>$", max_size=40), st.sampled_from(["F = ma", "x = 1"]))
def test_any_text_gets_a_verdict(text, other):
    assert equal_formulas(text, other).verdict in (
        "equivalent",
        "implies",
        "implied",
        "different",
        "unparsed",
        "undecided",
    )


@pytest.mark.parametrize(
    "text", ["{" * 1500, "\\frac" * 300, "x^" * 900, "9^{9^{9^{9}}} = x", "x = " + "(" * 900, "=" * 99]
)
def test_hostile_text_is_bounded(text):
    verdict = equal_formulas(text, "x = 1")
    assert verdict.verdict in ("unparsed", "undecided", "different")
    assert verdict.ms < 2_000


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (
            r"\oint\vec{E}\cdot d\vec{A} = \frac{Q}{\varepsilon_0}",
            r"\varepsilon_0\oint\mathbf{E}\cdot d\mathbf{A} = Q",
            True,
        ),
        (r"\oint\vec{B}\cdot d\vec{l} = \mu_0 I", r"\oint\vec{B}\cdot d\vec{l} = -\mu_0 I", False),
        (r"\oint\vec{B}\cdot d\vec{l} = \mu_0 I", r"\oint\vec{E}\cdot d\vec{l} = \mu_0 I", False),
    ],
)
def test_contour_integrals_are_names(a, b, same):
    assert (equal_formulas(a, b).verdict == "equivalent") == same
