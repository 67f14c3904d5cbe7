"""The Triton kernels on a GPU: correctness against float64, then milliseconds and their ratio to the roofline floor.

Run through benchmarks/gpu.sh. Floor = 2 N V H flop (backward with a frozen head 4 more, else 6) at the rate of a large
bf16 matmul measured in the same run. Peers: torch with materialised logits, Liger, cut-cross-entropy and verl's kernel,
as far as they import. The last line is JSON.
"""

import json
import time
from collections.abc import Callable
from typing import Any

import torch
from measure import Inputs, exact, machine, make_inputs
from torch import Tensor

from stepgauge.kernels import Head, lm_stats, pair_stats
from stepgauge.kernels.configs import architecture

STOP_S = 420  # no new measurement begins after this


def milliseconds(call: Callable[[], Any]) -> float:
    """Median of the runs that fit into about a second."""
    from triton.testing import do_bench

    return float(do_bench(call, warmup=100, rep=600, return_mode="median"))


def peak_flops() -> float:
    """Flop a second of a square bf16 matmul."""
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    return 2 * 8192**3 / (milliseconds(lambda: a @ a) / 1e3)


def check() -> dict[str, float]:
    """Largest errors in nats against float64, and of gradients relative to the largest entry; must be small."""
    x = make_inputs(384, 512, torch.bfloat16, vocab=32003, device="cuda")
    logp, entropy, certainty = exact(x)
    got = lm_stats(x.hidden, x.weight, x.targets, want=("logp", "entropy", "self_certainty", "topk"), backend="triton")
    alone = lm_stats(x.hidden[7:8], x.weight, x.targets[7:8], want=("logp", "entropy"), backend="triton")
    errors = {
        "logp": (got.logp[:64] - logp).abs().max().item(),
        "entropy": (got.entropy[:64] - entropy).abs().max().item(),
        "self_certainty": (got.self_certainty[:64] - certainty).abs().max().item(),
        "alone_differs": float(alone.logp[0] != got.logp[7]) + float(alone.entropy[0] != got.entropy[7]),
    }
    gradients = [
        gradient(x, "triton", frozen=False),
        gradient(Inputs(x.hidden.double(), x.weight.double(), x.targets), "torch", False),
    ]
    for name, mine, true in zip(("d_hidden", "d_weight"), *gradients, strict=True):
        errors[name] = ((mine.double() - true).abs().max() / true.abs().max()).item()
    other = make_inputs(384, 256, torch.bfloat16, vocab=32003, device="cuda")
    pair = (Head(x.hidden, x.weight), Head(other.hidden, other.weight), x.targets)
    wide = [Head(h.hidden.double(), h.weight.double()) for h in pair[:2]]
    for name in ("log_ratio", "kl", "reverse_kl"):
        mine = getattr(pair_stats(*pair, want=(name,), backend="triton"), name)
        errors[name] = (
            (mine - getattr(pair_stats(*wide, x.targets, want=(name,), backend="torch"), name)).abs().max().item()
        )
    return errors


LIMITS = {"d_hidden": 1e-2, "d_weight": 1e-2, "alone_differs": 0.0}  # nats elsewhere: 2e-4


def gradient(x: Inputs, backend: str, frozen: bool) -> list[Tensor]:
    hidden, weight = x.hidden.detach().requires_grad_(), x.weight.detach().requires_grad_(not frozen)
    found = lm_stats(hidden, weight, x.targets, want=("logp", "entropy"), backend=backend)
    (found.logp - 0.1 * found.entropy).sum().backward()
    return [g for g in (hidden.grad, weight.grad) if g is not None]


def naive(x: Inputs) -> tuple[Tensor, Tensor]:
    logps = (x.hidden @ x.weight.T).float().log_softmax(-1)
    return logps.gather(1, x.targets[:, None])[:, 0], -(logps.exp() * logps).sum(-1)


