"""Tile shapes per GPU architecture: a plain table, no tuning at run time. The tests compile every row of it."""

from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec

import torch

SPLIT = 1024  # columns of one program's slice of the vocabulary: fixed, so a row's sums depend on V alone
PANEL = 8192  # columns whose gradient exists at once in the backward pass


@dataclass(frozen=True, slots=True)
class Config:
    """One row of the table; sizes are for 16-bit operands."""

    rows: int  # of a program's tile
    columns: int
    depth: int  # of one step along H
    warps: int
    stages: int
    tma: bool  # tiles copied by the hardware through tensor descriptors
    precision: str  # of the products of fp32 operands

    def options(self) -> dict[str, int]:
        return {"num_warps": self.warps, "num_stages": self.stages}


TABLE: dict[tuple[str, str], Config] = {
    ("sm_80", "head"): Config(128, 128, 64, 8, 4, False, "tf32x3"),
    ("sm_80", "top"): Config(128, 64, 64, 8, 4, False, "tf32x3"),
    ("sm_80", "gradient"): Config(128, 128, 64, 8, 4, False, "tf32x3"),
    ("sm_80", "pair"): Config(64, 64, 64, 4, 3, False, "tf32x3"),
    ("sm_80", "pair_gradient"): Config(64, 64, 64, 4, 3, False, "tf32x3"),
    ("sm_90", "head"): Config(128, 128, 64, 8, 4, True, "tf32x3"),
    ("sm_90", "top"): Config(128, 64, 64, 8, 4, True, "tf32x3"),
    ("sm_90", "gradient"): Config(128, 128, 64, 8, 4, True, "tf32x3"),
    ("sm_90", "pair"): Config(128, 64, 64, 8, 4, True, "tf32x3"),
    ("sm_90", "pair_gradient"): Config(128, 128, 64, 8, 3, True, "tf32x3"),
    ("sm_100", "head"): Config(128, 128, 64, 8, 4, True, "tf32x3"),
    ("sm_100", "top"): Config(128, 64, 64, 8, 4, True, "tf32x3"),
    ("sm_100", "gradient"): Config(128, 64, 64, 4, 4, True, "tf32x3"),
    ("sm_100", "pair"): Config(128, 64, 64, 8, 3, True, "tf32x3"),
    ("sm_100", "pair_gradient"): Config(128, 64, 64, 8, 3, True, "tf32x3"),
    ("gfx942", "head"): Config(128, 128, 64, 8, 2, False, "ieee"),
    ("gfx942", "top"): Config(128, 128, 64, 8, 2, False, "ieee"),
    ("gfx942", "gradient"): Config(128, 128, 64, 8, 2, False, "ieee"),
    ("gfx942", "pair"): Config(64, 64, 64, 4, 2, False, "ieee"),
    ("gfx942", "pair_gradient"): Config(64, 64, 64, 4, 2, False, "ieee"),
}
INTERPRETED = Config(32, 128, 64, 1, 1, False, "ieee")
SHARED_BYTES = {"sm_80": 163 << 10, "sm_90": 227 << 10, "sm_100": 227 << 10, "gfx942": 64 << 10}


@cache
def triton_is_installed() -> bool:
    return find_spec("triton") is not None


def triton_runs_on(device: torch.device) -> bool:
    """Whether the triton path is the default there: a GPU torch calls cuda (NVIDIA or AMD), and the triton extra."""
    return device.type == "cuda" and triton_is_installed()


@cache
def architecture(index: int) -> str:
    """The table's name for a GPU; one between two rows takes the older row's tiles."""
    properties = torch.cuda.get_device_properties(index)
    if torch.version.hip is not None:
        return "gfx942"
    major, _ = torch.cuda.get_device_capability(index)
    if major < 8:
        raise RuntimeError(
            f"backend 'triton' needs an NVIDIA GPU of compute capability 8.0 or later, got {properties.name};"
            " pass backend='torch'"
        )
    return {8: "sm_80", 9: "sm_90", 10: "sm_100"}.get(major, "sm_80")


def choose(device: torch.device, kind: str, itemsize: int) -> Config:
    """The row for a device and kernel kind; fp32 operands halve the depth of a step."""
    if device.type != "cuda":
        return INTERPRETED
    row = TABLE[architecture(device.index or 0), kind]
    if itemsize == 2:
        return row
    return Config(row.rows, row.columns, row.depth // 2, row.warps, row.stages, row.tma, row.precision)
