"""Token log-prob, entropy and self-certainty of a 151,936-word head on the CPU, as a share of its bare matmul.

    python benchmarks/logprob_cpu.py                        every size: about half an hour on 2 cores
    python benchmarks/logprob_cpu.py --tokens 1024 --width 896 --dtype bf16

Each contender is timed right beside hidden @ weight.T in the same dtype. "of matmul" is matmul time / contender time,
in CPU seconds (other processes hardly change them) and in wall time. Peers run at their best setting; what they do not
compute is said under "gives": l = log-prob, e = entropy, c = self-certainty. The last line is JSON.
"""

import argparse
import json
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from measure import VOCAB, Inputs, beside, exact, extra_mb, machine, make_inputs
from torch import Tensor

from stepgauge.kernels import label_logits, lm_stats

Result = tuple[Tensor, ...]  # log-prob, then entropy, then self-certainty, as far as given
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


def ours(x: Inputs) -> Result:
    found = lm_stats(x.hidden, x.weight, x.targets, want=("logp", "entropy", "self_certainty"), backend="torch")
    return found.logp, found.entropy, found.self_certainty


def ours_logp(x: Inputs) -> Result:
    return (lm_stats(x.hidden, x.weight, x.targets, backend="torch").logp,)


def naive(x: Inputs) -> Result:
    z = (x.hidden @ x.weight.T).float()
    logps = z.log_softmax(-1)
    entropy = -(logps.exp() * logps).sum(-1)
    certainty = z.logsumexp(-1) - z.mean(-1) - math.log(z.shape[1])
    return logps.gather(1, x.targets[:, None])[:, 0], entropy, certainty


def naive_logp(x: Inputs) -> Result:
    return ((x.hidden @ x.weight.T).float().log_softmax(-1).gather(1, x.targets[:, None])[:, 0],)


def trl(x: Inputs) -> Result:
    from trl.trainer.utils import selective_log_softmax

    return (selective_log_softmax(x.hidden @ x.weight.T, x.targets),)


def trl_entropy(x: Inputs) -> Result:
    from trl.trainer.utils import selective_log_softmax_and_entropy

    return selective_log_softmax_and_entropy(x.hidden @ x.weight.T, x.targets)


def cut_cross_entropy(x: Inputs) -> Result:
    from cut_cross_entropy import linear_cross_entropy

    return (-linear_cross_entropy(x.hidden, x.weight, x.targets, reduction="none", impl="torch_compile"),)


def liger(x: Inputs) -> Result:
    from liger_kernel.chunked_loss.fused_linear_ppo import _selective_logprob_forward

    return (_selective_logprob_forward(x.hidden, x.weight, x.targets)[0],)


def liger_scaled(x: Inputs) -> Result:
    from liger_kernel.ops.fused_linear_scaled_cross_entropy import _FusedLinearPPOFallbackFunction as Fallback

    found = Fallback.apply(x.hidden, x.weight, x.targets, 1.0, -100, True)
    return -found[0], found[1]


def torch_linear(x: Inputs) -> Result:
    return (-F.linear_cross_entropy(x.hidden, x.weight, x.targets, reduction="none"),)


CONTENDERS: dict[str, Callable[[Inputs], Result]] = {
    "stepgauge": ours,
    "stepgauge, log-prob only": ours_logp,
    "naive": naive,
    "naive, log-prob only": naive_logp,
    "TRL selective_log_softmax": trl,
    "TRL ..._and_entropy": trl_entropy,
    "cut-cross-entropy torch_compile": cut_cross_entropy,
    "Liger chunked log-prob": liger,
    "Liger scaled CE fallback": liger_scaled,
    "F.linear_cross_entropy": torch_linear,
}


def measure(name: str, run: Callable[[Inputs], Result], x: Inputs, truth: Result, repeats: int) -> dict[str, Any]:
    """One row of the table, or why there is none."""
    try:
        with torch.no_grad():
            found = run(x)
            timing = beside(lambda: run(x), lambda: x.hidden @ x.weight.T, repeats)
            memory = extra_mb(lambda: run(x))
    except (ImportError, RuntimeError, TypeError) as reason:
        return {"name": name, "skipped": f"{type(reason).__name__}: {str(reason).splitlines()[0]}"}
    errors = [(f[: len(t)].double() - t).abs().max().item() for f, t in zip(found, truth, strict=False)]
    return {
        "name": name,
        "gives": "lec"[: len(found)],
        "of_matmul_cpu": round(timing.yardstick_cpu / timing.cpu, 3),
        "of_matmul_wall": round(timing.yardstick_wall / timing.wall, 3),
        "wall_s": round(timing.wall, 3),
        "matmul_wall_s": round(timing.yardstick_wall, 3),
        "extra_mb": round(memory, 1),
        "max_error_nats": max(errors),
    }


def labels(x: Inputs, repeats: int) -> dict[str, Any]:
    """64 step tags: two label rows against full-vocabulary logits."""
    tags = torch.arange(64) * (len(x.hidden) // 64)
    states, ids = x.hidden[tags], (10, 11)
    truth = label_logits(x.hidden.double(), x.weight.double(), ids, tags).sigmoid()

    def full() -> Tensor:
        return (states @ x.weight.T)[:, list(ids)].float().softmax(1)[:, 0]

    def ours_labels() -> Tensor:
        return label_logits(x.hidden, x.weight, ids, tags).sigmoid()

    timing = beside(ours_labels, full, max(repeats, 5))
    return {
        "tags": 64,
        "full_ms": round(timing.yardstick_cpu * 1e3, 3),
        "ours_ms": round(timing.cpu * 1e3, 3),
        "times_faster": round(timing.yardstick_cpu / timing.cpu),
        "max_error": (ours_labels().double() - truth).abs().max().item(),
        "full_max_error": (full().double() - truth).abs().max().item(),
    }


def show(row: dict[str, Any]) -> None:
    if "skipped" in row:
        print(f"  {row['name']:33} skipped: {row['skipped']}", flush=True)
        return
    print(
        f"  {row['name']:33} {row['gives']:4} {row['of_matmul_cpu']:8.0%} {row['of_matmul_wall']:8.0%}"
        f" {row['wall_s']:9.3f} {row['extra_mb']:9.1f} {row['max_error_nats']:11.1e}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, nargs="+", default=[256, 1024])
    parser.add_argument("--width", type=int, nargs="+", default=[896, 2048])
    parser.add_argument("--dtype", choices=DTYPES, nargs="+", default=list(DTYPES))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    tables = []
    for dtype in arguments.dtype:
        for width in arguments.width:
            for tokens in arguments.tokens:
                x = make_inputs(tokens, width, DTYPES[dtype])
                truth = exact(x)
                print(f"N={tokens} H={width} V={VOCAB} {dtype}, {arguments.threads} threads")
                print(f"  {'':33} gives  of matmul: cpu, wall    wall s  extra MB   max error", flush=True)
                rows = []
                for name, run in CONTENDERS.items():
                    rows.append(measure(name, run, x, truth, arguments.repeats))
                    show(rows[-1])
                tags = labels(x, arguments.repeats)
                print(f"  label scoring: {tags}", flush=True)
                tables.append({"tokens": tokens, "width": width, "dtype": dtype, "rows": rows, "labels": tags})
    print(json.dumps({"machine": machine(), "vocab": VOCAB, "tables": tables}))


if __name__ == "__main__":
    main()
