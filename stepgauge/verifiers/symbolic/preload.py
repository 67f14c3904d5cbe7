"""Imported by the fork server before any worker: sympy and its lazy imports, so that a worker is one fork away."""

from __future__ import annotations

from stepgauge.verifiers.symbolic.sympy_rung import warm_up

warm_up()
