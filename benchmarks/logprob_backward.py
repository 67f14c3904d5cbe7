"""Gradients of log-prob and entropy through a 151,936-word head on the CPU: time and peak memory against autograd.

    python benchmarks/logprob_backward.py [--tokens 1024] [--width 896] [--dtype bf16]

Each call is forward and backward with one gradient a token. "naive" is autograd through materialised logits, "Liger"
its torch path. Error: of d hidden and d weight against float64 on a small head, relative to the largest entry. The last
line is JSON.
"""

import argparse
import json
from collections.abc import Callable
from typing import Any

import torch
from measure import VOCAB, Inputs, beside, extra_mb, machine, make_inputs
from torch import Tensor

from stepgauge.kernels import lm_stats

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


def ours(x: Inputs) -> tuple[Tensor, Tensor]:
    found = lm_stats(x.hidden, x.weight, x.targets, want=("logp", "entropy"), backend="torch")
    return found.logp, found.entropy


def naive(x: Inputs) -> tuple[Tensor, Tensor]:
    logps = (x.hidden @ x.weight.T).float().log_softmax(-1)
    return logps.gather(1, x.targets[:, None])[:, 0], -(logps.exp() * logps).sum(-1)


def liger(x: Inputs) -> tuple[Tensor, Tensor]:
    from liger_kernel.ops.fused_linear_scaled_cross_entropy import _FusedLinearPPOFallbackFunction as Fallback

    found = Fallback.apply(x.hidden, x.weight, x.targets, 1.0, -100, True)
    return -found[0], found[1].float()


CONTENDERS: dict[str, Callable[[Inputs], tuple[Tensor, Tensor]]] = {"stepgauge": ours, "naive": naive, "Liger": liger}


def step(run: Callable[[Inputs], tuple[Tensor, Tensor]], x: Inputs, frozen: bool) -> list[Tensor]:
    """Forward and backward; the gradients of hidden and, unless frozen, weight."""
    hidden = x.hidden.detach().requires_grad_()
    weight = x.weight.detach().requires_grad_(not frozen)
    logp, entropy = run(Inputs(hidden, weight, x.targets))
    upstream = torch.linspace(-1, 1, len(logp))
    (logp * upstream + entropy * upstream.flip(0)).sum().backward()
    return [g for g in (hidden.grad, weight.grad) if g is not None]


def error(run: Callable[[Inputs], tuple[Tensor, Tensor]], dtype: torch.dtype) -> float:
    """Largest relative error on a head small enough for float64."""
    small = make_inputs(64, 128, dtype, vocab=5000)
    wide = Inputs(small.hidden.double(), small.weight.double(), small.targets)

    def exact(x: Inputs) -> tuple[Tensor, Tensor]:
        found = lm_stats(x.hidden, x.weight, x.targets, want=("logp", "entropy"), backend="reference")
        return found.logp, found.entropy

    pairs = zip(step(run, small, False), step(exact, wide, False), strict=True)
    return max(((got.double() - true).abs().max() / true.abs().max()).item() for got, true in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--width", type=int, default=896)
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    x = make_inputs(arguments.tokens, arguments.width, DTYPES[arguments.dtype])
    print(f"N={arguments.tokens} H={arguments.width} V={VOCAB} {arguments.dtype}, {arguments.threads} threads")
    print(f"  {'':24}  x matmul: cpu, wall   wall s  extra MB  max rel. error", flush=True)
    rows: list[dict[str, Any]] = []
    for frozen in (False, True):
        for name, run in CONTENDERS.items():
            label = f"{name}{', frozen head' if frozen else ''}"
            try:
                timing = beside(lambda: step(run, x, frozen), lambda: x.hidden @ x.weight.T, arguments.repeats)  # noqa: B023
                memory = extra_mb(lambda: step(run, x, frozen))  # noqa: B023
                wrong = error(run, DTYPES[arguments.dtype])
            except (ImportError, RuntimeError, TypeError) as reason:
                print(f"  {label:24} skipped: {type(reason).__name__}: {str(reason).splitlines()[0]}", flush=True)
                continue
            row = {
                "name": label,
                "matmuls_cpu": round(timing.cpu / timing.yardstick_cpu, 2),
                "matmuls_wall": round(timing.wall / timing.yardstick_wall, 2),
                "wall_s": round(timing.wall, 2),
                "extra_mb": round(memory),
                "max_relative_error": wrong,
            }
            rows.append(row)
            print(
                f"  {label:24} {row['matmuls_cpu']:13.2f} {row['matmuls_wall']:6.2f} {row['wall_s']:8.2f}"
                f" {row['extra_mb']:9} {wrong:12.1e}",
                flush=True,
            )
    sizes = {"tokens": arguments.tokens, "width": arguments.width, "vocab": VOCAB, "dtype": arguments.dtype}
    print(json.dumps({"machine": machine(), **sizes, "rows": rows}))


if __name__ == "__main__":
    main()
