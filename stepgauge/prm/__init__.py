"""Process reward models: every published family behind ``score(steps)``, read as its authors read it."""

from stepgauge.prm.calibration import Calibration, fit_calibration
from stepgauge.prm.checkpoint import MCPRM
from stepgauge.prm.conventions import CONVENTIONS, Convention
from stepgauge.prm.http import HttpPRM
from stepgauge.prm.implicit import ImplicitRewards, ImplicitValue, implicit_rewards, implicit_value
from stepgauge.prm.implicit_scorer import ImplicitPRM
from stepgauge.prm.monte_carlo import MonteCarloScorer

__all__ = [
    "CONVENTIONS",
    "MCPRM",
    "Calibration",
    "Convention",
    "HttpPRM",
    "ImplicitPRM",
    "ImplicitRewards",
    "ImplicitValue",
    "MonteCarloScorer",
    "fit_calibration",
    "implicit_rewards",
    "implicit_value",
]
