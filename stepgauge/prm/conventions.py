"""How each published process reward model is read: prompt, tag, head, position and meaning, as data.

A row says what its authors do at inference; ``stepgauge.prm.layouts`` turns it into token ids and
``stepgauge.prm.heads`` reads the score. ``docs/prm.md`` has the same table with what was verified.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from stepgauge.scoring import Kind

__all__ = ["CHECKPOINTS", "CONVENTIONS", "Convention", "choose_convention"]

Layout = Literal["tag", "turns", "passes"]
Reading = Literal["sigmoid", "signed", "validity"]

QWEN_SYSTEM = "Please reason step by step, and put your final answer within \\boxed{}."
UNIVERSAL_QUESTION = "{problem}\n\n###\n\nThe reference answer is: There is no reference answer for this question."


@dataclass(frozen=True, slots=True)
class Convention:
    """One family: how its ids are written, which state is read, by which head, and what the number means.

    Args:
        name: the family's short name.
        layout: "tag" = prompt, then every step and its tag in one sequence; "turns" = every step a user turn that the
            assistant answers with the positive label; "passes" = one sequence a step, read at its end.
        head: names of the linear layers of a head of its own (ReLU between them), alternatives separated by "|"; empty
            = the rows of the language-model head of ``labels``.
        outputs: rows of the last layer of ``head``.
        reading: "sigmoid" = chance of the positive output; "signed" = p₁ − p₀; "validity" = p₁ + p₂ of three classes.
        kind, aggregate, threshold: what a score means, and how its authors use it.
        prompt: text with ``{problem}``; a control token of the tokenizer in it becomes its id.
        tag: what follows each step and is read; empty = the step's last token.
        tag_id, label_ids: the ids in the published tokenizer, for reference and tests.
        labels: (positive, negative) label text for the language-model head.
        lead: text before the first and before each later step.
        numbered: put "Step k: " before a step that lacks it.
        fresh: steps are encoded like texts of their own (not like a continuation).
        lines: every line of a step is followed by the tag; the last one is read.
        bos: the sequence begins with the tokenizer's BOS, where it has one.
        system, question: the turns of a chat layout.
    """

    name: str
    layout: Layout = "tag"
    head: tuple[str, ...] = ()
    outputs: int = 2
    reading: Reading = "sigmoid"
    kind: Kind = "correctness"
    aggregate: str = "min"
    threshold: float = 0.5
    prompt: str = "{problem}"
    tag: str = ""
    tag_id: int | None = None
    labels: tuple[str, str] | tuple[()] = ()
    label_ids: tuple[int, int] | None = None
    lead: tuple[str, str] = ("", "")
    numbered: bool = False
    fresh: bool = False
    lines: bool = False
    bos: bool = False
    system: str = ""
    question: str = "{problem}"


_ROWS = (
    Convention(
        "math_shepherd",
        kind="value",
        aggregate="min",
        tag="ки",
        tag_id=12902,
        labels=("+", "-"),
        label_ids=(648, 387),
        lead=(" ", "\n"),
        numbered=True,
        bos=True,
    ),
    Convention("rlhflow", layout="turns", kind="value", aggregate="mean", labels=("+", "-"), label_ids=(10, 12)),
    Convention(
        "qwen",
        head=("score.0", "score.2"),
        aggregate="prod",
        prompt=(
            f"<|im_start|>system\n{QWEN_SYSTEM}<|im_end|>\n<|im_start|>user\n{{problem}}<|im_end|>\n"
            "<|im_start|>assistant\n"
        ),
        tag="<extra_0>",
        tag_id=151651,
    ),
    Convention(
        "skywork",
        head=("v_head.summary",),
        outputs=1,
        kind="value",
        aggregate="mean",
        prompt="{problem}\n",
        tag="\n",
        fresh=True,
        lines=True,
        bos=True,
    ),
    Convention(
        "er_prm",
        kind="value",
        tag=" ки",
        tag_id=116624,
        labels=(" +", " -"),
        label_ids=(489, 482),
        lead=(" ", ""),
        bos=True,
    ),
    Convention("trl", head=("score",), tag="\n", fresh=True, bos=True),
    Convention(
        "pure",
        head=("score",),
        reading="signed",
        aggregate="softmin",
        threshold=0.0,
        tag="\n\n",
        fresh=True,
        bos=True,
    ),
    Convention(
        "universal",
        layout="passes",
        head=("v_head.summary|v_head|score",),
        outputs=1,
        system="You are a helpful assistant.",
        question=UNIVERSAL_QUESTION,
    ),
    Convention(
        "math_psa",
        kind="value",
        tag=" \n\n\n\n\n",
        tag_id=76325,
        labels=(" +", " -"),
        label_ids=(488, 481),
        lead=(" ", ""),
    ),
    Convention("pqm", head=("v_head",), outputs=1, kind="value", tag=" [PRM]", lead=("\n", "\n"), bos=True),
    Convention(
        "reason_eval",
        head=("score_head",),
        outputs=3,
        reading="validity",
        prompt="Question:\n{problem}\nAnswer:\nLet's think step by step.\n",
        bos=True,
    ),
)

CONVENTIONS: Mapping[str, Convention] = MappingProxyType({row.name: row for row in _ROWS})

# (pattern of the checkpoint's name, family, what differs)
CHECKPOINTS: tuple[tuple[str, str, Mapping[str, str]], ...] = (
    (r"math-shepherd-mistral", "math_shepherd", {}),
    (r"llama3\.1-8b-prm-(mistral|deepseek)-data", "rlhflow", {}),
    (r"qwen2\.5-math-prm-|qwen2\.5-math-7b-prm800k", "qwen", {}),
    (r"skywork-o1-open-prm", "skywork", {}),
    (r"llama3\.1-math-prm", "er_prm", {}),
    (r"qwen2\.5-math-[\d.]+b-instruct-prm-0\.2", "trl", {"tag": "\n\n"}),
    (r"qwen2-0\.5b-reward-math-sheperd", "trl", {}),
    (r"pure-prm", "pure", {}),
    (r"universal-prm", "universal", {}),
    (r"math-psa", "math_psa", {}),
    (r"pqm", "pqm", {}),
    (r"reasoneval", "reason_eval", {}),
    (r"eurusprm", "implicit", {}),
    (r"implicitprm_", "implicit", {}),
)


def choose_convention(
    names: Iterable[str], tensors: Mapping[str, tuple[int, ...]], override: str | Convention | None = None
) -> Convention:
    """The convention of a checkpoint: as told, by its published name, or by its head tensors.

    Args:
        names: what the checkpoint is called: hub name, folder, ``_name_or_path`` of its config, architectures.
        tensors: shape of every tensor of the checkpoint outside the transformer body.
        override: a name of ``CONVENTIONS`` or a row of your own.

    Raises:
        ValueError: an unknown name; a head that fits no family or several.

    Example:
        >>> choose_convention(["Qwen/Qwen2.5-Math-PRM-7B"], {}).tag
        '<extra_0>'
        >>> choose_convention(["mine"], {"v_head.summary.weight": (1, 64)}).name
        'skywork'
    """
    if isinstance(override, Convention):
        return override
    known = ", ".join(CONVENTIONS)
    if override is not None:
        if override not in CONVENTIONS:
            raise ValueError(f"convention must be one of {known}, or a Convention; got {override!r}")
        return CONVENTIONS[override]
    for name in names:
        for pattern, family, changes in CHECKPOINTS:
            if re.search(pattern, name.lower()):
                if family == "implicit":
                    raise ValueError(
                        f"{name!r} is an implicit PRM, read as a log-ratio of two models; "
                        "use stepgauge.prm.ImplicitPRM or load('implicit:…')"
                    )
                return replace(CONVENTIONS[family], **changes)  # type: ignore[arg-type]  # text fields only
    if "score.0.weight" in tensors and "score.2.weight" in tensors:
        return CONVENTIONS["qwen"]
    if "v_head.summary.weight" in tensors:
        return CONVENTIONS["skywork"]
    if "v_head.weight" in tensors:
        return CONVENTIONS["pqm"]
    if tensors.get("score_head.weight", (0,))[0] == 3:
        return CONVENTIONS["reason_eval"]
    if tensors.get("score.weight", (0,))[0] == 2:
        return CONVENTIONS["trl"]
    heads = ", ".join(sorted(tensors)) or "none beside the transformer's"
    raise ValueError(
        f"cannot tell how {next(iter(names), 'this checkpoint')!r} is read: its head tensors are {heads}, which fit no "
        f"one family; pass convention=… with one of {known}"
    )
