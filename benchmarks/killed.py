"""Kill a command at random moments, start it again each time, and compare its file with that of an undisturbed run.

    python benchmarks/killed.py --kills 5 --file labels.jsonl -- \
        python benchmarks/label_local_model.py MODEL SOLUTIONS --out {dir}/labels.jsonl

``{dir}`` is a fresh folder, once for the undisturbed run and once for the killed one. Kills are SIGKILL to the whole
process group, at a uniform random moment of the first half of the time that the undisturbed run took; a run that ends
before its kill does not count, and is an error if it leaves less than the wanted number of kills.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def start(command: list[str], folder: str) -> subprocess.Popen[bytes]:
    """The command with its folder filled in, as leader of a group of its own."""
    filled = [part.replace("{dir}", folder) for part in command]
    return subprocess.Popen(filled, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)


def finish(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end; stop here where it failed."""
    said = process.communicate()[1]
    if process.returncode:
        sys.exit(f"the command failed with {process.returncode}: {said.decode(errors='replace')[-2000:]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--file", required=True)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    random_ = random.Random(os.urandom(8))
    with tempfile.TemporaryDirectory() as whole, tempfile.TemporaryDirectory() as killed:
        begun = time.monotonic()
        finish(start(command, whole))
        took = time.monotonic() - begun
        moments = []
        for _ in range(options.kills):
            moment = random_.uniform(0, took / 2)
            process = start(command, killed)
            try:
                process.wait(timeout=moment)
                sys.exit(f"the run ended before kill {len(moments) + 1}; give it more work")
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
            moments.append(round(moment, 2))
        finish(start(command, killed))
        digests = [hashlib.sha256((Path(folder) / options.file).read_bytes()).hexdigest() for folder in (whole, killed)]
        size = (Path(whole) / options.file).stat().st_size
    same = digests[0] == digests[1]
    report = {"identical": same, "bytes": size, "sha256": digests[0], "kills_at_s": moments, "undisturbed_s": took}
    print(json.dumps(report))
    sys.exit(not same)


if __name__ == "__main__":
    main()
