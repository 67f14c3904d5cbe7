#!/usr/bin/env bash
# The kernels on a GPU: correctness first, then times against torch and whatever peers are installed. Under 8 minutes.
#     bash benchmarks/gpu.sh            from the repository root, with torch and triton installed
# Without a GPU it says so and exits 0. Peers that are missing are named and skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
export PYTHONPATH="$PWD:$PWD/benchmarks"
timeout 470 "$PYTHON" benchmarks/gpu_kernels.py
