"""Step labels from completions: strategies, the journal of what was drawn, judges and their consensus."""

from stepgauge.prm.labelling.adaptive import adaptive, first_error_posterior
from stepgauge.prm.labelling.consensus import ConsensusFilter, consensus_filter
from stepgauge.prm.labelling.counts import Counts, SolutionLabels, step_labels
from stepgauge.prm.labelling.journal import Journal
from stepgauge.prm.labelling.judging import Critique, Judgement, judge_solution
from stepgauge.prm.labelling.omegaprm import (
    Priority,
    SearchedPrefix,
    math_aps_row,
    omegaprm_priority,
    omegaprm_search,
)
from stepgauge.prm.labelling.running import STRATEGIES, Progress, label_solutions
from stepgauge.prm.labelling.strategies import binary, uniform
from stepgauge.prm.labelling.tree_search import StepValue, rstar_q

__all__ = [
    "STRATEGIES",
    "ConsensusFilter",
    "Counts",
    "Critique",
    "Journal",
    "Judgement",
    "Priority",
    "Progress",
    "SearchedPrefix",
    "SolutionLabels",
    "StepValue",
    "adaptive",
    "binary",
    "consensus_filter",
    "first_error_posterior",
    "judge_solution",
    "label_solutions",
    "math_aps_row",
    "omegaprm_priority",
    "omegaprm_search",
    "rstar_q",
    "step_labels",
    "uniform",
]
