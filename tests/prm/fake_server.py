"""A local server with the three contracts; a score follows from the text before the tag, so mix-ups show."""

import atexit
import hashlib
import json
import threading
import time
from contextlib import ExitStack, contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def score_of(prefix):
    """A probability that is a function of everything up to the tag."""
    return int(hashlib.sha256(json.dumps(prefix).encode()).hexdigest()[:8], 16) / 2**32


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            server.requests.append((self.path, body, dict(self.headers)))
            server.running += 1
            server.most = max(server.most, server.running)
            failure = server.failures.pop(0) if server.failures else None
        time.sleep(server.delay)
        answer = server.answer(self.path, body) if server.answer else respond(self.path, body, server.tag)
        with server.lock:
            server.running -= 1
        data = b"oops" if failure == "garbage" else json.dumps(answer).encode()
        self.send_response(failure if isinstance(failure, int) else 200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


def respond(path, body, tag):
    """vLLM 0.33 and SGLang 0.5.23, as far as the scorer reads them."""
    if path == "/pooling":
        text = body["input"]
        ends = [k + 1 for k, token in enumerate(text) if token == tag] if isinstance(text, list) else _ends(text, tag)
        rows = [[1 - score_of(text[:end]), score_of(text[:end])] for end in ends]
        return {
            "id": "pool-1",
            "object": "list",
            "model": "m",
            "data": [{"index": 0, "object": "pooling", "data": rows}],
        }
    if path == "/classify":
        rows = [
            {"index": k, "label": "LABEL_1", "probs": [1 - score_of(one), score_of(one)], "num_classes": 2}
            for k, one in enumerate(body["input"])
        ]
        return {"id": "classify-1", "object": "list", "model": "m", "data": rows[::-1]}
    if path == "/v1/score":
        rows = [score_of(body["query"] + item) for item in body["items"]]
        return {"scores": [[p, 1 - p] for p in rows], "object": "scoring", "model": "m", "usage": None}
    return {"error": "no such path"}


def _ends(text, tag):
    ends, at = [], text.find(tag)
    while at >= 0:
        ends.append(at + len(tag))
        at = text.find(tag, at + 1)
    return ends


@contextmanager
def fake_server(tag="<extra_0>", failures=(), delay=0.0, answer=None):
    """A running server: ``url``, ``requests`` it saw, ``most`` that ran at once."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.tag, server.failures, server.delay, server.answer = tag, list(failures), delay, answer
    server.requests, server.running, server.most, server.lock = [], 0, 0, threading.Lock()
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


@cache
def running_server():
    """The URL of a fake server that runs until the tests end."""
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(fake_server()).url
