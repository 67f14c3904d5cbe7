"""Scoring with a real 135M model on the CPU: one by one, padded batches with full logits, and this library.

    python benchmarks/prm_scoring.py --model SmolLM2-135M-Instruct.Q4_1.gguf         about ten minutes on 2 cores

Two workloads with real text (the bundled rollouts): best of 8 (8 candidates a problem), and a beam search of 4 beams
x 8 children x 8 steps behind a problem of at least 200 tokens, where (b) scores each step's 32 prefixes from scratch
and this library extends sessions. The label rows are two ordinary tokens: speed does not depend on what they mean.
CPU seconds hardly see other processes of the machine. The last line is JSON.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from typing import Any

import torch
from measure import extra_mb, machine, seconds

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


def compare(name: str, tokens: int, calls: dict[str, Callable[[], Any]], repeats: int) -> dict[str, Any]:
    """Times in turns, so that a busy moment meets all contenders; memory apart."""
    best = {label: (float("inf"), float("inf")) for label in calls}
    for _ in range(repeats):
        for label, call in calls.items():
            wall, cpu = seconds(call)
            best[label] = min(best[label][0], wall), min(best[label][1], cpu)
    memory = {label: extra_mb(call) for label, call in calls.items()}
    rows = {
        label: {
            "wall_s": round(wall, 2),
            "cpu_s": round(cpu, 2),
            "tokens_per_cpu_s": round(tokens / cpu),
            "extra_mb": round(memory[label]),
        }
        for label, (wall, cpu) in best.items()
    }
    ours = rows["stepgauge"]
    for label, row in rows.items():
        row["times_ours_cpu"] = round(row["cpu_s"] / ours["cpu_s"], 2)
        row["times_ours_wall"] = round(row["wall_s"] / ours["wall_s"], 2)
        row["memory_of_ours"] = round(ours["extra_mb"] / max(row["extra_mb"], 1), 2)
        print(f"{name:12} {label:10} {row}", flush=True)
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


def search_from_scratch(
    score: Callable[[list[Rollout]], Any], problem: str, tree: list[list[list[str]]]
) -> list[list[float]]:
    """The same search without sessions: each depth scores its 32 prefixes whole; child 0 of each beam goes on."""
    beams: list[tuple[str, ...]] = [()] * 4
    last = []
    for depth in tree:
        children = [(*beam, step) for beam, steps in zip(beams, depth, strict=True) for step in steps]
        last = score([Rollout(problem, child) for child in children])
        beams = children[::8]
    return last


def search(prm: MCPRM, problem: str, tree: list[list[list[str]]], cpu: list[float] | None = None) -> list[Any]:
    root = prm.open(Rollout(problem, ()))
    beams = [root.fork() for _ in range(4)]
    last: list[Any] = []
    for depth in tree:
        children = [beam.fork() for beam, steps in zip(beams, depth, strict=True) for _ in steps]
        texts = [step for steps in depth for step in steps]

        def step(children: list[Any] = children, texts: list[str] = texts) -> None:
            last[:] = prm.extend_batch(children, texts)

        spent = seconds(step)[1]
        if cpu is not None:
            cpu.append(spent)
        beams = children[::8]
    return last


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a folder or .gguf file of a causal LM")
    parser.add_argument("--problems", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--max-tokens", type=int, default=2048)
    options = parser.parse_args()
    folder = str(model_folder(options.model))
    model, _ = load_causal_lm(folder, device="cpu")
    prm = MCPRM(folder, convention=ROW, device="cpu", max_tokens=options.max_tokens)
    writer = prm._load().layout.writer  # type: ignore[union-attr]
    labels = [writer.one_id(label, "label") for label in ROW.labels]
    rollouts = bundled("dev_1.5b")
    by_problem: dict[str, list[Rollout]] = {}
    for rollout in rollouts:
        by_problem.setdefault(rollout.problem, []).append(rollout)
    chosen = [Rollout(r.problem, r.steps) for group in list(by_problem.values())[: options.problems] for r in group[:8]]
    passes = passes_of(prm, chosen)
    tokens = sum(len(ids) for ids, _ in passes)
    result: dict[str, Any] = {"machine": machine(), "tokens": tokens, "rollouts": len(chosen)}
    print(f"best of 8: {len(chosen)} rollouts, {tokens} tokens, largest difference ", end="")
    print(f"{agree(padded(model, labels, passes), prm.score_batch(chosen)):.1e}")
    result["best_of_8"] = compare(
        "best of 8",
        tokens,
        {
            "one by one": lambda: one_by_one(model, labels, passes),
            "padded": lambda: padded(model, labels, passes),
            "stepgauge": lambda: prm.score_batch(chosen),
        },
        options.repeats,
    )
    problem, tree = beam_steps(rollouts)
    prefix = len(prm._load().layout.prompt(problem))
    scratch = search_from_scratch(lambda some: padded(model, labels, passes_of(prm, some)), problem, tree)
    cpu: list[float] = []
    print(
        f"beam search: prefix of {prefix} tokens, largest difference {agree(scratch, search(prm, problem, tree)):.1e}"
    )
    search(prm, problem, tree, cpu)
    print(f"sessions: CPU seconds of steps 1-8 {[round(x, 2) for x in cpu]}, step 8 / step 2 = {cpu[7] / cpu[1]:.2f}")
    everything = [
        Rollout(problem, (*[tree[d][b][0] for d in range(depth)], step))
        for depth in range(8)
        for b in range(4)
        for step in tree[depth][b]
    ]
    result["beam_prefix"], result["session_cpu_s"] = prefix, [round(x, 3) for x in cpu]
    result["beam"] = compare(
        "beam search",
        sum(len(ids) for ids, _ in passes_of(prm, everything)),
        {
            "padded": lambda: search_from_scratch(
                lambda some: padded(model, labels, passes_of(prm, some)), problem, tree
            ),
            "stepgauge": lambda: search(prm, problem, tree),
            "tree at once": lambda: prm.score_batch(everything),
        },
        1,
    )
    print(json.dumps(result))


if __name__ == "__main__":
    main()
