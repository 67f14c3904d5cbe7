"""Sample solutions of training problems with a small model: the raw material of the embedded process reward model.

    python examples/word_problem_prm/sample.py problems --gsm8k train.jsonl --out problems.jsonl      needs reasoning-gym
    python examples/word_problem_prm/sample.py rollouts problems.jsonl --model MODEL --out rollouts.jsonl

Problems: GSM8K's training set, and reasoning-gym's gsm_symbolic templates of which the bundled rollouts hold no
instance. Rollouts: 4 a problem at temperature 0.8, at most 256 tokens, weights in 8 bits on a CPU; a run that was
stopped goes on where it was. The weights in the package were made with Qwen2.5-Coder-0.5B-Instruct (Q4_K_M).
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

SEED = 910_000
SYSTEM = "Solve the problem. Write one step a line, and end with a line 'The answer is N.'"
SHOTS = (
    (
        "Tom has 3 boxes with 4 pens each. He gives away 5 pens. How many pens does he have left?",
        "Tom has 3 * 4 = 12 pens.\nAfter giving away 5 he has 12 - 5 = 7 pens.\nThe answer is 7.",
    ),
    (
        "A shirt costs 20 dollars and a hat costs half as much. How much do 2 shirts and 3 hats cost?",
        "A hat costs 20 / 2 = 10 dollars.\n2 shirts cost 2 * 20 = 40 dollars.\n3 hats cost 3 * 10 = 30 dollars.\n"
        "Together they cost 40 + 30 = 70 dollars.\nThe answer is 70.",
    ),
)


def _bigrams(text: str) -> set[tuple[str, str]]:
    words = re.findall(r"[a-z]+", text.lower())
    return set(pairwise(words))


def template_problems(each: int) -> list[dict[str, Any]]:
    """Instances of the gsm_symbolic templates that no bundled problem comes from: the nearest by shared word pairs."""
    from reasoning_gym.arithmetic.gsm_symbolic.gsm_symbolic import (
        GSMSymbolicDataset,
        GSMSymbolicDatasetConfig,
        tasks_ok,
    )

    from stepgauge.data import bundled

    make = GSMSymbolicDataset(GSMSymbolicDatasetConfig(seed=1, size=1)).generators
    looks = {
        task: [_bigrams(make[task](random.Random(seed), 1.0)["question"]) for seed in range(12)] for task in tasks_ok
    }
    taken = set()
    for problem in {rollout.problem for rollout in bundled("dev_0.5b")}:
        pairs = _bigrams(problem)
        taken.add(max(looks, key=lambda task: max(len(pairs & look) / len(pairs | look) for look in looks[task])))
    free = [task for task in tasks_ok if task not in taken]
    print(f"{len(taken)} templates are the bundled problems', {len(free)} are free")
    rows = []
    for task in free:
        for k in range(each):
            made = make[task](random.Random(SEED + 1000 * k + task), 1.0)
            solution = made["metadata"]["answer_cot"]
            rows.append(
                {
                    "problem_id": f"t{task}_{k}",
                    "problem": made["question"],
                    "gold": made["answer"],
                    "solution": solution,
                }
            )
    random.Random(3).shuffle(rows)
    return rows


def gsm8k_problems(path: Path) -> list[dict[str, Any]]:
    """GSM8K's training problems in a fixed random order."""
    rows = [json.loads(line) for line in path.open(encoding="utf-8")]
    random.Random(7).shuffle(rows)
    return [
        {
            "problem_id": f"g{index}",
            "problem": row["question"],
            "gold": row["answer"].split("####")[1].strip().replace(",", ""),
            "solution": row["answer"],
        }
        for index, row in enumerate(rows)
    ]


def sample(problems: list[dict[str, Any]], model_path: str, out: Path, samples: int, batch: int) -> None:
    """Append ``samples`` rollouts of each problem that ``out`` does not hold yet."""
    import torch

    from stepgauge.lm import load_causal_lm

    model, tokenizer = load_causal_lm(model_path)
    if model.device.type == "cpu":  # five times faster with AVX512-VNNI
        model = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)
    tokenizer.padding_side = "left"
    done = {json.loads(line)["problem_id"] for line in out.open(encoding="utf-8")} if out.exists() else set()
    todo = [row for row in problems if row["problem_id"] not in done]
    start, tokens = time.monotonic(), 0
    for at in range(0, len(todo), batch):
        group = todo[at : at + batch]
        prompts = []
        for row in group:
            turns = [{"role": "system", "content": SYSTEM}]
            for question, answer in SHOTS:
                turns += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
            turns.append({"role": "user", "content": row["problem"]})
            prompts.append(tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True))
        inputs = tokenizer(prompts, return_tensors="pt", padding=True, add_special_tokens=False).to(model.device)
        torch.manual_seed(SEED + len(done) + at)
        with torch.inference_mode():
            written = model.generate(
                **inputs, do_sample=True, temperature=0.8, top_p=1.0, top_k=0, max_new_tokens=256,
                num_return_sequences=samples, pad_token_id=tokenizer.eos_token_id,
            )[:, inputs.input_ids.shape[1] :].tolist()  # fmt: skip
        with out.open("a", encoding="utf-8") as file:
            for index, ids in enumerate(written):
                ends = [k for k, token in enumerate(ids) if token in tokenizer.all_special_ids]
                kept = ids[: ends[0]] if ends else ids
                tokens += len(kept)
                row = group[index // samples]
                text = tokenizer.decode(kept)
                file.write(
                    json.dumps(row | {"sample_id": index % samples, "text": text, "finished": bool(ends)}) + "\n"
                )
        print(
            f"{at + len(group)} of {len(todo)} problems, {tokens / (time.monotonic() - start):.0f} tokens/s", flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("problems", help="write the training problems")
    listing.add_argument("--gsm8k", type=Path, required=True, help="train.jsonl of GSM8K")
    listing.add_argument("--each", type=int, default=10, help="instances of a template")
    listing.add_argument("--out", type=Path, required=True)
    rolling = commands.add_parser("rollouts", help="sample solutions")
    rolling.add_argument("problems", type=Path)
    rolling.add_argument("--model", required=True, help="a folder or .gguf file")
    rolling.add_argument("--samples", type=int, default=4)
    rolling.add_argument("--batch", type=int, default=24, help="problems at a time")
    rolling.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    if options.command == "problems":
        templates, gsm8k = template_problems(options.each), gsm8k_problems(options.gsm8k)
        mixed = [row for pair in zip(templates, gsm8k, strict=False) for row in pair]
        options.out.write_text("".join(json.dumps(row) + "\n" for row in mixed), encoding="utf-8")
        print(f"wrote {len(mixed)} problems to {options.out}")
    else:
        rows = [json.loads(line) for line in options.problems.open(encoding="utf-8")]
        sample(rows, options.model, options.out, options.samples, options.batch)


if __name__ == "__main__":
    main()
