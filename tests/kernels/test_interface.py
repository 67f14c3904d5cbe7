"""What the package promises besides numbers: names, errors, examples, light imports."""

import doctest
import importlib
import subprocess
import sys

import pytest
import torch

import stepgauge.kernels as kernels
from stepgauge.kernels import lm_stats

HIDDEN, WEIGHT, TARGETS = torch.zeros(3, 4), torch.zeros(9, 4), torch.tensor([0, 8, 2])


def test_public_names_are_sorted_and_there():
    assert sorted(kernels.__all__) == kernels.__all__
    assert all(hasattr(kernels, name) for name in kernels.__all__)


def test_importing_kernels_does_not_import_triton():
    code = "import sys, stepgauge; assert 'torch' not in sys.modules;"
    code += "import stepgauge.kernels; print('triton' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("name", ["stats", "pairs", "labels", "segments", "parallel"])
def test_examples_run(name):
    module = importlib.import_module(f"stepgauge.kernels.{name}")
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"weight": torch.zeros(4, 9)}, ValueError, r"weight must be \(V, H\) with H = 4 .* not transposed"),
        ({"weight": torch.zeros(9, 4, dtype=torch.bfloat16)}, TypeError, "cast hidden to weight.dtype"),
        ({"hidden": torch.zeros(3, 4, dtype=torch.int64)}, TypeError, "hidden must be bf16"),
        ({"hidden": torch.zeros(4)}, ValueError, "hidden must be"),
        ({"bias": torch.zeros(4)}, ValueError, r"bias must be \(9,\)"),
        ({"targets": torch.tensor([0, 9, 2])}, ValueError, r"targets must be in \[0, 9\).*got 9"),
        ({"targets": torch.tensor([0, -1, 2])}, ValueError, "ignore_index=-100, got -1"),
        ({"targets": torch.tensor([0, 8, 2]), "vocab_valid": 8}, ValueError, r"in \[0, 8\).*got 8"),
        ({"targets": torch.tensor([0, 8])}, ValueError, r"shape \(3,\), got \(2,\)"),
        ({"targets": torch.tensor([0.0, 8.0, 2.0])}, TypeError, "integer ids"),
        ({"targets": None}, ValueError, "targets must be given when 'logp' is wanted"),
        ({"vocab_valid": 10}, ValueError, r"vocab_valid must be in \[1, 9\]"),
        ({"softcap": 0.0}, ValueError, "softcap must be a positive"),
        ({"inv_temperature": 0.0}, ValueError, "inv_temperature must be positive"),
        ({"inv_temperature": torch.tensor([1.0, 0.0, 1.0])}, ValueError, "positive and finite"),
        ({"inv_temperature": torch.ones(2)}, ValueError, r"shape \(3,\), got \(2,\)"),
        ({"inv_temperature": torch.ones(3, requires_grad=True)}, ValueError, "no gradient here"),
        ({"want": ()}, ValueError, "non-empty collection"),
        ({"want": ("logprob",)}, ValueError, r"out of logp, lse.*got \('logprob',\)"),
        ({"want": ("topk",), "k": 10}, ValueError, r"k must be in \[1, 9\]"),
        ({"backend": "cuda"}, ValueError, "backend must be one of reference, torch, triton"),
    ],
)
def test_errors_name_what_is_wrong(change, error, match):
    with pytest.raises(error, match=f"lm_stats: .*{match}" if "want" not in change else match):
        lm_stats(**{"hidden": HIDDEN, "weight": WEIGHT, "targets": TARGETS, **change})


def test_reading_what_was_not_wanted():
    with pytest.raises(AttributeError, match="add 'entropy' to want"):
        _ = lm_stats(HIDDEN, WEIGHT, TARGETS).entropy


def test_triton_needs_a_gpu_outside_the_interpreter(monkeypatch):
    pytest.importorskip("triton")
    monkeypatch.delenv("TRITON_INTERPRET")
    with pytest.raises(ValueError, match="needs tensors on a GPU"):
        lm_stats(HIDDEN, WEIGHT, TARGETS, backend="triton")
    with pytest.raises(TypeError, match="got float64"):
        lm_stats(HIDDEN.double(), WEIGHT.double(), TARGETS, backend="triton")
