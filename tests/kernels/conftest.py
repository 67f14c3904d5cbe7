"""Triton kernels run under Triton's interpreter here: on CPU tensors, program after program.

Not shown by it: races, alignment faults, registers (the compile tests look at those), and anything about speed.
"""

import os
from importlib.util import find_spec

import pytest

HAS_TRITON = find_spec("triton") is not None


def widen_bf16_products() -> None:
    """Make the interpreter's tl.dot multiply bf16 values: it multiplies their bit patterns, silently.

    Exact: a tensor core, too, multiplies bf16 exactly into fp32.
    """
    import numpy as np
    import triton.language as tl
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    plain = InterpreterBuilder.create_dot

    def widened(handle):
        if handle.dtype != tl.bfloat16:
            return handle
        return TensorHandle((handle.data.astype(np.uint32) << 16).view(np.float32), tl.float32)

    def create_dot(self, a, b, *rest):
        return plain(self, widened(a), widened(b), *rest)

    InterpreterBuilder.create_dot = create_dot


if HAS_TRITON:
    os.environ["TRITON_INTERPRET"] = "1"
    widen_bf16_products()


def needs_triton():
    return pytest.mark.skipif(not HAS_TRITON, reason="triton is not installed: pip install 'stepgauge[triton]'")


BACKENDS = [
    pytest.param("torch", id="torch"),
    pytest.param("torch_rounds", id="torch_rounds"),
    pytest.param("triton", id="triton", marks=needs_triton()),
]


@pytest.fixture(params=BACKENDS)
def backend(request, monkeypatch):
    """Each backend; torch with both ways to multiply 16-bit heads on a CPU, whichever this CPU would take."""
    from stepgauge.kernels import tiled

    monkeypatch.setattr(tiled, "cpu_is_fast_at_16_bit", lambda: request.param == "torch_rounds")
    return "torch" if request.param == "torch_rounds" else request.param
