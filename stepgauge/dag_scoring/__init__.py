"""Derivations as graphs of formulas: read the formulas of a solution, match them to a reference, credit each step."""

from stepgauge.dag_scoring.equivalence import FormulaVerdict, equal_formulas
from stepgauge.dag_scoring.extraction import Formula, extract_formulas
from stepgauge.dag_scoring.graph import FormulaDag, FormulaNode
from stepgauge.dag_scoring.scorer import DagReport, DagScorer, grade

__all__ = [
    "DagReport",
    "DagScorer",
    "Formula",
    "FormulaDag",
    "FormulaNode",
    "FormulaVerdict",
    "equal_formulas",
    "extract_formulas",
    "grade",
]
