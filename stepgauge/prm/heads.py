"""From a state to a score: two label rows of the language-model head, or the small head of a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stepgauge.prm.conventions import Convention
from stepgauge.prm.weights import head_tensors, label_rows, read_tensor
from stepgauge.prm.writing import TokenWriter

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Head", "load_head", "read_scores"]


@dataclass(frozen=True, slots=True)
class Head:
    """Linear layers in fp32, ReLU between them."""

    layers: tuple[tuple[Tensor, Tensor | None], ...]  # ((out, in), (out,))

    def __call__(self, states: Tensor) -> Tensor:
        """(P, H) states, any dtype -> (P, outputs) logits, fp32."""
        logits = states.float()
        for index, (weight, bias) in enumerate(self.layers):
            if index:
                logits = logits.relu()
            logits = logits @ weight.to(logits.device).T  # (P, out)
            if bias is not None:
                logits = logits + bias.to(logits.device)
        return logits


def load_head(folder: Path, convention: Convention, writer: TokenWriter) -> Head:
    """The head that the convention reads.

    Raises:
        ValueError: tensors that are missing, of another shape, or left over (another head than this convention's).
    """
    present = head_tensors(folder)
    if not convention.head:
        _refuse_others(folder, set(present))
        positive, negative = (writer.one_id(label, "label") for label in convention.labels)
        return Head(((label_rows(folder, (negative, positive)), None),))
    layers, used = [], set()
    for choices in convention.head:
        names = choices.split("|")
        name = next((name for name in names if f"{name}.weight" in present), names[0])
        weight = read_tensor(folder, f"{name}.weight")
        bias = read_tensor(folder, f"{name}.bias") if f"{name}.bias" in present else None
        used |= {f"{name}.weight", f"{name}.bias"}
        layers.append((weight, bias))
    if convention.name in ("qwen", "skywork") and any(bias is None for _, bias in layers):
        raise ValueError(f"{folder} lacks a bias of {', '.join(convention.head)}; its head was not saved whole")
    if len(layers[-1][0]) != convention.outputs:
        raise ValueError(
            f"{convention.head[-1]} of {folder} has {len(layers[-1][0])} outputs, "
            f"the convention {convention.name!r} reads {convention.outputs}; pass another convention="
        )
    _refuse_others(folder, set(present) - used)
    return Head(tuple(layers))


def _refuse_others(folder: Path, others: set[str]) -> None:
    if others:
        raise ValueError(
            f"{folder} has tensors that this convention does not read: {', '.join(sorted(others))}; "
            "it is another family's checkpoint: pass the convention= it was made for"
        )


def read_scores(logits: Tensor, convention: Convention) -> tuple[Tensor, Tensor]:
    r"""(scores, log-odds), both (P,), from (P, outputs) logits.

    "sigmoid": σ(z₁ − z₀), or σ(z) of one output · "signed": p₁ − p₀ = 2 σ(z₁ − z₀) − 1 · "validity": p₁ + p₂ =
    σ(ln(e^{z₁} + e^{z₂}) − z₀). By position, never by which entries differ from zero: a saturated step keeps its place.

    Example:
        >>> import torch
        >>> from stepgauge.prm.conventions import CONVENTIONS
        >>> read_scores(torch.tensor([[200.0, 0.0], [0.0, 200.0]]), CONVENTIONS["trl"])[0].tolist()
        [0.0, 1.0]
    """
    if convention.outputs == 1:
        odds = logits[:, 0]
    elif convention.reading == "validity":
        odds = logits[:, 1:].logsumexp(1) - logits[:, 0]
    else:
        odds = logits[:, 1] - logits[:, 0]
    scores = odds.sigmoid()
    return (2 * scores - 1 if convention.reading == "signed" else scores), odds
