"""Scoring with a real 135M model on the CPU: one by one, padded batches with full logits, and this library.

    python benchmarks/prm_scoring.py --model SmolLM2-135M-Instruct.Q4_1.gguf         some minutes on 2 free cores

Two workloads with real text (the bundled rollouts): (1) best of 8, 8 candidates a problem; (2) a beam search of 4 beams
x 8 children x 8 steps behind a problem of at least 200 tokens, where padded batches score each depth's 32 prefixes from
scratch and this library extends sessions. The padded search runs at depths 1 and 8 and the rest follows from the mean,
unless --all-depths. The label rows are two ordinary tokens: speed does not depend on what they mean. CPU seconds hardly
see other processes of the machine. The last line is JSON.
"""

import argparse
import ctypes
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from measure import machine, seconds, status_mb

from stepgauge.data import bundled
from stepgauge.lm import load_causal_lm, model_folder
from stepgauge.prm import MCPRM, Convention
from stepgauge.prm.checkpoint import _passes
from stepgauge.scoring import Rollout

ROW = Convention("benchmark", labels=("+", "-"), tag="\n\n", fresh=True, lead=("", ""))
Passes = list[tuple[list[int], list[int]]]


def passes_of(prm: MCPRM, rollouts: Sequence[Rollout]) -> Passes:
    """(ids, positions that are read) of each rollout: all contenders read the same ones."""
    loaded = prm._load()
    found = []
    for rollout in rollouts:
        (one,) = _passes(loaded, rollout, "error")[0]
        found.append((list(one.ids), [last - 1 for _, _, last in one.reads]))
    return found


def one_by_one(model: Any, labels: list[int], passes: Passes) -> list[list[float]]:
    """(a) What a script does: a forward pass a rollout, logits of every token, softmax over two."""
    out = []
    with torch.inference_mode():
        for ids, reads in passes:
            logits = model(torch.tensor([ids])).logits[0]
            out.append(logits[:, labels].softmax(-1)[reads, 0].tolist())
    return out


def padded(model: Any, labels: list[int], passes: Passes, batch: int = 8) -> list[list[float]]:
    """(b) Batches of ``batch`` sorted by length, padded, logits of every token."""
    out: list[list[float]] = [[] for _ in passes]
    order = sorted(range(len(passes)), key=lambda index: -len(passes[index][0]))
    with torch.inference_mode():
        for start in range(0, len(order), batch):
            chosen = order[start : start + batch]
            longest = len(passes[chosen[0]][0])
            ids = torch.zeros(len(chosen), longest, dtype=torch.long)
            mask = torch.zeros_like(ids)
            for row, index in enumerate(chosen):
                ids[row, : len(passes[index][0])] = torch.tensor(passes[index][0])
                mask[row, : len(passes[index][0])] = 1
            scores = model(ids, attention_mask=mask).logits[..., labels].softmax(-1)
            for row, index in enumerate(chosen):
                out[index] = scores[row, passes[index][1], 0].tolist()
    return out


