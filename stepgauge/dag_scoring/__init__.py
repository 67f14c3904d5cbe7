"""Derivations as graphs of formulas: read the formulas of a solution, match them to a reference, credit each step."""

from stepgauge.dag_scoring.equivalence import FormulaVerdict, equal_formulas

__all__ = ["FormulaVerdict", "equal_formulas"]
