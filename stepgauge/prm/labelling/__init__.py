"""Step labels from rollouts and judges: which prefix to roll out next, which labelled rows to keep."""

from stepgauge.prm.labelling.consensus import Consensus, consensus_filter
from stepgauge.prm.labelling.tree_search import TreeValue, omegaprm_priority, rstar_q

__all__ = ["Consensus", "TreeValue", "consensus_filter", "omegaprm_priority", "rstar_q"]
