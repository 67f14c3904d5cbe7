"""stepgauge: score every step of a reasoning trace, whatever the evidence is, by one call: ``score(steps)``."""

__version__ = "0.1.0"
