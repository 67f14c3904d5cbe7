"""Worked solutions of GSM8K's training problems, and damaged copies of them: step labels without a model.

A line of a worked solution holds one computation, written by its authors as ``<<3*4=12>>``. Damage changes one line;
the lines after it go on with its result, as a student would. A label is 1 as long as nothing has gone wrong.
"""

from __future__ import annotations

import ast
import operator
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass

_NOTE = re.compile(r"<<([^<>]{1,80})>>")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_SAFE = re.compile(r"[\d.+\-*/() ]{1,80}")
_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
KINDS = ("operator", "operator", "operand", "operand", "slip", "early", "skip")


@dataclass(frozen=True)
class Line:
    """Words before the computation, the computation, its value."""

    words: str
    expression: str
    value: float


@dataclass(frozen=True)
class Labelled:
    """A solution; ``labels`` are 1 until something has gone wrong, None where that is not known."""

    group: str
    problem: str
    steps: list[str]
    labels: list[int]


def value_of(expression: str) -> float | None:
    """Value of a sum in digits, None where it is no sum."""
    if not _SAFE.fullmatch(expression) or "**" in expression:
        return None

    def walk(node: ast.AST) -> float:
        if isinstance(node, ast.Constant):
            return float(node.value)  # type: ignore[arg-type]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -walk(node.operand)
        assert isinstance(node, ast.BinOp)
        return float(_OPERATORS[type(node.op)](walk(node.left), walk(node.right)))

    try:
        return walk(ast.parse(expression.strip(), mode="eval").body)
    except (SyntaxError, AssertionError, KeyError, ZeroDivisionError):
        return None


def shown(number: float) -> str:
    """As a student writes it."""
    return str(round(number)) if abs(number - round(number)) < 1e-9 else f"{number:.2f}".rstrip("0").rstrip(".")


def read_solution(answer: str) -> tuple[list[Line], float] | None:
    """Lines and answer of a solution in GSM8K's notation; None where a line holds no computation or more than one."""
    body, _, final = answer.partition("####")
    lines = []
    for text in body.strip().split("\n"):
        notes = _NOTE.findall(text)
        if len(notes) != 1 or "=" not in notes[0]:
            return None
        expression, _, result = notes[0].replace(",", "").replace("$", "").partition("=")
        value = value_of(expression)
        stated = _NUMBER.search(result)
        if value is None or stated is None or abs(value - float(stated.group())) > 0.01:
            return None
        lines.append(Line(re.split(r"\d", _NOTE.sub("", text))[0].strip(), expression, value))
    return lines, float(final.strip().replace(",", ""))


def _written(
    lines: list[Line], changed: Mapping[int, tuple[str, float]], skipped: int | None
) -> list[tuple[int, str, float]] | None:
    """(line, text, value); a later line uses a changed result where it used the right one."""
    carried: dict[float, float] = {}
    out = []
    for index, line in enumerate(lines):
        expression = _NUMBER.sub(
            lambda m: shown(carried.get(round(float(m.group()), 3), float(m.group()))), line.expression
        )
        value = value_of(expression)
        if index in changed:
            expression, value = changed[index]
        if value is None:
            return None
        if round(value, 3) != round(line.value, 3):
            carried[round(line.value, 3)] = value
        if index != skipped:
            spaced = re.sub(r"\s*([+\-*/])\s*", r" \1 ", expression).strip()
            out.append((index, f"{line.words} {spaced} = {shown(value)}.".strip(), value))
    return out


def _damage(
    kind: str, lines: list[Line], given: list[float], rng: random.Random
) -> tuple[list[tuple[int, str, float]], int | None] | None:
    """A damaged solution and the first wrong line (None: only the answer is wrong)."""
    at = rng.randrange(len(lines))
    line = lines[at]
    numbers = list(_NUMBER.finditer(line.expression))
    signs = list(re.finditer(r"[+\-*/]", line.expression))
    if kind == "slip":
        wrong = line.value + rng.choice((-10, -2, -1, 1, 2, 10, 100))
        written = _written(lines, {at: (line.expression, wrong)}, None)
        return (written, at) if written else None
    if kind == "early":
        written = _written(lines[: at + 1], {}, None) if at < len(lines) - 1 else None
        return (written, None) if written else None
    if kind == "skip":
        if at == len(lines) - 1 or not numbers:
            return None
        instead = float(numbers[0].group())
        written = _written(lines, {at: (shown(instead), instead)}, at)
        return (written, at) if written else None
    spot = (
        rng.choice(signs)
        if kind == "operator" and signs
        else rng.choice(numbers)
        if kind == "operand" and numbers
        else None
    )
    if spot is None:
        return None
    if kind == "operator":
        instead_text = rng.choice([sign for sign in "+-*/" if sign != spot.group()])
    else:
        pool = [
            n
            for n in (*given, *(line.value for line in lines[:at]), float(rng.randint(2, 20)))
            if n != float(spot.group())
        ]
        if not pool:
            return None
        instead_text = shown(rng.choice(pool))
    expression = line.expression[: spot.start()] + instead_text + line.expression[spot.end() :]
    value = value_of(expression)
    if value is None or round(value, 3) == round(line.value, 3):
        return None
    written = _written(lines, {at: (expression, value)}, None)
    return (written, at) if written else None


def worked_and_damaged(group: str, problem: str, answer: str, rng: random.Random, copies: int = 2) -> list[Labelled]:
    """The worked solution with labels 1, and up to ``copies`` damaged ones; nothing where it cannot be read."""
    read = read_solution(answer)
    if read is None or len(read[0]) < 2:
        return []
    lines, gold = read
    given = [float(m.group()) for m in _NUMBER.finditer(problem.replace(",", ""))]
    written = _written(lines, {}, None)
    if written is None:
        return []
    out = [
        Labelled(
            group,
            problem,
            [*(text for _, text, _ in written), f"The answer is {shown(gold)}."],
            [1] * (len(written) + 1),
        )
    ]
    for _ in range(copies):
        found = _damage(rng.choice(KINDS), lines, given, rng)
        if not found or not found[0] or round(found[0][-1][2], 3) == round(gold, 3):
            continue
        written, wrong = found
        labels = [int(wrong is None or index < wrong) for index, _, _ in written]
        out.append(
            Labelled(
                group,
                problem,
                [*(text for _, text, _ in written), f"The answer is {shown(written[-1][2])}."],
                [*labels, 0],
            )
        )
    return out
