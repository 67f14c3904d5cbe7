"""``dag``: the steps of a derivation credited against a reference derivation.

Three numbers. *Closure*: matched formulas and all they follow from, over all formulas (the ancestor-closure policy of
PRISM-Physics). *Strict*: matched formulas alone. *Supported*: matched formulas that the candidate has led up to.

References: Zhao et al. 2026, "PRISM-Physics" (ICLR 2026), the ancestor-closure policy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from stepgauge.dag_scoring.calculus import symbols
from stepgauge.dag_scoring.extraction import extract_formulas
from stepgauge.dag_scoring.graph import FormulaDag
from stepgauge.dag_scoring.reading import Unreadable, read_formula
from stepgauge.dag_scoring.worlds import Reference, head_name, reference_of
from stepgauge.scoring import Kind, Progress, Reason, Rollout, Scorer, StepScores, score_each
from stepgauge.verifiers.symbolic.nodes import Node, Rel

__all__ = ["Assertion", "DagReport", "DagScorer", "grade"]

Credit = Literal["supported", "closure", "strict"]
GAP = 0.5
MAX_STEPS = 1_000
MAX_ASSERTIONS = 300


@dataclass(frozen=True, slots=True)
class Assertion:
    """One formula of a candidate: its step, the nodes it matches, and whether it holds where the reference holds."""

    latex: str
    step: int
    tree: Node | None
    nodes: tuple[str, ...] = ()
    true: bool | None = None
    undecided: bool = False


@dataclass(frozen=True, slots=True)
class DagReport:
    """What a candidate won: the three scores after each step, and what they rest on."""

    closure: tuple[float, ...]
    strict: tuple[float, ...]
    supported: tuple[float, ...]
    matched: tuple[str, ...]
    credited: tuple[str, ...]
    contradicted: tuple[str, ...]
    first_error: int
    assertions: tuple[Assertion, ...] = field(repr=False)
    matched_at: Mapping[str, int] = field(default_factory=dict)

    @property
    def closure_score(self) -> float:
        """Closure after the last step."""
        return self.closure[-1] if self.closure else 0.0

    @property
    def strict_score(self) -> float:
        """Strict coverage after the last step."""
        return self.strict[-1] if self.strict else 0.0

    @property
    def supported_score(self) -> float:
        """Supported coverage after the last step."""
        return self.supported[-1] if self.supported else 0.0


def grade(steps: Sequence[str], dag: FormulaDag) -> DagReport:
    """Match the formulas of a candidate's steps to a reference derivation.

    Example:
        >>> from stepgauge.dag_scoring.graph import FormulaNode
        >>> dag = FormulaDag((FormulaNode("n1", "f = m g"), FormulaNode("n2", "W = m g h")), (("n1", "n2"),), ("n2",))
        >>> grade(["$$W = g h m$$"], dag).closure_score
        1.0
    """
    formulas = [formula for index, step in enumerate(steps[:MAX_STEPS]) for formula in extract_formulas(step, index)]
    with np.errstate(all="ignore"):
        reference = reference_of(dag)
        assertions = [_judge(formula.latex, formula.step, reference) for formula in formulas[:MAX_ASSERTIONS]]
    matched_at: dict[str, int] = {}
    for item in assertions:
        for node in item.nodes:
            matched_at.setdefault(node, item.step)
    errors = [item.step for item in assertions if item.true is False]
    contradicted = _contradicted(assertions, reference)
    closure, strict, supported = [], [], []
    credits: dict[str, float] = {}
    for index in range(len(steps)):
        seen = [name for name, step in matched_at.items() if step <= index]
        closure.append(dag.share(dag.closure(seen)))
        strict.append(dag.share(seen))
        credits, value = _supported([item for item in assertions if item.step <= index], reference)
        supported.append(value)
    first = min(errors, default=-1)
    return DagReport(
        tuple(closure),
        tuple(strict),
        tuple(supported),
        tuple(name for name in dag.order if name in matched_at),
        tuple(name for name in dag.order if credits.get(name, 0.0) > 0),
        tuple(name for name in dag.order if name in contradicted),
        first,
        tuple(assertions),
        matched_at,
    )


def _judge(latex: str, step: int, reference: Reference) -> Assertion:
    try:
        tree = read_formula(latex)
    except Unreadable:
        return Assertion(latex, step, None)
    true = reference.truth(tree)
    if true is False and reference.dag.rtol is None:
        return Assertion(latex, step, tree, (), False)
    nodes, undecided = [], False
    for node in reference.dag.nodes:
        if reference.may_match(tree, node.id):
            verdict = reference.matches(tree, node.id).verdict
            undecided = undecided or verdict == "undecided"
            if verdict == "equivalent":
                nodes.append(node.id)
    return Assertion(latex, step, tree, tuple(nodes), True if nodes else true, undecided and not nodes)


def _contradicted(assertions: Sequence[Assertion], reference: Reference) -> set[str]:
    """Unmatched nodes about a name of which the candidate asserts something false."""
    matched = {node for item in assertions for node in item.nodes}
    wrong = [item.tree for item in assertions if item.true is False and item.tree is not None]
    found: set[str] = set()
    for tree in wrong:
        names = symbols(tree)
        for node in reference.dag.nodes:
            if node.id in matched:
                continue
            for other in reference.trees[node.id]:
                head = head_name(other)
                if (head is not None and head == head_name(tree)) or symbols(other) == names:
                    found.add(node.id)
    return found


def _supported(assertions: Sequence[Assertion], reference: Reference) -> tuple[dict[str, float], float]:
    """Credit of each node, and their weighted sum times the share of formulas that are not false."""
    dag, parents = reference.dag, reference.dag.parents()
    contradicted = _contradicted(assertions, reference)
    assigned: dict[str, Assertion] = {}
    for item in assertions:  # one formula credits one node, the first that is still free
        free = next((node for node in item.nodes if node not in assigned), None)
        if free is not None:
            assigned[free] = item
    wrong = [item for item in assertions if item.true is False and item.tree is not None]
    # two values for one name in one step cancel
    for name, item in list(assigned.items()):
        head = head_name(item.tree) if item.tree is not None else None
        if head is not None and any(
            head_name(other.tree) == head and other.step == item.step for other in wrong if other.tree
        ):
            del assigned[name]
    credit: dict[str, float] = {}
    for name in dag.order:
        own = assigned.get(name)
        if own is None:
            continue
        again = [item for item in assertions if name in item.nodes]
        if all(
            credit.get(before) == 1.0 and before in assigned and assigned[before].step <= own.step
            for before in parents[name]
        ):
            credit[name] = 1.0
            continue
        if any(_led_up_to(item, assertions) for item in again):
            credit[name] = max(GAP, credit.get(name, 0.0))
            _credit_gap(name, GAP, parents, assigned, contradicted, credit)
    total = sum(node.weight for node in dag.nodes)
    value = sum(node.weight * credit.get(node.id, 0.0) for node in dag.nodes) / total
    distinct = {item.tree for item in assertions if item.true is not None and item.tree is not None}
    false = {item.tree for item in wrong}
    precision = 1.0 - len(false) / len(distinct) if distinct else 1.0
    return credit, value * precision


def _led_up_to(own: Assertion, assertions: Sequence[Assertion]) -> bool:
    """Whether an earlier step states something true about the same names that is not the same formula again."""
    assert own.tree is not None
    names = symbols(own.tree)
    for item in assertions:
        if item.step >= own.step or item.true is not True or item.tree is None:
            continue
        others = symbols(item.tree)
        if others & names and others != names and not _restates(item, own):
            return True
    return False


def _restates(item: Assertion, own: Assertion) -> bool:
    return isinstance(item.tree, Rel) and isinstance(own.tree, Rel) and item.tree.terms == own.tree.terms[::-1]


def _credit_gap(
    name: str,
    value: float,
    parents: Mapping[str, tuple[str, ...]],
    assigned: Mapping[str, Assertion],
    contradicted: set[str],
    credit: dict[str, float],
) -> None:
    """Skipped ancestors earn GAP a generation; the way stops at what the candidate contradicts."""
    for before in parents[name]:
        if before in contradicted:
            continue
        earned = GAP * value if before not in assigned else GAP
        if credit.get(before, 0.0) < earned:
            credit[before] = earned
            _credit_gap(before, earned, parents, assigned, contradicted, credit)


class DagScorer(Scorer):
    """Each step earns what it adds to the candidate's share of the reference derivation.

    Args:
        credit: "supported" (matched and led up to; the default), "closure" (matched or an ancestor of a match) or
            "strict" (matched).

    ``Rollout.reference`` is a ``FormulaDag`` or its JSON. ``values`` add up to the chosen score; a step without a
    formula is None. All three scores stand in ``summary``, the matched nodes of each step in ``details``.
    """

    name = "dag"
    kind: Kind = "credit"

    def __init__(self, credit: Credit = "supported") -> None:
        if credit not in ("supported", "closure", "strict"):
            raise ValueError(f"credit must be 'supported', 'closure' or 'strict', got {credit!r}")
        self.credit = credit

    @property
    def fingerprint(self) -> str:
        """Name, version of the method and credit."""
        return f"dag/1/{self.credit}"

    def score_batch(
        self, rollouts: Sequence[Rollout], *, deadline_s: float | None = None, progress: Progress | None = None
    ) -> list[StepScores]:
        """Credits of each rollout's steps; a rollout without a reference abstains."""
        return score_each(self._score, rollouts, kind=self.kind, deadline_s=deadline_s, progress=progress)

    def _score(self, rollout: Rollout) -> StepScores:
        count = len(rollout.steps)
        if rollout.reference is None or not (
            isinstance(rollout.reference, FormulaDag | str) or _looks_like_dag(rollout.reference)
        ):
            return StepScores.abstain(count, self.kind, "no_reference")
        reference = rollout.reference
        dag = reference if isinstance(reference, FormulaDag) else FormulaDag.from_json(reference)  # type: ignore[arg-type]
        report = grade(rollout.steps, dag)
        totals = {"supported": report.supported, "closure": report.closure, "strict": report.strict}[self.credit]
        values: list[float | None] = []
        reasons: list[Reason | None] = []
        details: list[Mapping[str, Any]] = []
        carried = 0.0
        for index in range(count):
            own = [item for item in report.assertions if item.step == index]
            gained = totals[index] - (totals[index - 1] if index else 0.0)
            carried += gained
            if not own:
                values.append(None)
                reasons.append("no_claim")
            elif all(item.tree is None for item in own):
                values.append(None)
                reasons.append("unparsed")
            else:
                values.append(carried)
                reasons.append(None)
                carried = 0.0
            details.append({
                "matched": [name for name, step in report.matched_at.items() if step == index],
                "formulas": [
                    {"latex": item.latex, "nodes": list(item.nodes), "true": item.true, "read": item.tree is not None}
                    for item in own
                ],
            })  # fmt: skip
        if all(value is None for value in values):
            reason: Reason = "unparsed" if "unparsed" in reasons else "no_claim"
            return StepScores.abstain(count, self.kind, reason)
        return StepScores(
            tuple(values),
            self.kind,
            reasons=tuple(reasons),
            error_step=report.first_error,
            summary={
                "closure": report.closure_score,
                "strict": report.strict_score,
                "supported": report.supported_score,
                "contradicted": list(report.contradicted),
                "undecided": sum(item.undecided or item.tree is None for item in report.assertions),
            },
            details=tuple(details),
        )


def _looks_like_dag(reference: object) -> bool:
    if isinstance(reference, Mapping):
        return "nodes" in reference or "grading_standard" in reference
    return (
        isinstance(reference, list | tuple)
        and bool(reference)
        and isinstance(reference[0], Mapping)
        and "formula" in reference[0]
    )