def peers() -> dict[str, Callable[[Inputs], Any]]:
    """Forward passes of what is installed; a missing one is said."""
    found: dict[str, Callable[[Inputs], Any]] = {"torch, logits materialised": naive}
    try:
        from liger_kernel.ops.fused_linear_scaled_cross_entropy import (
            LigerFusedLinearScaledCrossEntropyFunction as Liger,
        )

        found["Liger scaled CE"] = lambda x: Liger.apply(x.hidden, x.weight, x.targets, 1.0, -100, True)
    except ImportError as reason:
        print(f"skipped: Liger ({reason})")
    try:
        from cut_cross_entropy import linear_cross_entropy

        found["cut-cross-entropy"] = lambda x: linear_cross_entropy(x.hidden, x.weight, x.targets, reduction="none")
    except ImportError as reason:
        print(f"skipped: cut-cross-entropy ({reason})")
    try:
        from verl.utils.kernel.linear_cross_entropy import linear_cross_entropy as verl

        found["verl linear_cross_entropy"] = lambda x: verl(x.hidden, x.weight, x.targets, 1.0, "none")
    except ImportError as reason:
        print(f"skipped: verl ({reason})")
    return found


def main() -> None:
    if not torch.cuda.is_available():
        print("no GPU here: nothing measured")
        return
    started, rows = time.monotonic(), []
    print(torch.cuda.get_device_name(), architecture(0), flush=True)
    errors = check()
    print("errors", json.dumps(errors), flush=True)
    bad = {name: e for name, e in errors.items() if not e <= LIMITS.get(name, 2e-4)}
    if bad:
        raise SystemExit(f"wrong results: {bad}")
    rate = peak_flops()
    print(f"bf16 matmul {rate / 1e12:.0f} TFLOP/s", flush=True)
    everyone = peers()
    for tokens, width, vocab in ((1024, 896, 151936), (4096, 3584, 152064), (16384, 3584, 152064)):
        x = make_inputs(tokens, width, torch.bfloat16, vocab=vocab, device="cuda")
        floor = 2 * tokens * width * vocab / rate * 1e3
        names = ("logp", "entropy", "self_certainty")
        runs: dict[str, tuple[float, Callable[[], Any]]] = {
            "stepgauge logp+entropy+certainty": (1, lambda: lm_stats(x.hidden, x.weight, x.targets, want=names)),  # noqa: B023
            "stepgauge top-8": (1, lambda: lm_stats(x.hidden, x.weight, x.targets, want=("topk",))),  # noqa: B023
            "stepgauge pair": (2, lambda: pair_stats(Head(x.hidden, x.weight), Head(x.hidden, x.weight), x.targets)),  # noqa: B023
            "stepgauge fwd+bwd, frozen": (3, lambda: gradient(x, "triton", True)),  # noqa: B023
            "stepgauge fwd+bwd": (4, lambda: gradient(x, "triton", False)),  # noqa: B023
        }
        for name, run in everyone.items():
            runs[name] = (1, lambda run=run: run(x))  # noqa: B023
        for name, (floors, run) in runs.items():
            if time.monotonic() - started > STOP_S:
                print(f"out of time before {name}")
                continue
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            try:
                with torch.set_grad_enabled("bwd" in name):
                    ms = milliseconds(run)
            except (RuntimeError, ValueError, TypeError) as reason:
                print(f"  {name}: skipped: {type(reason).__name__}: {str(reason).splitlines()[0]}", flush=True)
                continue
            extra = (torch.cuda.max_memory_allocated() - before) / 2**20
            row = {"tokens": tokens, "width": width, "vocab": vocab, "name": name, "ms": round(ms, 3)}
            rows.append({**row, "of_floor": round(ms / (floors * floor), 2), "extra_mb": round(extra)})
            print(
                f"  N={tokens} H={width} {name}: {ms:.2f} ms = {ms / (floors * floor):.2f} x floor, {extra:.0f} MB",
                flush=True,
            )
    print(json.dumps({"gpu": torch.cuda.get_device_name(), "tflops": rate / 1e12, "machine": machine(), "rows": rows}))


if __name__ == "__main__":
    main()
