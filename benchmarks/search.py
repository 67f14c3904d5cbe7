"""Best-of-n, votes, several temperatures, beam search and DVTS with a local model: accuracy against tokens spent.

Run: python benchmarks/search.py MODEL PROBLEMS.jsonl [--problems 30] [--plot docs/search.svg]

MODEL is a folder or a .gguf file (docs/logprob.md says where to get one); PROBLEMS has rows {"problem", "gold"}, for
example of reasoning-gym: ``reasoning_gym.create_dataset("chain_sum", size=30, seed=0)``. All rules choose among the
same samples; searches get the same number of steps a round. Tokens are those generated, discarded steps included.
The last line is one JSON document; the plot needs matplotlib.
"""

from __future__ import annotations

import argparse
import copy
import json
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import transformers

from stepgauge import Rollout, load
from stepgauge.lm import load_causal_lm
from stepgauge.selection import (
    Beam,
    NextStep,
    beam_search,
    best_of_n,
    bootstrap_interval,
    borda_vote,
    dvts,
    majority_vote,
    multi_temperature_vote,
    weighted_vote,
)
from stepgauge.verifiers import answer_classes, extract_answer, verify

SHOTS = [
    (
        "State the final answer to the following arithmetic problem: 3 + 5 - 2 =",
        "3 + 5 = 8\n8 - 2 = 6\nThe answer is 6.",
    ),
    (
        "State the final answer to the following arithmetic problem: 41 - 7 + 12 + 3 =",
        "41 - 7 = 34\n34 + 12 = 46\n46 + 3 = 49\nThe answer is 49.",
    ),
]
MAX_STEP_TOKENS, DEPTH = 20, 6
WIDTH = 4


class LocalPolicy:
    """Next steps (lines) from a local causal LM, sampled; ends with a line that states the answer.

    The prompt of a problem runs once; its cache is shared by all prefixes and samples.
    """

    def __init__(self, model: str, temperature: float = 0.8) -> None:
        self.model, self.tokenizer = load_causal_lm(model)
        self.temperature = temperature
        self.newlines = {i for i in range(len(self.tokenizer)) if "\n" in self.tokenizer.decode([i])}
        self.prompt = ""
        self.begun: Any = None

    def _begin(self, problem: str) -> None:
        turns = [
            {"role": role, "content": text}
            for question, answer in [*SHOTS, (problem, None)]
            for role, text in (("user", question), ("assistant", answer))
            if text is not None
        ]
        prompt = str(self.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True))
        if prompt != self.prompt:
            self.prompt = prompt
            self.ids = self.tokenizer(prompt, add_special_tokens=False)["input_ids"]
            begun = self.model(input_ids=torch.tensor([self.ids[:-1]]), use_cache=True)
            self.cache_name = "cache" if "cache" in begun else "past_key_values"  # its name before transformers 5.24
            self.begun = begun[self.cache_name]

    @torch.inference_mode()
    def __call__(self, prefixes: Sequence[Rollout], n: int, seed: int) -> list[list[NextStep]]:
        """See ``selection.Propose``."""
        self._begin(prefixes[0].problem)
        random = torch.Generator().manual_seed(seed)
        written = ["".join(step + "\n" for step in prefix.steps) for prefix in prefixes]
        suffixes = [[self.ids[-1], *self.tokenizer(text, add_special_tokens=False)["input_ids"]] for text in written]
        rows = [suffix for suffix in suffixes for _ in range(n)]
        width = max(map(len, rows))
        ids = torch.tensor([[0] * (width - len(row)) + row for row in rows])  # (B, S), padded on the left
        real = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
        mask = torch.cat([torch.ones(len(rows), len(self.ids) - 1, dtype=torch.long), real], 1)  # (B, P + S)
        places = (mask.cumsum(1) - 1).clamp(min=0)[:, -width:]
        cache = copy.deepcopy(self.begun)
        cache.batch_repeat_interleave(len(rows))
        drawn: list[list[int]] = [[] for _ in rows]
        open_rows = set(range(len(rows)))
        for _ in range(MAX_STEP_TOKENS):
            given = {"input_ids": ids, "attention_mask": mask, "position_ids": places, self.cache_name: cache}
            out = self.model(**given, use_cache=True)
            chances = (out.logits[:, -1].float() / self.temperature).softmax(1)  # (B, V)
            ids = torch.multinomial(chances, 1, generator=random)  # (B, 1)
            for row in tuple(open_rows):
                drawn[row].append(int(ids[row]))
                if drawn[row][-1] in self.newlines or drawn[row][-1] == self.tokenizer.eos_token_id:
                    open_rows.remove(row)
            if not open_rows:
                break
            mask = torch.cat([mask, mask.new_ones(len(rows), 1)], 1)
            places = places[:, -1:] + 1
        steps = [self._step(tokens) for tokens in drawn]
        return [steps[at * n : (at + 1) * n] for at in range(len(prefixes))]

    def _step(self, tokens: list[int]) -> NextStep:
        text = self.tokenizer.decode(tokens, skip_special_tokens=True).strip()
        return NextStep(text, len(tokens), tokens[-1] == self.tokenizer.eos_token_id or "answer is" in text)


