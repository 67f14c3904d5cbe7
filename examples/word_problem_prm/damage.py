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
KINDS = ("operator", "operator", "operand", "operand", "slip", "slip", "early", "skip", "answer", "copied")
BARE = 0.2  # share of lines that show their value only


@dataclass(frozen=True)
class Line:
    """Words before the computation, the computation, its value."""

    words: str
    expression: str
    value: float


@dataclass(frozen=True)
class Labelled:
    """A solution; ``labels`` are 1 until something has gone wrong."""

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


Written = list[tuple[int, str, float]]  # (line, text, value)


def _written(lines: list[Line], changed: Mapping[int, tuple[str, float]], rng: random.Random) -> Written | None:
    """The lines as text; a later line uses a changed result where it used the right one. Some show no computation."""
    carried: dict[float, float] = {}
    out = []
    for index, line in enumerate(lines):
        expression = _NUMBER.sub(
            lambda found: shown(carried.get(round(float(found.group()), 3), float(found.group()))), line.expression
        )
        value = value_of(expression)
        if index in changed:
            expression, value = changed[index]
        if value is None:
            return None
        if round(value, 3) != round(line.value, 3):
            carried[round(line.value, 3)] = value
        spaced = re.sub(r"\s*([+\-*/])\s*", r" \1 ", expression).strip() + " = " if rng.random() > BARE else ""
        out.append((index, f"{line.words} {spaced}{shown(value)}.".strip(), value))
    return out


def _other_expression(kind: str, line: Line, pool: list[float], rng: random.Random) -> str | None:
    """The line's computation with another sign or another operand."""
    spots = list((re.compile(r"[+\-*/]") if kind == "operator" else _NUMBER).finditer(line.expression))
    if not spots:
        return None
    spot = rng.choice(spots)
    if kind == "operator":
        instead = rng.choice([sign for sign in "+-*/" if sign != spot.group()])
    else:
        instead = shown(rng.choice([number for number in pool if number != float(spot.group())]))
    return line.expression[: spot.start()] + instead + line.expression[spot.end() :]


def _damage(kind: str, lines: list[Line], given: list[float], rng: random.Random) -> tuple[Written, int, float] | None:
    """(lines, the first wrong one, answer) of a damaged solution; beyond the last line: only the answer is wrong."""
    at = rng.randrange(len(lines))
    line = lines[at]
    pool = [*given, *(before.value for before in lines[:at]), float(rng.randint(2, 20)), float(rng.randint(2, 500))]
    if kind == "answer":
        written = _written(lines, {}, rng)
        return (written, len(lines), rng.choice([*pool, lines[0].value, line.value + 1])) if written else None
    if kind == "copied":
        return [], 0, rng.choice(pool)
    if kind == "early":
        written = _written(lines[:at], {}, rng)
        return (written, at, written[-1][2]) if written else None
    if kind == "slip":
        change = line.expression, line.value + rng.choice((-10, -2, -1, 1, 2, 10, 100))
    elif kind == "skip":
        first = _NUMBER.search(line.expression)
        if first is None or at == len(lines) - 1:
            return None
        change = first.group(), float(first.group())
    else:
        expression = _other_expression(kind, line, pool, rng)
        value = None if expression is None else value_of(expression)
        if expression is None or value is None or round(value, 3) == round(line.value, 3):
            return None
        change = expression, value
    written = _written(lines, {at: change}, rng)
    if written is None:
        return None
    kept = [entry for entry in written if kind != "skip" or entry[0] != at]
    return kept, at, written[-1][2]


def worked_and_damaged(group: str, problem: str, answer: str, rng: random.Random, copies: int = 3) -> list[Labelled]:
    """The worked solution with labels 1, and up to ``copies`` damaged ones; nothing where it cannot be read."""
    read = read_solution(answer)
    if read is None or len(read[0]) < 2:
        return []
    lines, gold = read
    given = [float(found.group()) for found in _NUMBER.finditer(problem.replace(",", ""))]
    written = _written(lines, {}, rng)
    solutions = [] if written is None else [(written, len(lines) + 1, gold)]
    for _ in range(copies):
        found = _damage(rng.choice(KINDS), lines, given, rng)
        if found is not None and round(found[2], 3) != round(gold, 3):
            solutions.append(found)
    return [
        Labelled(
            group,
            problem,
            [*(text for _, text, _ in shown_lines), f"The answer is {shown(stated)}."],
            [*(int(index < wrong) for index, _, _ in shown_lines), int(wrong > len(lines))],
        )
        for shown_lines, wrong, stated in solutions
    ]
