"""Real rollouts that come with the package, so that everything runs without a download.

Word problems of reasoning-gym's ``gsm_symbolic`` generator, 8 solutions each at temperature 0.8:
``dev_0.5b`` (64 problems) by Qwen2.5-Coder-0.5B-Instruct, ``dev_1.5b`` (the first 24) by the 1.5B model.
"""

from __future__ import annotations

from pathlib import Path

from stepgauge.scoring import Rollout

__all__ = ["SAMPLES", "bundled", "sample_path"]

SAMPLES = ("dev_0.5b", "dev_1.5b")


def bundled(name: str = "dev_0.5b") -> list[Rollout]:
    """The bundled rollouts, in the order of their problems; ``meta["problem_id"]`` tells the problem.

    Raises:
        ValueError: an unknown name.

    Example:
        >>> rollouts = bundled("dev_1.5b")
        >>> len(rollouts), rollouts[0].id, rollouts[0].gold
        (192, 'rg000/0', '644')
    """
    from stepgauge.data.files import read_rollouts

    return list(read_rollouts(sample_path(name)))


def sample_path(name: str) -> Path:
    """The file of a bundled sample; raises ValueError for an unknown name."""
    if name not in SAMPLES:
        raise ValueError(f"there are no bundled rollouts {name!r}; known: {', '.join(SAMPLES)}")
    return Path(__file__).parent / "samples" / f"{name}.jsonl.gz"
