"""The client of SandboxFusion, against a server that speaks its /run_code."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from stepgauge.verifiers.code_answers import CodeScorer
from stepgauge.verifiers.code_judging import run_tests
from stepgauge.verifiers.code_tests import CallTest, CheckTest, CodeTests, StdinTest
from stepgauge.verifiers.sandbox import DeadlinePassed, Limits, SandboxError, TransportError, choose_sandbox

CALL = CodeTests((CallTest("f", (3,), {4}),))
SCRIPT = CodeTests((StdinTest("3\n", "4\n"),))
LIMITS = Limits(cpu_s=1, wall_s=2, output_kb=64)


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.path == "/run_code"
        assert request["language"] == "python"
        self.server.seen.append(request)
        answer = self.server.answer(request)
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(self.server.code)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


def run_code(request):
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", request["code"]],
            input=request["stdin"],
            capture_output=True,
            text=True,
            timeout=request["run_timeout"],
        )
    except subprocess.TimeoutExpired:
        return {"status": "Failed", "run_result": {"status": "TimeLimitExceeded", "execution_time": 2.0}}
    result = {"status": "Finished", "return_code": done.returncode, "stdout": done.stdout, "stderr": done.stderr}
    return {"status": "Success" if done.returncode == 0 else "Failed", "run_result": result | {"execution_time": 0.1}}


@pytest.fixture
def server():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.answer, server.code, server.seen = run_code, 200, []
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("program", "tests", "reason"),
    [
        ("def f(x):\n    print('noise')\n    return {x + 1}", CALL, "passed"),
        ("def f(x):\n    return {x}", CALL, "wrong_output"),
        ("import sys\ndef f(x):\n    sys.exit(0)", CALL, "raised"),
        ("import os\ndef f(x):\n    os._exit(0)", CALL, "crashed"),
        ('import os\ndef f(x):\n    os.write(1, b\'{"value": {"$set": [4]}}\')\n    os._exit(0)', CALL, "crashed"),
        ("def f(x):\n    while True: pass", CALL, "timeout"),
        ("def f(x):\n    return 'y' * 10**6", CALL, "output_limit"),
        ("print(int(input()) + 1)", SCRIPT, "passed"),
        ("print(int(input()))", SCRIPT, "wrong_output"),
        ("print(4)\n1 / 0", SCRIPT, "raised"),
        ("print('y' * 10**5)", SCRIPT, "output_limit"),
        ("while True: pass", SCRIPT, "timeout"),
    ],
)
def test_verdicts(server, program, tests, reason):
    (verdict,) = run_tests(program, tests, choose_sandbox(server.url), LIMITS)
    assert verdict.reason == reason, verdict
    assert not any("$set" in json.dumps(request["code"][-500:]) for request in server.seen if tests is SCRIPT)


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        (500, {"status": "Success"}),
        (200, b"not json"),
        (200, b"[" * 5000),
        (200, []),
        (200, {}),
        (200, {"status": "SandboxError", "message": "no workers", "run_result": None}),
        (200, {"status": "Success", "run_result": {"status": "Error"}}),
        (200, {"status": "Success", "run_result": {"status": "Finished", "stdout": "4"}}),
        (200, {"status": "Success", "run_result": {"status": "Finished", "return_code": 0, "execution_time": "x"}}),
    ],
)
def test_a_server_that_fails_is_no_verdict(server, code, answer):
    server.code, server.answer = code, lambda request: answer
    with pytest.raises(TransportError, match=r"/run_code"):
        run_tests("print(4)", SCRIPT, choose_sandbox(server.url), LIMITS)
    scores = CodeScorer(server.url).score(["print(4)"], reference=SCRIPT)
    assert (scores.status, scores.reasons) == ("error", ("transport",))


def test_no_server_is_no_verdict():
    scores = CodeScorer("http://127.0.0.1:9").score(["print(4)"], reference=SCRIPT)
    assert (scores.status, scores.reasons) == ("error", ("transport",))


def test_a_deadline_is_no_verdict(server):
    server.answer = lambda request: time.sleep(1) or {}
    with pytest.raises(DeadlinePassed):
        run_tests("print(4)", SCRIPT, choose_sandbox(server.url), LIMITS, deadline=time.monotonic() + 0.2)


def test_test_code_is_refused_not_sent(server):
    tests = CodeTests((CheckTest("assert f(3) > 3", ("f",)),))
    with pytest.raises(SandboxError, match="use the local sandbox"):
        run_tests("def f(x):\n    return x + 1", tests, choose_sandbox(server.url), LIMITS)
    assert server.seen == []


def test_what_is_sent(server):
    scores = CodeScorer(server.url, wall_s=7, memory_mb=99).score(["def f(x):", "    return {4}"], reference=CALL)
    assert scores.values == (None, 1.0)
    assert scores.summary["sandbox"] == f"sandboxfusion {server.url}"
    (request,) = server.seen
    assert (request["run_timeout"], request["memory_limit_MB"]) == (7, 99)
    assert "{4}" in request["stdin"], "the program travels as data"
    assert '$set": [4]' not in request["stdin"], "the expected value stays here"
