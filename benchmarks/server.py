"""The reward server under load: many clients on loopback for a minute, some requests poisonous.

Starts ``stepgauge serve`` in a process of its own and asks with ``--clients`` connections at once, each sending the
next request when the last is answered. One request in ``--poison-every`` asks the math verifier to compare two towers
of powers, which costs its limit. Prints times, statuses and the server's memory; the last line is JSON.

    python benchmarks/server.py [--seconds 60] [--clients 200]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import httpx

import stepgauge

TOKEN = "benchmark"
POISON = {"problem": "p", "steps": ["\\boxed{\\sin(\\cos(\\sin(\\cos(x^{17}+1))))^{99}\\cdot\\zeta(x^3+y)}"]}
POISON |= {"gold": "\\sin(\\cos(\\sin(\\cos(x^{17}+1))))^{99}\\cdot\\zeta(x^3+y+0\\cdot z)+\\int_0^x e^{-t^2}dt-1"}


def request_of(number: int, poison_every: int) -> tuple[str, dict]:
    """The route's scorer and one rollout; every one differs, so that nothing is answered from another's work."""
    if number % poison_every == poison_every - 1:
        return "math", {**POISON, "id": str(number)}
    a, b = number % 977, number % 1009
    steps = [f"{a} * {b} = {a * b}.", f"{a * b} + {number} = {a * b + number}.", f"The answer is {a * b + number}."]
    return ("arithmetic", "math")[number % 2], {
        "problem": f"{a}*{b}+{number}?",
        "steps": steps,
        "gold": str(a * b + number),
    }


def resident_mb(pid: int) -> float:
    """Resident memory of a process and its children."""
    pids = [pid, *map(int, subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split())]
    pages = 0
    for one in pids:
        try:
            pages += int(Path(f"/proc/{one}/statm").read_text().split()[1])
        except FileNotFoundError:
            continue
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def load(base: str, pid: int, seconds: float, clients: int, poison_every: int) -> dict:
    """Ask until the time is over."""
    numbers = iter(range(10**9))
    times: dict[str, list[float]] = {"usual": [], "poison": []}
    statuses: Counter[str] = Counter()
    wrong = 0
    memory: dict[int, float] = {}
    started = time.monotonic()
    headers = {"Authorization": f"Bearer {TOKEN}"}
    context = httpx.create_ssl_context()  # made once: it costs more than a request

    async def one() -> None:
        async with httpx.AsyncClient(base_url=base, headers=headers, timeout=120, verify=context) as client:
            await ask(client)

    async def ask(client: httpx.AsyncClient) -> None:
        nonlocal wrong
        while time.monotonic() - started < seconds:
            number = next(numbers)
            scorer, rollout = request_of(number, poison_every)
            begun = time.monotonic()
            try:
                answer = await client.post("/v1/score", json={"scorer": scorer, "rollouts": [rollout]})
            except httpx.HTTPError as error:
                statuses[type(error).__name__] += 1
                continue
            statuses[str(answer.status_code)] += 1
            poison = rollout.get("problem") == "p"
            times["poison" if poison else "usual"].append(time.monotonic() - begun)
            if answer.status_code == 200 and not poison:
                wrong += answer.json()["results"][0]["aggregate"] != 1.0

    async def watch() -> None:
        for at in (10, int(seconds)):
            await asyncio.sleep(max(0.0, started + at - time.monotonic() - 0.5))
            memory[at] = resident_mb(pid)

    await asyncio.gather(watch(), *(one() for _ in range(clients)))
    usual = sorted(times["usual"])
    return {
        "requests": sum(statuses.values()),
        "statuses": dict(statuses),
        "wrong_answers": wrong,
        "requests_per_s": round(sum(statuses.values()) / (time.monotonic() - started), 1),
        "p50_ms": round(1e3 * statistics.median(usual), 1),
        "p99_ms": round(1e3 * usual[int(0.99 * len(usual))], 1),
        "max_ms": round(1e3 * usual[-1], 1),
        "poisonous": len(times["poison"]),
        "poison_max_ms": round(1e3 * max(times["poison"], default=0.0), 1),
        "rss_mb": {str(at): round(mb, 1) for at, mb in memory.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--poison-every", type=int, default=2000)
    parser.add_argument("--max-queue", type=int, default=4096)
    arguments = parser.parse_args()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "stepgauge", "serve", "--scorer", "arithmetic,math", "--port", str(port)]
    server = subprocess.Popen(
        [*command, "--max-queue", str(arguments.max_queue)],
        env=os.environ | {"STEPGAUGE_TOKEN": TOKEN},
        stderr=subprocess.DEVNULL,
    )
    base = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            try:
                httpx.get(f"{base}/health")
                break
            except httpx.ConnectError:
                time.sleep(0.1)
        figures = asyncio.run(load(base, server.pid, arguments.seconds, arguments.clients, arguments.poison_every))
    finally:
        server.terminate()
        server.wait(timeout=60)
    for name, value in figures.items():
        print(f"{name:16} {value}")
    machine = {"python": platform.python_version(), "cpus": os.cpu_count(), "load": os.getloadavg()[0]}
    print(json.dumps({"benchmark": "server", "version": stepgauge.__version__, "machine": machine, **figures}))


if __name__ == "__main__":
    main()
