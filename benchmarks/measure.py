"""What the benchmarks share: honest times on a busy machine, peak memory, peers that may be missing, inputs."""

import ctypes
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

VOCAB = 151936  # Qwen2.5
Call = Callable[[], Any]


@dataclass(frozen=True)
class Inputs:
    hidden: Tensor  # (N, H)
    weight: Tensor  # (V, H)
    targets: Tensor  # (N,)


def make_inputs(tokens: int, width: int, dtype: torch.dtype, vocab: int = VOCAB, device: str = "cpu") -> Inputs:
    """Gaussian logits of deviation 2; every second token has its target planted as a clear winner (logit about 14)."""
    random = torch.Generator().manual_seed(0)
    weight = torch.randn(vocab, width, generator=random) * (2 / width**0.5)
    hidden = torch.randn(tokens, width, generator=random)
    targets = torch.randint(0, vocab, (tokens,), generator=random)
    hidden[::2] += 3.5 * weight[targets[::2]]
    return Inputs(hidden.to(device, dtype), weight.to(device, dtype), targets.to(device))


def exact(inputs: Inputs, rows: int = 64) -> tuple[Tensor, Tensor, Tensor]:
    """(logp, entropy, self-certainty) of the first rows in float64, 8 rows at a time."""
    found = []
    weight = inputs.weight.double()
    for hidden, targets in zip(inputs.hidden[:rows].split(8), inputs.targets[:rows].split(8), strict=True):
        z = hidden.double() @ weight.T  # (8, V)
        logps = z.log_softmax(1)
        certainty = z.logsumexp(1) - z.mean(1) - torch.tensor(float(z.shape[1])).log()
        found.append((logps.gather(1, targets[:, None])[:, 0], -(logps.exp() * logps).sum(1), certainty))
    logp, entropy, certainty = (torch.cat(parts) for parts in zip(*found, strict=True))
    return logp, entropy, certainty


def seconds(call: Call) -> tuple[float, float]:
    """(wall, CPU) of one call."""
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - wall, time.process_time() - cpu


@dataclass(frozen=True)
class Timing:
    """The best of several turns, each taken right beside a turn of the yardstick."""

    wall: float
    cpu: float
    yardstick_wall: float
    yardstick_cpu: float


def beside(call: Call, yardstick: Call, repeats: int) -> Timing:
    """CPU seconds hardly see other processes; wall seconds do, which is why both runs alternate."""
    call()
    turns = [(*seconds(yardstick), *seconds(call)) for _ in range(repeats)]
    y_wall, y_cpu, wall, cpu = (min(column) for column in zip(*turns, strict=True))
    return Timing(wall, cpu, y_wall, y_cpu)


def status_mb(field: str) -> float:
    """A field of /proc/self/status in MB."""
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith(field))
    return int(line.split()[1]) / 1024


def extra_mb(call: Call) -> float:
    """Peak resident memory of a second call beyond what was resident before it."""
    call()
    ctypes.CDLL(None).malloc_trim(0)  # give back what earlier calls freed, or it hides what this one takes
    before = status_mb("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
    call()
    return status_mb("VmHWM") - before


def installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"


def machine() -> dict[str, Any]:
    """What a figure has to be read with."""
    cpu = Path("/proc/cpuinfo")
    names = (
        [x.split(":")[1].strip() for x in cpu.read_text().splitlines() if x.startswith("model name")]
        if cpu.exists()
        else []
    )
    return {
        "cpu": names[0] if names else platform.processor(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        **{name: installed(name) for name in ("torch", "triton", "trl", "liger-kernel", "cut-cross-entropy")},
    }
