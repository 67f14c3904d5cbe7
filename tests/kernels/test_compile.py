"""Every row of the tile table compiled for GPUs that are not here: no spill, tensor cores used, shared memory fits.

What compiling cannot show: speed, races, and anything a driver decides.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stepgauge.kernels.configs import SHARED_BYTES, TABLE
from tests.kernels.conftest import needs_triton

ROOT = Path(__file__).parents[2]
ARCHITECTURES = ("sm_80", "sm_90", "sm_100", "gfx942")
KERNELS = {"head", "top", "gradient", "pair", "pair_gradient"}


def compile_all(extent, cache):
    """Rows of compile_matrix.py by architecture; the processes run side by side."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment |= {"TRITON_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)}
    script = str(ROOT / "tests" / "kernels" / "compile_matrix.py")
    running = {
        arch: subprocess.Popen(
            [sys.executable, script, extent, arch],
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for arch in ARCHITECTURES
    }
    rows = {}
    for arch, process in running.items():
        out, err = process.communicate()
        assert process.returncode == 0, err[-2000:]
        rows[arch] = [json.loads(line) for line in out.splitlines()]
    return rows


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    return compile_all("hardest", tmp_path_factory.mktemp("triton"))


def check(arch, rows):
    assert {row["kernel"] for row in rows} == KERNELS
    for row in rows:
        assert row["stack"] == 0, row
        assert row["spills"] == 0, row
        assert row["tensor_core"] > 0, row
        assert 0 < row["shared"] <= SHARED_BYTES[arch], row


def test_the_table_is_complete():
    assert set(TABLE) == {(arch, kernel) for arch in ARCHITECTURES for kernel in KERNELS}


@needs_triton()
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_no_spill_tensor_cores_and_shared_memory(arch, compiled):
    check(arch, compiled[arch])


@pytest.mark.slow
@needs_triton()
def test_every_variant(tmp_path):
    for arch, rows in compile_all("every", tmp_path).items():
        check(arch, rows)


@needs_triton()
@pytest.mark.parametrize("arch", ["sm_90", "sm_100"])
def test_tiles_are_copied_by_the_hardware(arch, compiled):
    for row in compiled[arch]:
        assert (row["tma"] > 0) == (row["variant"] != "ragged"), row
