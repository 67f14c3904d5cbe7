"""The verifier inside a Ray actor: its own killable worker, right verdicts, and a pair that costs its limit only."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SCRIPT = r"""
import json, ray
ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)

@ray.remote
class Judge:
    def verdicts(self, pairs):
        from stepgauge.verifiers import verify
        return [verify(*pair).verdict for pair in pairs]

stubborn = (r"\int_0^1\int_0^1\int_0^1 e^{xyz} dx dy dz", r"\pi^{\pi^{\pi}}-1")
pairs = [("1/2", "0.5"), stubborn, ("x+1", "1+x"), ("3", "4")]
judge = Judge.remote()
print(json.dumps(ray.get([judge.verdicts.remote(pairs), judge.verdicts.remote(pairs[2:])])))
ray.shutdown()
"""


@pytest.mark.slow
def test_verdicts_in_an_actor():
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'stepgauge[ray]'")
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    first, second = json.loads(done.stdout.splitlines()[-1])
    assert first[0] == "equal"
    assert first[1] in ("different", "undecided")
    assert first[2:] == second == ["equal", "different"]
