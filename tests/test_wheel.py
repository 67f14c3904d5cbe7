"""The built wheel works away from the checkout, and beside packages that take its folders' names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.slow


def run(*args, **kwargs):
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    result = subprocess.run(
        [str(arg) for arg in args], capture_output=True, text=True, timeout=900, env=environment, **kwargs
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """An environment with the wheel in it, and this one's other packages in reach, but not this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT)
    run(sys.executable, "-m", "venv", folder / "venv")
    python = folder / "venv" / "bin" / "python"
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    Path(site, "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    run(python, "-m", "pip", "install", "-q", "--no-deps", "--no-index", next(folder.glob("*.whl")))
    where = run(python, "-c", "import stepgauge; print(stepgauge.__file__)", cwd=folder).strip()
    assert where.startswith(site)
    return python, folder


def test_the_wheel_reranks_the_bundled_rollouts(installed):
    python, folder = installed
    out = json.loads(run(python.parent / "stepgauge", "rerank", "bundled", "--json", cwd=folder))
    assert out["counts"]["problems"] == 64
    assert len(out["picks"]) == 64


def test_the_wheel_holds_the_typing_marker_and_no_tests(installed):
    python, folder = installed
    listing = run(python, "-m", "zipfile", "-l", next(folder.glob("*.whl")))
    assert "stepgauge/py.typed" in listing
    assert "stepgauge/data/samples/dev_0.5b.jsonl.gz" in listing
    assert "tests/" not in listing


def test_packages_of_the_same_names_do_no_harm(installed):
    """Hugging Face ``kernels``, which transformers imports where it finds one, and Prime Intellect ``verifiers``."""
    python, folder = installed
    run(python, "-m", "pip", "install", "-q", "--no-deps", "kernels", "verifiers")
    code = """
import importlib.util, json
assert all(importlib.util.find_spec(name) for name in ("kernels", "verifiers"))
import transformers
config = transformers.LlamaConfig(vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=1,
                                  num_attention_heads=2, num_key_value_heads=2)
transformers.LlamaForCausalLM(config)
from stepgauge import load
from stepgauge.data import bundled
from stepgauge.selection import rerank
scorers = {name: load(name) for name in ("embedded", "math")}
print(json.dumps(rerank(bundled("dev_1.5b"), scorers).counts["problems"]))
"""
    assert run(python, "-c", code, cwd=folder).strip() == "24"
