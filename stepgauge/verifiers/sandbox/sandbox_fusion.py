"""A SandboxFusion server as the sandbox: one ``POST /run_code`` a test.

https://github.com/bytedance/SandboxFusion. What the programs may do there is the server's business.
"""

from __future__ import annotations

import json
import secrets
import time
import urllib.error
import urllib.request
from typing import Any, Self

from stepgauge.verifiers.sandbox.local import single_source
from stepgauge.verifiers.sandbox.protocol import DeadlinePassed, Limits, Reply, SandboxError, TransportError

__all__ = ["SandboxFusion"]

GRACE_S = 30.0  # for the network and the server's queue
# Appended to the sources of plain.py and child.py: answers one request, marked, on the real stdout.
_ONCE = """
def _once():
    given = json.loads(sys.stdin.readline())
    out = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    answer = Answers(given["program"]).answer(given["request"])
    answer["nonce"] = given["request"]["nonce"]
    data = ("\\n" + given["mark"] + json.dumps(answer) + "\\n").encode("ascii")
    while data:
        data = data[os.write(out, data):]
    os._exit(0)

_once()
"""


class SandboxFusion:
    """Runs programs on a SandboxFusion server at ``url``. A request that fails is a failure of ours, never a verdict.

    Every request starts the program anew. Tests of the kind ``CheckTest`` need a conversation and are refused.
    """

    def __init__(self, url: str) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"SandboxFusion(url) must start with http:// or https://, got {url!r:.80}")
        self.url = url.rstrip("/")

    @property
    def level(self) -> str:
        """See ``Sandbox.level``."""
        return f"sandboxfusion {self.url}"

    def open(
        self, source: str, limits: Limits, *, trusted: bool = False, deadline: float | None = None
    ) -> RemoteProgram:
        """See ``Sandbox.open``."""
        if trusted:
            raise SandboxError(
                "a test that is more than 'call == literal' talks with the program, which /run_code cannot do; "
                "use the local sandbox (sandbox='auto') for these tests"
            )
        return RemoteProgram(self.url, source, limits, deadline)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        return None


class RemoteProgram:
    """A program that is sent whole with every request."""

    def __init__(self, url: str, source: str, limits: Limits, deadline: float | None) -> None:
        self.url = url
        self.source = source
        self.limits = limits
        self.deadline = deadline

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    def run(self, stdin: str) -> Reply:
        """See ``Program.run``."""
        return self._post(self.source, stdin, self.limits.wall_s)

    def ask(self, request: dict[str, Any], *, cpu_s: float | None = None, wall_s: float | None = None) -> Reply:
        """See ``Program.ask``."""
        mark = secrets.token_hex(16)
        given = json.dumps({"program": self.source, "request": request, "mark": mark}, ensure_ascii=True)
        reply = self._post(single_source("plain.py", "child.py") + _ONCE, given + "\n", wall_s or self.limits.wall_s)
        if reply.state != "ended":
            return reply
        _, found, rest = reply.out.partition("\n" + mark)
        if not found:
            return reply
        return Reply("line", line=rest.partition("\n")[0], cpu_s=reply.cpu_s, wall_s=reply.wall_s)

    def _post(self, code: str, stdin: str, wall_s: float) -> Reply:
        patience = wall_s + GRACE_S
        if self.deadline is not None:
            patience = min(patience, self.deadline - time.monotonic())
            if patience <= 0:
                raise DeadlinePassed("the deadline passed while a program was being tested")
        body = {
            "code": code,
            "stdin": stdin,
            "language": "python",
            "run_timeout": wall_s,
            "memory_limit_MB": self.limits.memory_mb,
        }
        request = urllib.request.Request(
            f"{self.url}/run_code",
            json.dumps(body).encode("utf-8"),
            {"Content-Type": "application/json"},
            method="POST",
        )
        room = 8 * self.limits.output_kb * 1024 + 100_000
        try:
            with urllib.request.urlopen(request, timeout=patience) as response:
                data = response.read(room + 1)
            answer = json.loads(data) if len(data) <= room else {"run_result": {"stdout": "x" * room}}
            return self._reply(answer)
        except TimeoutError as error:
            if self.deadline is not None and time.monotonic() >= self.deadline:
                raise DeadlinePassed("the deadline passed while a program was being tested") from error
            raise TransportError(f"{self.url}/run_code did not answer within {patience:.0f} s") from error
        except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
            raise TransportError(f"{self.url}/run_code failed ({type(error).__name__}: {error})") from error

    def _reply(self, answer: dict[str, Any]) -> Reply:
        """Read an answer; anything that does not say clearly how the program ended is a failure of the server."""
        result = answer.get("run_result") or {}
        status = result.get("status")
        seconds = float(result.get("execution_time") or 0.0)
        out, err = str(result.get("stdout") or ""), str(result.get("stderr") or "")
        if len(out) > self.limits.output_kb * 1024:
            return Reply("output_limit", wall_s=seconds)
        if status == "TimeLimitExceeded":
            return Reply("timeout", cpu_s=seconds, wall_s=seconds)
        code = result.get("return_code")
        if answer.get("status") not in ("Success", "Failed") or status != "Finished" or not isinstance(code, int):
            said = f"{answer.get('status')!r:.40}, run {status!r:.40}, {answer.get('message')!r:.200}"
            raise TransportError(f"{self.url}/run_code gave no result: {said}")
        return Reply("ended", code=code, out=out, err=err[-2000:], cpu_s=seconds, wall_s=seconds)