def measured(call: Callable[[], Any]) -> tuple[float, float, float, Any]:
    """(wall s, CPU s, peak MB beyond what was resident, result) of one call."""
    ctypes.CDLL(None).malloc_trim(0)
    before = status_mb("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
    result: list[Any] = []
    wall, cpu = seconds(lambda: result.append(call()))
    return wall, cpu, status_mb("VmHWM") - before, result[0]


def compare(name: str, calls: dict[str, Callable[[], Any]], repeats: int = 1) -> dict[str, Any]:
    """Each contender in turn, so that a busy moment meets all; the best time and the largest memory count."""
    rows: dict[str, Any] = {}
    for _ in range(repeats):
        for label, call in calls.items():
            wall, cpu, memory, result = measured(call)
            old = rows.get(label, {"wall_s": wall, "cpu_s": cpu, "extra_mb": memory})
            rows[label] = {
                "wall_s": min(wall, old["wall_s"]),
                "cpu_s": min(cpu, old["cpu_s"]),
                "extra_mb": max(memory, old["extra_mb"]),
                "result": result,
            }
    ours = rows["stepgauge"]
    for label, row in rows.items():
        result = row.pop("result")
        row["times_ours_cpu"] = row["cpu_s"] / ours["cpu_s"]
        row["times_ours_wall"] = row["wall_s"] / ours["wall_s"]
        row["our_memory_of_it"] = ours["extra_mb"] / max(row["extra_mb"], 1.0)
        print(f"{name:12} {label:12} { {key: round(value, 2) for key, value in row.items()} }", flush=True)
        row["result"] = result
    return rows


def agree(left: list[list[float]], right: Sequence[Any]) -> float:
    """Largest difference of two readings."""
    pairs = [(a, b) for x, y in zip(left, right, strict=True) for a, b in zip(x, getattr(y, "values", y), strict=True)]
    return max(abs(a - b) for a, b in pairs)


def beam_steps(rollouts: Sequence[Rollout]) -> tuple[str, list[list[list[str]]]]:
    """A problem of at least 200 tokens, and for each of 8 depths and 4 beams 8 real steps."""
    texts = [step for rollout in rollouts for step in rollout.steps if 60 <= len(step) <= 160]
    problem = " ".join(rollout.problem for rollout in rollouts[:120:8])[:1100]
    steps = iter(texts * 20)
    return problem, [[[next(steps) for _ in range(8)] for _ in range(4)] for _ in range(8)]


def search(prm: MCPRM, problem: str, tree: list[list[list[str]]], cpu: list[float]) -> list[Any]:
    """The beam search with sessions; child 0 of each beam goes on. ``cpu`` gets the seconds of each depth."""
    root = prm.open(Rollout(problem, ()))
    beams = [root.fork() for _ in range(4)]
    last: list[Any] = []
    for depth in tree:
        children = [beam.fork() for beam, steps in zip(beams, depth, strict=True) for _ in steps]
        start = time.process_time()
        last = prm.extend_batch(children, [step for steps in depth for step in steps])
        cpu.append(time.process_time() - start)
        beams = children[::8]
    return last


def prefixes(problem: str, tree: list[list[list[str]]], depth: int) -> list[Rollout]:
    """The 32 rollouts that a search without sessions scores at a depth (1 = the first)."""
    return [
        Rollout(problem, (*[tree[d][beam][0] for d in range(depth - 1)], step))
        for beam, steps in enumerate(tree[depth - 1])
        for step in steps
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a folder or .gguf file of a causal LM")
    parser.add_argument("--problems", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--max-tokens", type=int, default=2048)
    parser.add_argument("--all-depths", action="store_true", help="run (b) at each of the 8 depths, not at 1 and 8")
    options = parser.parse_args()
    folder = str(model_folder(options.model))
    model, _ = load_causal_lm(folder, device="cpu")
    prm = MCPRM(folder, convention=ROW, device="cpu", max_tokens=options.max_tokens)
    writer = prm._load().layout.writer  # type: ignore[union-attr]
    labels = [writer.one_id(label, "label") for label in ROW.labels]
    by_problem: dict[str, list[Rollout]] = {}
    for rollout in bundled("dev_1.5b"):
        by_problem.setdefault(rollout.problem, []).append(rollout)
    chosen = [Rollout(r.problem, r.steps) for group in list(by_problem.values())[: options.problems] for r in group[:8]]
    passes = passes_of(prm, chosen)
    print(f"{machine()}\nbest of 8: {len(chosen)} rollouts, {sum(len(ids) for ids, _ in passes)} tokens", flush=True)
    calls: dict[str, Callable[[], Any]] = {
        "one by one": lambda: one_by_one(model, labels, passes),
        "padded": lambda: padded(model, labels, passes),
        "stepgauge": lambda: prm.score_batch(chosen),
    }
    best = compare("best of 8", calls, options.repeats)
    difference = agree(best["padded"].pop("result"), best["stepgauge"].pop("result"))
    best["one by one"].pop("result")
    problem, tree = beam_steps(bundled("dev_1.5b"))
    length = len(prm._load().layout.prompt(problem))
    cpu: list[float] = []
    ours = measured(lambda: search(prm, problem, tree, cpu))
    print(
        f"beam search: prefix of {length} tokens; sessions {ours[0]:.1f} s wall, {ours[1]:.1f} s CPU, {ours[2]:.0f} MB"
    )
    print(
        f"CPU seconds of steps 1 to 8: {[round(x, 2) for x in cpu]}; step 8 / step 2 = {cpu[7] / cpu[1]:.2f}",
        flush=True,
    )
    depths = list(range(1, 9)) if options.all_depths else [1, 8]
    scratch = []
    for depth in depths:
        each = passes_of(prm, prefixes(problem, tree, depth))
        scratch.append(measured(lambda each=each: padded(model, labels, each)))  # type: ignore[misc]
        print(
            f"(b) at depth {depth}: {scratch[-1][0]:.1f} s wall, {scratch[-1][1]:.1f} s CPU, {scratch[-1][2]:.0f} MB",
            flush=True,
        )
    difference = max(difference, agree(scratch[-1][3], ours[3]))
    wall, used = (8 * sum(turn[kind] for turn in scratch) / len(scratch) for kind in (0, 1))
    memory = max(turn[2] for turn in scratch)
    how = (
        "all depths" if options.all_depths else "8 x the mean of depths 1 and 8: tokens grow by the same at each depth"
    )
    print(f"(b), {how}: {wall:.1f} s wall, {used:.1f} s CPU, {memory:.0f} MB")
    beam = {"prefix": length, "cpu_ratio": used / ours[1], "wall_ratio": wall / ours[0], "memory": ours[2] / memory}
    beam |= {"step_8_of_step_2": cpu[7] / cpu[1], "scratch": how}
    print({key: round(value, 2) if isinstance(value, float) else value for key, value in beam.items()})
    print(json.dumps({"machine": machine(), "best_of_8": best, "beam": beam, "largest_difference": difference}))


if __name__ == "__main__":
    main()
