"""A small policy that adds and subtracts step by step, for benchmarks that need a local model which is sometimes right.

    python benchmarks/arithmetic_policy.py problems --size 20000 --out out/problems.jsonl   # needs reasoning-gym (PyPI)
    python benchmarks/arithmetic_policy.py train out/problems.jsonl --out out/policy --seconds 400
    python benchmarks/arithmetic_policy.py solve out/policy out/problems.jsonl --out out/solutions.jsonl

Problems are reasoning-gym's ``chain_sum`` (one-digit numbers, 5 to 7 terms), solutions "4 - 1 = 3.", "3 + 7 = 10.", …,
"The answer is 10.", one a line. The model is a Llama of 0.7M parameters with one token a digit; ``train`` stops when
the time is up or when 19 of 20 sampled steps are right, so that it still errs. The last 200 problems are not trained
on; ``solve`` samples one solution of each of them at temperature 1.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from pathlib import Path
from typing import Any

HELD_OUT = 200
BATCH = 64
STOP_AT = 0.95  # share of right steps


def problems(size: int, seed: int) -> list[dict[str, str]]:
    """Rows of problem, gold answer and a worked solution."""
    import reasoning_gym

    options = {"min_terms": 5, "max_terms": 7, "min_digits": 1, "max_digits": 1, "allow_negation": False}
    made = {
        item["question"]: item for item in reasoning_gym.create_dataset("chain_sum", seed=seed, size=size, **options)
    }
    return [
        {"id": f"chain_sum-{seed}-{n}", "problem": question, "gold": item["answer"], "solution": worked(question)}
        for n, (question, item) in enumerate(made.items())
    ]


def worked(question: str) -> str:
    """The solution, a line an operation."""
    tokens = re.findall(r"\d+|[+-]", question.rsplit(":", 1)[1])
    total, lines = int(tokens[0]), []
    for sign, number in zip(tokens[1::2], tokens[2::2], strict=True):
        after = total + int(number) if sign == "+" else total - int(number)
        lines.append(f"{total} {sign} {number} = {after}.")
        total = after
    return "\n".join([*lines, f"The answer is {total}."])


def right_steps(question: str, solution: str) -> list[bool]:
    """Whether each line is the one the problem asks for there, given that those before it were."""
    wanted, got = worked(question).split("\n"), solution.split("\n")
    same = [a == b for a, b in zip(wanted, got, strict=False)]
    end = same.index(False) + 1 if False in same else len(same)
    return same[:end]


def make_tokenizer(texts: list[str]) -> Any:
    """Words, single digits, single other characters."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    pieces = re.compile(r" ?[A-Za-z]+|\d|[^A-Za-z\d]")
    known = sorted({piece for text in texts for piece in pieces.findall(text)})
    vocabulary = {piece: at for at, piece in enumerate(["<unk>", "<bos>", "<eos>", *known])}
    raw = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.Split(Regex(r" ?[A-Za-z]+|\d|[^A-Za-z\d]"), "isolated")
    raw.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=raw, unk_token="<unk>", bos_token="<bos>", eos_token="<eos>")


def make_model(tokenizer: Any) -> Any:
    """A Llama that fits the tokenizer."""
    import torch
    import transformers

    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=128,
            intermediate_size=384,
            num_hidden_layers=3,
            num_attention_heads=4,
            max_position_embeddings=512,
            tie_word_embeddings=True,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )
    )


def train(rows: list[dict[str, str]], out: Path, seconds: float) -> None:
    """Cross-entropy of the solutions' tokens, AdamW; saves a folder that ``LocalGenerator`` reads."""
    import torch

    tokenizer = make_tokenizer([f"{row['problem']}\n\n{row['solution']}" for row in rows])
    model = make_model(tokenizer)
    print(f"{sum(p.numel() for p in model.parameters())} parameters, {len(tokenizer)} tokens", flush=True)
    encoded = []
    for row in rows[:-HELD_OUT]:
        prompt = tokenizer.encode(f"<bos>{row['problem']}\n\n", add_special_tokens=False)
        encoded.append((prompt, [*tokenizer.encode(row["solution"], add_special_tokens=False), tokenizer.eos_token_id]))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    random_, started, step, checked = random.Random(0), time.monotonic(), 0, 0.0
    while (spent := time.monotonic() - started) < seconds:
        batch = random_.sample(encoded, BATCH)
        width = max(len(prompt) + len(answer) for prompt, answer in batch)
        ids = torch.full((BATCH, width), tokenizer.eos_token_id)
        labels = torch.full((BATCH, width), -100)
        for at, (prompt, answer) in enumerate(batch):
            ids[at, : len(prompt) + len(answer)] = torch.tensor([*prompt, *answer])
            labels[at, len(prompt) : len(prompt) + len(answer)] = torch.tensor(answer)
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * min(1.0, (step + 1) / 50)
        loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        if spent - checked > 20:
            checked = spent
            model.save_pretrained(out)
            tokenizer.save_pretrained(out)
            share = accuracy(out, rows[-HELD_OUT:][:40])
            print(f"{step} steps, {spent:.0f} s, loss {loss.item():.3f}, right steps {share:.3f}", flush=True)
            if share >= STOP_AT:
                break
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


def sampled(policy: Path, rows: list[dict[str, str]]) -> list[str]:
    """One solution of each problem at temperature 1."""
    from stepgauge.generation import Prompt
    from stepgauge.lm.generating import LocalGenerator

    generator = LocalGenerator(str(policy), max_tokens=160)
    return [drawn[0].text for drawn in generator.complete([Prompt(row["problem"]) for row in rows], 1)]


def accuracy(policy: Path, rows: list[dict[str, str]]) -> float:
    """Share of right steps among those whose predecessors are right."""
    steps = [
        ok for row, text in zip(rows, sampled(policy, rows), strict=True) for ok in right_steps(row["problem"], text)
    ]
    return sum(steps) / max(len(steps), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["problems", "train", "solve"])
    parser.add_argument("sources", nargs="*", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--size", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=400.0)
    options = parser.parse_args()
    if options.what == "problems":
        rows: list[dict[str, str]] = problems(options.size, options.seed)
    else:
        known = [json.loads(line) for line in options.sources[-1].read_text(encoding="utf-8").splitlines()]
        if options.what == "train":
            train(known, options.out, options.seconds)
            return
        held_out = known[-HELD_OUT:]
        rows = [
            {"id": row["id"], "problem": row["problem"], "gold": row["gold"], "text": text}
            for row, text in zip(held_out, sampled(options.sources[0], held_out), strict=True)
        ]
        whole = sum(all(right_steps(row["problem"], row["text"])) for row in rows)
        print(f"{whole} of {len(rows)} sampled solutions are right throughout")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
