"""Fuzz the parser: random texts, mutated answers and grammar soup; report exceptions and the slowest item.

Run: python benchmarks/fuzz_parser.py [inputs]      (default 1,000,000)
"""

from __future__ import annotations

import json
import random
import sys
import time
from typing import Any

from stepgauge.verifiers.symbolic.parser import Invalid, parse

_SEEDS = [
    r"\frac{n(n+1)}{2}", r"\sqrt{3+2\sqrt{2}}", r"[0,1)\cup(2,\infty)", r"\begin{pmatrix}1&2\\3&4\end{pmatrix}",
    "3 1/2", "1,000,000.5",
    r"x\equiv 3\pmod{7}", r"\{x\mid x^2<4\}", r"9.8\text{ m/s}^2", r"\sum_{k=1}^{n}k^2", r"\int_0^1 x^2\,dx",
    r"||x||y||", "f(x)=2x+3",
    r"\lim_{x\to\infty}\frac1x", "1.5e-7", r"12\frac{3}{4}", r"\pm\sqrt{2}", "a:b:c", r"v_0^2\sin^2\theta",
    r"(1,2),(3,4)", "28%", r"60^\circ",
]  # fmt: skip
_PIECES = [
    *"0123456789abcdeixyz+-*/^_(){}[]|,.;:=<>!%$&' \"\\~√π½²٣°≤∞∪é中🤔\n\t", r"\frac", r"\sqrt", r"\left", r"\right",
    r"\text{", r"\sin",
    r"\log_", r"\pi", r"\sum_", r"\int", "dx", r"\boxed{", r"\begin{pmatrix}", r"\end{pmatrix}", r"\\", r"\overline",
    r"\mathrm{", r"\cdot", "and",
    "or", r"\in", r"\{", r"\}", r"\lfloor", r"\binom", r"\operatorname{", r"\mathbb{R}", "cm", "percent", "mod",
    r"\lim_{x\to", "^{", "_{", "}{",
]  # fmt: skip


def _soup(rng: random.Random) -> str:
    return "".join(rng.choices(_PIECES, k=rng.randint(1, 30)))


def _mutant(rng: random.Random) -> str:
    text = list(rng.choice(_SEEDS))
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(text) + 1)
        action = rng.random()
        if action < 0.4:
            text[at:at] = [rng.choice(_PIECES)]
        elif action < 0.7 and text:
            del text[min(at, len(text) - 1)]
        elif text:
            text[min(at, len(text) - 1)] = rng.choice(_PIECES)
    return "".join(text)


def _noise(rng: random.Random) -> str:
    return "".join(chr(rng.randrange(1, 0x3000)) for _ in range(rng.randint(1, 40)))


def _repeated(rng: random.Random) -> str:
    return rng.choice(_PIECES) * rng.randint(2, 400) + rng.choice(_PIECES) * rng.randint(0, 400)


def _seconds(text: str) -> float:
    start = time.process_time()
    parse(text)
    return time.process_time() - start


def fuzz(inputs: int, seed: int = 0) -> dict[str, Any]:
    """Parse ``inputs`` texts; counts of exceptions and of parsed ones, and the slowest item (best of 4) in CPU ms."""
    rng = random.Random(seed)
    makers = (_soup, _soup, _mutant, _mutant, _mutant, _noise, _noise)
    exceptions, parsed, worst, worst_text = 0, 0, 0.0, ""
    for index in range(inputs):
        maker = _repeated if index % 50 == 0 else makers[index % len(makers)]
        text = maker(rng)
        start = time.process_time()
        try:
            node = parse(text)
            parsed += not isinstance(node, Invalid)
        except Exception as error:
            exceptions += 1
            sys.stderr.write(f"{type(error).__name__} on {text!r}\n")
            continue
        took = time.process_time() - start
        if took > worst:  # once more: a pause of the garbage collector is not the parser's
            took = min(took, *(_seconds(text) for _ in range(3)))
        if took > worst:
            worst, worst_text = took, text
    return {
        "inputs": inputs,
        "parsed": parsed,
        "exceptions": exceptions,
        "worst_ms": round(worst * 1e3, 3),
        "worst_text": worst_text[:120],
    }


def main() -> None:
    inputs = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    start = time.process_time()
    report = fuzz(inputs)
    report["cpu_s"] = round(time.process_time() - start, 1)
    for size in (1_000_000,):
        for unit in ("a", "7", "{", "\\boxed{", "$", "\\frac{", "x+", "("):
            text = unit * (size // len(unit))
            begin = time.process_time()
            parse(text)
            report.setdefault("megabyte_ms", {})[unit] = round((time.process_time() - begin) * 1e3, 2)
    for key, value in report.items():
        print(f"{key:>16}: {value}")
    print(json.dumps(report))


if __name__ == "__main__":
    main()
