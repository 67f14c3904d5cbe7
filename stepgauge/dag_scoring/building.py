"""Reference derivations from solutions: formulas in order, each depending on the earlier ones it is made from."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stepgauge.dag_scoring.calculus import symbols
from stepgauge.dag_scoring.equivalence import equal_formulas
from stepgauge.dag_scoring.extraction import extract_formulas
from stepgauge.dag_scoring.graph import FormulaDag, FormulaNode
from stepgauge.dag_scoring.reading import Unreadable, read_formula
from stepgauge.dag_scoring.worlds import head_name
from stepgauge.verifiers.symbolic.nodes import Rel

__all__ = ["dag_from_solution", "shared_dag"]

Same = Callable[[str, str], bool]
MAX_NODES = 60


def _equal(a: str, b: str) -> bool:
    return equal_formulas(a, b).verdict == "equivalent"


def dag_from_solution(steps: Sequence[str], same: Same = _equal) -> FormulaDag:
    """A derivation from one correct solution.

    Its nodes are the equations that could be read, each class of equivalent ones once; the last is the final answer. A
    formula depends on the latest earlier formula that gives one of its names; one that gives a name already given
    depends on the earlier formula as well. Formulas that the final answer does not need are left out.

    Raises:
        ValueError: no equation could be read.

    Example:
        >>> dag_from_solution(["$$N = m g$$", "$$f = k N$$"]).edges
        (('n1', 'n2'),)
    """
    chosen: list[tuple[str, Rel]] = []
    for index, step in enumerate(steps):
        for formula in extract_formulas(step, index):
            try:
                tree = read_formula(formula.latex)
            except Unreadable:
                continue
            if not isinstance(tree, Rel) or set(tree.ops) != {"="} or len(chosen) >= MAX_NODES:
                continue
            if not any(symbols(tree) & symbols(other) and same(formula.latex, latex) for latex, other in chosen):
                chosen.append((formula.latex, tree))
    if not chosen:
        raise ValueError("steps hold no equation that can be read; write them in math delimiters, as $$F = m a$$")
    edges = []
    for k, (_, tree) in enumerate(chosen):
        for name in sorted(symbols(tree)):
            earlier = [j for j in range(k) if head_name(chosen[j][1]) == name]
            if earlier:
                edges.append((f"n{earlier[-1] + 1}", f"n{k + 1}"))
    last = f"n{len(chosen)}"
    nodes = tuple(FormulaNode(f"n{k + 1}", latex) for k, (latex, _) in enumerate(chosen))
    whole = FormulaDag(nodes, tuple(dict.fromkeys(edges)), (last,))
    return _restricted(whole, whole.closure({last}))


def shared_dag(solutions: Sequence[Sequence[str]], same: Same = _equal) -> FormulaDag:
    """The derivation that all of several correct solutions share: the first one's, with the formulas all state.

    Raises:
        ValueError: no solutions, or no formula in common.

    Example:
        >>> dag = shared_dag([["$$N = m g$$", "$$f = k N$$"], ["$$f = N k$$"]])
        >>> [node.latex for node in dag.nodes]
        ['f = k N']
    """
    if not solutions:
        raise ValueError("solutions is empty; give at least one correct solution")
    first = dag_from_solution(solutions[0], same)
    others = [[formula.latex for step in steps for formula in extract_formulas(step)] for steps in solutions[1:]]
    kept = {
        node.id for node in first.nodes if all(any(same(node.latex, latex) for latex in stated) for stated in others)
    }
    if not kept:
        raise ValueError("the solutions have no formula in common; check that they solve the same problem")
    return _restricted(first, kept)


def _restricted(dag: FormulaDag, kept: set[str]) -> FormulaDag:
    """The derivation on the kept nodes; a path through a dropped node becomes an edge."""
    parents = dag.parents()

    def before(name: str) -> set[str]:
        found: set[str] = set()
        for parent in parents[name]:
            found |= {parent} if parent in kept else before(parent)
        return found

    edges = tuple((start, name) for name in dag.order if name in kept for start in sorted(before(name)))
    nodes = tuple(node for node in dag.nodes if node.id in kept)
    has_child = {start for start, _ in edges}
    finals = tuple(name for name in dag.finals if name in kept) or tuple(
        node.id for node in nodes if node.id not in has_child
    )
    return FormulaDag(nodes, edges, finals, dag.constants, dag.context, dag.assumptions, dag.rtol)
