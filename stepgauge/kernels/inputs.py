"""What every op of this folder is given: one language-model head over some rows, checked and laid out once."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

FLOATS = (torch.bfloat16, torch.float16, torch.float32, torch.float64)


@dataclass(frozen=True, slots=True)
class Spec:
    """How logits are made from ``hidden @ weight.T``, and which columns and labels count."""

    labels: Tensor | None  # (M,) int64, each in [0, vocab)
    vocab: int  # columns that count; the weight may have more (padding)
    softcap: float | None
    scale: Tensor | float  # inverse temperature: (M,) or one number

    def unbend(self, dz: Tensor, z: Tensor, rows: slice) -> Tensor:
        """The gradient of final logits z (n, columns) carried back through temperature and cap, in place."""
        scale = self.scale[rows].unsqueeze(1) if isinstance(self.scale, Tensor) else self.scale
        if self.softcap is not None:
            dz *= 1 - (z / (self.softcap * scale)).square_()
        return dz.mul_(scale)


@dataclass(frozen=True, slots=True)
class Rows:
    """Which rows of the caller's flattened tokens are computed; None is all of them."""

    shape: torch.Size  # the caller's token shape
    kept: Tensor | None  # (M,) int64

    def select(self, x: Tensor) -> Tensor:
        """(tokens, …) -> (M, …)"""
        return x if self.kept is None else x.index_select(0, self.kept)

    def restore(self, x: Tensor, fill: float) -> Tensor:
        """(M, …) -> (*shape, …); tokens that were not computed read ``fill``."""
        if self.kept is not None:
            full = x.new_full((self.shape.numel(), *x.shape[1:]), fill)
            x = full.index_copy(0, self.kept, x)
        return x.reshape(*self.shape, *x.shape[1:])


def result_dtype(hidden: Tensor) -> torch.dtype:
    """fp32, or float64 for float64 inputs."""
    return torch.float64 if hidden.dtype == torch.float64 else torch.float32


def check_head(hidden: Tensor, weight: Tensor, bias: Tensor | None, owner: str) -> None:
    """Shapes, dtypes and devices of one head."""
    if hidden.dtype not in FLOATS:
        raise TypeError(f"{owner}: hidden must be bf16, fp16, fp32 or fp64, got {hidden.dtype}; cast it first")
    if hidden.ndim < 2:
        raise ValueError(f"{owner}: hidden must be (tokens, H) or (batch, tokens, H), got shape {tuple(hidden.shape)}")
    if weight.ndim != 2 or weight.shape[1] != hidden.shape[-1]:
        raise ValueError(
            f"{owner}: weight must be (V, H) with H = {hidden.shape[-1]} as in hidden, got shape {tuple(weight.shape)};"
            " pass lm_head.weight as it is, not transposed"
        )
    if weight.dtype != hidden.dtype:
        raise TypeError(
            f"{owner}: hidden and weight must have one dtype, got {hidden.dtype} and {weight.dtype};"
            " cast hidden to weight.dtype"
        )
    if bias is not None and bias.shape != (weight.shape[0],):
        raise ValueError(f"{owner}: bias must be ({weight.shape[0]},), one a row of weight, got {tuple(bias.shape)}")
    for name, x in (("weight", weight), ("bias", bias)):
        if x is not None and x.device != hidden.device:
            raise ValueError(f"{owner}: {name} is on {x.device} but hidden on {hidden.device}; move them together")


def check_vocab(weight: Tensor, vocab_valid: int | None, owner: str) -> int:
    """The number of columns that count."""
    vocab = weight.shape[0] if vocab_valid is None else vocab_valid
    if not 1 <= vocab <= weight.shape[0]:
        raise ValueError(f"{owner}: vocab_valid must be in [1, {weight.shape[0]}] (rows of weight), got {vocab}")
    return vocab


def check_softcap(softcap: float | None, owner: str) -> None:
    if softcap is not None and not 0.0 < softcap < float("inf"):
        raise ValueError(f"{owner}: softcap must be a positive finite number or None, got {softcap}")


def choose_rows(targets: Tensor | None, shape: torch.Size, ignore_index: int, vocab: int, owner: str) -> Rows:
    """Rows whose target is not ``ignore_index``; every other target must name a column that counts."""
    if targets is None:
        return Rows(shape, None)
    if targets.shape != shape:
        raise ValueError(
            f"{owner}: targets must have one id a token, shape {tuple(shape)}, got {tuple(targets.shape)};"
            " shift them before the call if position t predicts token t + 1"
        )
    if targets.is_floating_point() or targets.dtype == torch.bool:
        raise TypeError(f"{owner}: targets must be integer ids, got {targets.dtype}")
    flat = targets.reshape(-1)
    valid = flat != ignore_index
    wrong = valid & ((flat < 0) | (flat >= vocab))
    if bool(wrong.any()):
        raise ValueError(
            f"{owner}: targets must be in [0, {vocab}) or ignore_index={ignore_index},"
            f" got {int(flat[wrong][0])}; mask such tokens with ignore_index or check vocab_valid"
        )
    return Rows(shape, None if bool(valid.all()) else valid.nonzero().squeeze(1))


def choose_scale(inv_temperature: float | Tensor, rows: Rows, like: Tensor, owner: str) -> Tensor | float:
    """The inverse temperature as one number, or one a kept row in the result dtype."""
    if not isinstance(inv_temperature, Tensor):
        if not 0.0 < inv_temperature < float("inf"):
            raise ValueError(f"{owner}: inv_temperature must be positive and finite, got {inv_temperature}")
        return float(inv_temperature)
    if inv_temperature.shape != rows.shape:
        raise ValueError(
            f"{owner}: inv_temperature must be a number or one a token, shape {tuple(rows.shape)},"
            f" got {tuple(inv_temperature.shape)}"
        )
    if inv_temperature.requires_grad:
        raise ValueError(f"{owner}: inv_temperature has no gradient here; pass inv_temperature.detach()")
    scale = rows.select(inv_temperature.reshape(-1).to(like.device, result_dtype(like)))
    if not bool(((scale > 0) & torch.isfinite(scale)).all()):
        raise ValueError(f"{owner}: every inv_temperature must be positive and finite; replace zeros before the call")
    return scale.contiguous()


def check_want(want: Sequence[str], known: Sequence[str], owner: str) -> tuple[str, ...]:
    """The wanted names in the order of ``known``."""
    unknown = [name for name in want if name not in known]
    if isinstance(want, str) or unknown or not want:
        raise ValueError(
            f"{owner}: want must be a non-empty collection of names out of {', '.join(known)}, got {want!r}"
        )
    return tuple(name for name in known if name in want)
