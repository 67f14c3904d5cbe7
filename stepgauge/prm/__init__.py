"""Process reward models: every published family behind ``score(steps)``, read as its authors read it."""

from stepgauge.prm.calibration import Calibration, fit_calibration
from stepgauge.prm.checkpoint import MCPRM
from stepgauge.prm.conventions import CONVENTIONS, Convention

__all__ = ["CONVENTIONS", "MCPRM", "Calibration", "Convention", "fit_calibration"]
