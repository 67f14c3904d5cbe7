"""A checkpoint's body and head from safetensors: stock transformers classes, never remote code."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepgauge.lm.loading import placement

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["checkpoint_names", "context_of", "head_tensors", "load_body", "read_tensor"]

BODY = "model."
LM_HEAD, EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"


def _shapes(folder: Path) -> dict[str, tuple[Path, tuple[int, ...]]]:
    from safetensors import safe_open

    found = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "pt") as stream:
            for name in stream.keys():  # noqa: SIM118  # not a mapping
                found[name] = path, tuple(stream.get_slice(name).get_shape())
    return found


def head_tensors(folder: Path) -> dict[str, tuple[int, ...]]:
    """Shape of each tensor outside the body, except the language-model head."""
    return {
        name: shape
        for name, (_, shape) in _shapes(folder).items()
        if not name.startswith(BODY) and not name.startswith("lm_head.")
    }


def read_tensor(folder: Path, name: str, rows: tuple[int, ...] | None = None) -> Tensor:
    """One tensor in fp32, or some rows of it, without reading the rest.

    Raises:
        ValueError: the checkpoint has no such tensor, or no such row.
    """
    import torch
    from safetensors import safe_open

    shapes = _shapes(folder)
    if name not in shapes:
        outside = ", ".join(sorted(key for key in shapes if not key.startswith(BODY))) or "none"
        raise ValueError(
            f"{folder} has no tensor {name!r}, which its convention reads (outside the body it has: {outside}); it is "
            "not a checkpoint of this family, or its head was not saved"
        )
    path, shape = shapes[name]
    with safe_open(path, "pt") as stream:
        if rows is None:
            whole: Tensor = stream.get_tensor(name).float()
            return whole
        if not all(0 <= row < shape[0] for row in rows):
            raise ValueError(f"{name} has {shape[0]} rows; the labels {rows} of this tokenizer are not among them")
        part = stream.get_slice(name)
        return torch.cat([part[row : row + 1].float() for row in rows])


def label_rows(folder: Path, rows: tuple[int, ...]) -> Tensor:
    """(2, H) rows of the language-model head, which may be the embedding (tied)."""
    shapes = _shapes(folder)
    tied = bool(_config(folder).get("tie_word_embeddings", False))
    name = EMBEDDING if tied and LM_HEAD not in shapes else LM_HEAD
    return read_tensor(folder, name, rows)


def _config(folder: Path) -> Mapping[str, Any]:
    config: Mapping[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return config


def checkpoint_names(model: str, folder: Path) -> list[str]:
    """What the checkpoint calls itself: as given, by folder, by its config."""
    config = _config(folder)
    return [model, folder.name, str(config.get("_name_or_path") or "")]


def load_body(folder: Path, *, device: str | None, dtype: str | None) -> Any:
    """The transformer below the head, in evaluation mode; ``device="auto"`` spreads it over the devices.

    Raises:
        ValueError: body weights that are missing (they would stay random) or position buffers that are zero.
    """
    import torch
    from transformers import AutoModel

    device, dtype = placement(device, dtype)
    dtype = "auto" if device == "auto" and dtype == "float32" else dtype
    spread = {"device_map": "auto"} if device == "auto" else {}
    with _quiet():
        body, report = AutoModel.from_pretrained(
            folder,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            dtype=dtype if dtype == "auto" else getattr(torch, dtype),
            output_loading_info=True,
            **spread,
        )
    missing = sorted(report["missing_keys"])
    if missing:
        raise ValueError(f"{folder} lacks {len(missing)} weights of its body, such as {missing[0]}: they'd stay random")
    prove_positions(body)
    body = body.eval().requires_grad_(False)
    return body if device == "auto" else body.to(device)


def prove_positions(body: Any) -> None:
    """Raise where rotary frequencies are zero or not finite: every token would stand at one place."""
    for name, buffer in body.named_buffers():
        if "inv_freq" in name and not (bool(buffer.isfinite().all()) and bool(buffer.any())):
            raise ValueError(f"buffer {name} of {type(body).__name__} is zero or not finite: positions would be lost")


def context_of(body: Any) -> int:
    """Tokens that the model takes: its positions, or its sliding window where that is smaller."""
    config = body.config.get_text_config()
    limits = [getattr(config, "max_position_embeddings", None)]
    kinds = getattr(config, "layer_types", None)
    if kinds is None or "sliding_attention" in kinds:
        limits.append(getattr(config, "sliding_window", None))
    return min((limit for limit in limits if limit), default=2**31)


@contextmanager
def _quiet() -> Iterator[None]:
    """The report of unused tensors names the head, which is read apart and checked there."""
    from transformers.utils import logging

    level, shown = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()