def pick(beams: Sequence[Beam], rule: str) -> str | None:
    """The answer a rule chooses."""
    found = [extract_answer(beam.rollout.response) if beam.done else None for beam in beams]
    answers = [None if answer is None else answer.text for answer in found]
    classes = answer_classes(answers)
    scores = [beam.score for beam in beams]
    rules = {
        "majority": lambda: majority_vote(classes),
        "best-of-n": lambda: best_of_n(classes, scores),
        "weighted vote": lambda: weighted_vote(classes, scores),
        "Borda": lambda: borda_vote(classes, scores),
    }
    index = rules[rule]().index
    return None if index is None else answers[index]


def temperatures_pick(by_temperature: dict[float, Sequence[Beam]]) -> str | None:
    """The pooled vote over several temperatures."""
    beams = [(temperature, beam) for temperature, group in by_temperature.items() for beam in group]
    found = [extract_answer(beam.rollout.response) if beam.done else None for _, beam in beams]
    classes = answer_classes([None if answer is None else answer.text for answer in found])
    grid: dict[float, list[int | None]] = {temperature: [] for temperature in by_temperature}
    for (temperature, _), label in zip(beams, classes, strict=True):
        grid[temperature].append(label)
    winner = multi_temperature_vote(grid).pooled.winner
    first = None if winner is None else found[classes.index(winner)]
    return None if first is None else first.text


def run(policy: LocalPolicy, problem: Rollout, seed: int, sizes: Sequence[int]) -> dict[str, tuple[bool, int]]:
    """{strategy: (solved, tokens)} of one problem. Votes over n samples take the first n of the largest draw."""
    scorer = load("arithmetic")
    found: dict[str, tuple[bool, int]] = {}

    def note(name: str, answer: str | None, tokens: int) -> None:
        found[name] = (answer is not None and verify(problem.gold or "", answer).equal, tokens)

    def sample(n: int, temperature: float) -> list[Beam]:
        policy.temperature = temperature
        beams = dvts(problem, policy, scorer, n=n, width=1, depth=DEPTH, how="min", seed=seed).beams
        return sorted(beams, key=lambda beam: beam.tree)

    drawn = sample(max(sizes), 0.8)
    by_temperature = {temperature: sample(max(sizes) // 2, temperature) for temperature in (0.4, 1.0)}
    policy.temperature = 0.8
    for n in sizes:
        tokens = sum(beam.tokens for beam in drawn[:n])
        for rule in ("majority", "best-of-n", "weighted vote", "Borda"):
            note(f"{rule} @{n}", pick(drawn[:n], rule), tokens)
        grid = {temperature: beams[: n // 2] for temperature, beams in by_temperature.items()}
        spent = sum(beam.tokens for beams in grid.values() for beam in beams)
        note(f"multi-temperature @{n}", temperatures_pick(grid), spent)
        for name, search in (("beam search", beam_search), ("DVTS", dvts)):
            result = search(problem, policy, scorer, n=n, width=WIDTH, depth=DEPTH, how="min", seed=seed)
            note(f"{name} @{n}", pick(result.beams, "weighted vote"), result.tokens)
    return found


def plot(rows: dict[str, dict[str, float]], path: str) -> None:
    """Accuracy against mean tokens, with intervals."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    lines: dict[str, list[dict[str, float]]] = {}
    for name, row in rows.items():
        lines.setdefault(name.rpartition(" @")[0], []).append(row)
    for shift, (name, points) in enumerate(lines.items()):
        points = sorted(points, key=lambda row: row["tokens"])
        x = [row["tokens"] * (1 + 0.008 * shift) for row in points]  # bars side by side
        y = [row["solved"] for row in points]
        bars = [[row["solved"] - row["low"] for row in points], [row["high"] - row["solved"] for row in points]]
        axes.errorbar(x, y, yerr=bars, marker="o", capsize=3, label=name)
    axes.set(xlabel="tokens a problem (generated, discarded ones included)", ylabel="solved", ylim=(0, 1))
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", nargs="?")
    parser.add_argument("problems_file", nargs="?")
    parser.add_argument("--problems", type=int, default=30)
    parser.add_argument("--sizes", default="4,8")
    parser.add_argument("--plot")
    options = parser.parse_args()
    if options.model is None or options.problems_file is None:
        print("skipped: needs a local model and a file of problems; see the head of this file")
        return
    rows = [json.loads(line) for line in Path(options.problems_file).read_text().splitlines()][: options.problems]
    policy = LocalPolicy(options.model)
    sizes = [int(size) for size in options.sizes.split(",")]
    results: dict[str, list[tuple[bool, int]]] = {}  # a value a problem
    started = time.perf_counter()
    for seed, row in enumerate(rows):
        for name, outcome in run(policy, Rollout(row["problem"], (), gold=str(row["gold"])), seed, sizes).items():
            results.setdefault(name, []).append(outcome)
        print(f"{seed + 1} of {len(rows)} problems, {time.perf_counter() - started:.0f} s", flush=True)
    table: dict[str, dict[str, Any]] = {}
    for name, outcomes in results.items():
        solved = bootstrap_interval([float(right) for right, _ in outcomes])
        tokens = sum(tokens for _, tokens in outcomes) / len(outcomes)
        table[name] = {"solved": solved.mean, "low": solved.low, "high": solved.high, "tokens": tokens}
        print(f"{name:24} {solved.mean:.3f}  ({solved.low:.3f} to {solved.high:.3f})  {tokens:7.0f} tokens")
    if options.plot:
        plot(table, options.plot)
    about = {"torch": torch.__version__, "transformers": transformers.__version__, "python": platform.python_version()}
    print(json.dumps({"table": table, "problems": len(rows), "model": Path(options.model).name, **about}))


if __name__ == "__main__":
    main()
