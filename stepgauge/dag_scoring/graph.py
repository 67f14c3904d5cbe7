"""``FormulaDag``: a reference derivation, its formulas and what each follows from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import networkx as nx

from stepgauge.dag_scoring.equivalence import equal_formulas

__all__ = ["FormulaDag", "FormulaNode"]


@dataclass(frozen=True, slots=True)
class FormulaNode:
    """One formula of a derivation; any of ``alternatives`` matches it too."""

    id: str
    latex: str
    weight: float = 1.0
    alternatives: tuple[str, ...] = ()


@dataclass(frozen=True)
class FormulaDag:
    """A reference derivation.

    Args:
        nodes: the formulas.
        edges: (from, to): ``to`` follows from ``from``.
        finals: ids of the final answers.
        constants: name -> value that the problem gives.
        context: relations that the problem gives.
        assumptions: name -> "real", "angle", "integer"; other names are positive.
        rtol: relative tolerance of numbers, None = exact.

    Raises:
        ValueError: no nodes, a repeated id, an edge or final that names no node, a cycle, a weight not above 0.

    Example:
        >>> dag = FormulaDag((FormulaNode("n1", "f = m g"), FormulaNode("n2", "a = g")), (("n1", "n2"),), ("n2",))
        >>> sorted(dag.closure({"n2"}))
        ['n1', 'n2']
    """

    nodes: tuple[FormulaNode, ...]
    edges: tuple[tuple[str, str], ...]
    finals: tuple[str, ...]
    constants: Mapping[str, Any] = field(default_factory=dict)
    context: tuple[str, ...] = ()
    assumptions: Mapping[str, str] = field(default_factory=dict)
    rtol: float | None = None

    def __post_init__(self) -> None:
        ids = [node.id for node in self.nodes]
        if not ids:
            raise ValueError("FormulaDag.nodes is empty; a derivation has at least one formula")
        repeated = sorted({name for name in ids if ids.count(name) > 1})
        if repeated:
            raise ValueError(f"FormulaDag.nodes has repeated ids {repeated}; give each formula its own")
        unknown = sorted({name for pair in (*self.edges, self.finals) for name in pair if name not in ids})
        if unknown:
            raise ValueError(f"FormulaDag.edges or finals name {unknown}, which are not nodes; the nodes are {ids}")
        if not self.finals:
            raise ValueError("FormulaDag.finals is empty; name at least one final answer")
        for node in self.nodes:
            if not node.weight > 0:
                raise ValueError(f"FormulaDag node {node.id!r} has weight {node.weight!r}; weights are positive")
        if not nx.is_directed_acyclic_graph(self.graph):
            cycle = " -> ".join(edge[0] for edge in nx.find_cycle(self.graph))
            raise ValueError(f"FormulaDag.edges has a cycle: {cycle}; a formula cannot follow from itself")

    @property
    def graph(self) -> nx.DiGraph[str]:
        """The graph in networkx, ids as nodes."""
        graph: nx.DiGraph[str] = nx.DiGraph()
        graph.add_nodes_from(node.id for node in self.nodes)
        graph.add_edges_from(self.edges)
        return graph

    @property
    def order(self) -> tuple[str, ...]:
        """Ids in a topological order."""
        return tuple(nx.lexicographical_topological_sort(self.graph))

    def parents(self) -> dict[str, tuple[str, ...]]:
        """Id -> the ids it follows from directly."""
        found: dict[str, list[str]] = {node.id: [] for node in self.nodes}
        for start, end in self.edges:
            found[end].append(start)
        return {name: tuple(dict.fromkeys(before)) for name, before in found.items()}

    def closure(self, matched: Iterable[str]) -> set[str]:
        """``matched`` and all that it follows from."""
        parents = self.parents()
        pending, done = list(matched), set()
        while pending:
            name = pending.pop()
            if name not in done:
                done.add(name)
                pending.extend(parents[name])
        return done

    def share(self, credited: Iterable[str]) -> float:
        """Weight of the nodes in ``credited`` over the weight of all."""
        chosen = set(credited)
        return sum(node.weight for node in self.nodes if node.id in chosen) / sum(node.weight for node in self.nodes)

    def problems(self) -> list[str]:
        """What is doubtful: formulas that lead to no final answer, and pairs of formulas that say the same."""
        reached = self.closure(self.finals)
        found = [f"{node.id} leads to no final answer" for node in self.nodes if node.id not in reached]
        for k, node in enumerate(self.nodes):
            for other in self.nodes[:k]:
                if self.same(node.latex, other.latex):
                    found.append(f"{other.id} and {node.id} are the same formula")
        return found

    def same(self, a: str, b: str) -> bool:
        """Whether two formulas are equivalent under what the problem gives."""
        verdict = equal_formulas(a, b, self.constants, self.context, self.assumptions, self.rtol).verdict
        return verdict == "equivalent"

    def _repr_html_(self) -> str:
        from stepgauge.dag_scoring.picture import draw

        return draw(self)

    def to_json(self) -> dict[str, Any]:
        """Plain data that ``from_json`` reads."""
        parents = self.parents()
        return {
            "nodes": [
                {
                    "id": node.id,
                    "latex": node.latex,
                    "depends_on": list(parents[node.id]),
                    "weight": node.weight,
                    "alternatives": list(node.alternatives),
                }
                for node in self.nodes
            ],
            "final": list(self.finals),
            "constants": dict(self.constants),
            "context": list(self.context),
            "assumptions": dict(self.assumptions),
            "rtol": self.rtol,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | Sequence[Any] | str) -> FormulaDag:
        """Read our JSON, or a PRISM ``grading_standard`` (a list, or the same as a string), or an item that holds one.

        Raises:
            ValueError: neither form, or an invalid derivation.
        """
        if isinstance(data, str):
            data = json.loads(data)
        if isinstance(data, Mapping) and "grading_standard" in data:
            return cls.from_json(data["grading_standard"])
        if isinstance(data, Mapping):
            return cls._from_rows(data.get("nodes", []), data)
        return cls._from_prism(list(data))

    @classmethod
    def _from_prism(cls, data: list[Any]) -> FormulaDag:
        for row in data:
            if not isinstance(row, Mapping) or "formula" not in row or "index" not in row:
                raise ValueError(
                    "a derivation is an object with 'nodes' and 'final', or a list of {index, formula, dependency}; "
                    f"got the row {row!r:.80}"
                )
        rows = [
            {
                "id": str(row["index"]),
                "latex": str(row["formula"]).strip().strip("$").strip(),
                "depends_on": [str(name) for name in row.get("dependency") or []],
                "weight": row.get("weight", 1.0),
            }
            for row in data
        ]
        return cls._from_rows(rows, {"final": [str(row["index"]) for row in data if row.get("is_final_answer")]})

    @classmethod
    def _from_rows(cls, rows: Sequence[Mapping[str, Any]], data: Mapping[str, Any]) -> FormulaDag:
        nodes, edges = [], []
        for row in rows:
            for key in ("id", "latex"):
                if key not in row:
                    raise ValueError(f"a node of a derivation needs {key!r}, got the keys {sorted(row)}")
            name = str(row["id"])
            nodes.append(FormulaNode(name, row["latex"], row.get("weight", 1.0), tuple(row.get("alternatives", ()))))
            edges += [(str(before), name) for before in row.get("depends_on", ())]
        finals = tuple(map(str, data.get("final") or ([nodes[-1].id] if nodes else [])))
        return cls(
            tuple(nodes),
            tuple(edges),
            finals,
            dict(data.get("constants") or {}),
            tuple(data.get("context") or ()),
            dict(data.get("assumptions") or {}),
            data.get("rtol"),
        )
