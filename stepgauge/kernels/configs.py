"""Tile shapes per GPU architecture: a plain table, no tuning at run time. tests/kernels compile every row of it."""

from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec

import torch


@cache
def triton_is_installed() -> bool:
    return find_spec("triton") is not None


def triton_runs_on(device: torch.device) -> bool:
    return device.type == "cuda" and triton_is_installed()
