"""``load("…")`` for process reward models: a discriminative checkpoint or an implicit one, by its published name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from stepgauge.prm.checkpoint import MCPRM
from stepgauge.prm.implicit_scorer import ImplicitPRM
from stepgauge.scoring import Scorer

__all__ = ["load_prm"]

EURUS = {"reference": "Qwen/Qwen2.5-Math-7B-Instruct", "beta": 0.001, "mode": "cumulative", "numbered": True}
LLAMA = {"reference": "meta-llama/Llama-3.1-8B-Instruct", "beta": 0.05}
IMPLICIT: tuple[tuple[str, Mapping[str, Any]], ...] = ((r"eurusprm", EURUS), (r"implicitprm_", LLAMA))


def load_prm(model: str, **options: Any) -> Scorer:
    """``MCPRM``, or ``ImplicitPRM`` with its authors' reference, scale and mode for the published implicit ones.

    Example:
        >>> load_prm("PRIME-RL/EurusPRM-Stage2").reference
        'Qwen/Qwen2.5-Math-7B-Instruct'
    """
    for pattern, defaults in IMPLICIT:
        if re.search(pattern, model.lower()):
            return ImplicitPRM(model, **{**defaults, **options})
    return MCPRM(model, **options)
