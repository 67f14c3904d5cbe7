"""Compile kernels for GPUs that are not here and print what the compilers made of them, one JSON object a line.

    python tests/kernels/compile_matrix.py hardest sm_80    what needs most registers of each kernel
    python tests/kernels/compile_matrix.py every sm_80      all variants

Runs in its own process: a process whose kernels are interpreted cannot compile. No driver and no GPU are touched.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from stepgauge.kernels import fused_kernels, fused_pair_kernels
from stepgauge.kernels.configs import SPLIT, TABLE

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "sm_100": GPUTarget("cuda", 100, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
BIN = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
TENSOR_CORE = {"sm_80": r"HMMA", "sm_90": r"HGMMA", "sm_100": r"UTC\w*MMA", "gfx942": r"v_mfma"}

HEAD = {"MEAN": True, "ENTROPY": True, "CAP": False, "K": 0, "KP": 1, "SPLIT": SPLIT}
FORWARD: dict[str, dict[str, Any]] = {
    "logp": {**HEAD, "MEAN": False, "ENTROPY": False},
    "all": HEAD,
    "all_bent": {**HEAD, "CAP": True, "bias": "*bf16", "scale": "*fp32"},
    "ragged": {**HEAD, "EVEN": False, "TMA": False},
}
TOP: dict[str, dict[str, Any]] = {
    "argmax": {**HEAD, "K": 1, "KP": 1},
    "top8": {**HEAD, "K": 8, "KP": 8},
}
GRADIENT: dict[str, dict[str, Any]] = {
    "plain": {"CAP": False},
    "bent": {"CAP": True, "bias": "*bf16", "scale": "*fp32"},
}
PAIR: dict[str, dict[str, Any]] = {
    "plain": {"CAP": False, "CAP2": False, "SPLIT": SPLIT},
    "bent": {"CAP": True, "CAP2": True, "SPLIT": SPLIT, "bias": "*bf16", "bias2": "*bf16"},
}
PAIR_GRADIENT: dict[str, dict[str, Any]] = {"plain": {"CAP": False, "CAP2": False}}
KERNELS = {
    "head": (fused_kernels.head_partials, FORWARD),
    "top": (fused_kernels.head_partials, TOP),
    "gradient": (fused_kernels.head_gradient, GRADIENT),
    "pair": (fused_pair_kernels.pair_partials, PAIR),
    "pair_gradient": (fused_pair_kernels.pair_gradient, PAIR_GRADIENT),
}
HARDEST = {("head", "all_bent"), ("head", "ragged"), ("top", "top8"), ("gradient", "bent"), ("pair", "bent")}
HARDEST |= {("pair_gradient", "plain")}
POINTERS = {
    **dict.fromkeys(("h", "w", "h2", "w2", "dz"), "*bf16"),
    **dict.fromkeys(("labels", "top_ids", "marks"), "*i64"),
    **dict.fromkeys(("sums", "top", "lse", "lse2", "a", "b", "c", "f", "gains"), "*fp32"),
    **dict.fromkeys(("softcap", "softcap2", "inv_temperature", "inv_temperature2"), "fp32"),
    **dict.fromkeys(("M", "V", "H", "H2", "group_m", "first", "width", "L"), "i32"),
    **dict.fromkeys(("stride_h", "stride_w", "stride_h2", "stride_w2"), "i32"),
}
NONE = ("bias", "bias2", "scale", "scale2")
ALIGNED = (
    "h",
    "w",
    "h2",
    "w2",
    "dz",
    "sums",
    "top",
    "top_ids",
    "H",
    "H2",
    "stride_h",
    "stride_w",
    "stride_h2",
    "stride_w2",
)


def compiled(arch: str, kind: str, variant: dict[str, Any]) -> Any:
    """One kernel for one architecture with the table's tile."""
    kernel = KERNELS[kind][0]
    row = TABLE[arch, kind]
    constants: dict[str, Any] = {
        "BM": row.rows, "BN": row.columns, "BK": row.depth,
        "TMA": row.tma, "EVEN": True, "PRECISION": row.precision,
    }  # fmt: skip
    signature: dict[str, str] = {}
    for name in kernel.arg_names:
        given = variant.get(name, None if name in NONE else POINTERS.get(name))
        if isinstance(given, str):
            signature[name] = given
        else:
            signature[name] = "constexpr"
            constants[name] = variant.get(name, constants.get(name))
    attributes = {
        (kernel.arg_names.index(n),): [["tt.divisibility", 16]]
        for n in ALIGNED
        if signature.get(n, "constexpr") != "constexpr"
    }
    constants = {n: v for n, v in constants.items() if n in kernel.arg_names}
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=attributes)
    options = {**row.options(), "enable_fp_fusion": True}
    return triton.compile(source, target=TARGETS[arch], options=options)


def nvidia_facts(binary: Any, arch: str) -> dict[str, Any]:
    """Registers, stack (a spill makes one), spill instructions and tensor-core instructions of a cubin."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary.asm["cubin"])
        file.flush()
        usage = subprocess.run([BIN / "cuobjdump", "-res-usage", file.name], capture_output=True, text=True, check=True)
        sass = subprocess.run(
            [BIN / "cuobjdump", "-sass", file.name], capture_output=True, text=True, check=True
        ).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+)", usage.stdout + usage.stderr)
    if found is None:
        raise RuntimeError(f"cuobjdump printed no resource usage: {usage.stdout} {usage.stderr}")
    return {
        "registers": int(found[1]),
        "stack": int(found[2]),
        "spills": len(re.findall(r"\b(?:LDL|STL)\b", sass)),
        "tensor_core": len(re.findall(rf"\b{TENSOR_CORE[arch]}\b", sass)),
        "tma": len(re.findall(r"\bUTMALDG", sass)),
    }


def amd_facts(binary: Any, arch: str) -> dict[str, Any]:
    """The same from gfx assembly."""
    text = binary.asm["amdgcn"]

    def count(name: str) -> int:
        found = re.search(rf"\.{name}:\s*(\d+)", text)
        if found is None:
            raise RuntimeError(f"the assembly does not tell {name}")
        return int(found[1])

    return {
        "registers": count("vgpr_count"),
        "stack": count("private_segment_fixed_size"),
        "spills": count("vgpr_spill_count"),
        "tensor_core": len(re.findall(TENSOR_CORE[arch], text)),
        "tma": 0,
    }


def main() -> None:
    extent, *architectures = sys.argv[1:]
    for arch in architectures:
        for kind, (_, variants) in KERNELS.items():
            for name, variant in variants.items():
                if extent == "hardest" and (kind, name) not in HARDEST:
                    continue
                binary = compiled(arch, kind, variant)
                facts = amd_facts(binary, arch) if arch.startswith("gfx") else nvidia_facts(binary, arch)
                row = {"arch": arch, "kernel": kind, "variant": name, "shared": binary.metadata.shared, **facts}
                sys.stdout.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
