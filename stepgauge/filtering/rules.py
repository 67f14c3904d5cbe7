"""The rule of a filter: a small expression language over scores and columns, compiled from an allow-list of syntax;
nothing is ever run as Python.

A value that is not there (a rollout without a score, a missing column) makes what depends on it unknown, as NULL does
in SQL: unknown is neither true nor false, and a row is kept only where the whole rule is true.
"""

from __future__ import annotations

import ast
import difflib
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from stepgauge.scoring import Rollout, StepScores

__all__ = ["COLUMNS", "Rule", "RuleError"]

MAX_CHARS = 2_000
MAX_DEPTH = 24

COLUMNS: Mapping[str, str] = MappingProxyType(
    {
        "aggregate": "the scorer's one number for the rollout, by the rule of its kind",
        "min": "smallest step score",
        "mean": "mean step score",
        "last": "last step score there is",
        "first_error": "index of the first wrong step, -1 none; unknown where the scorer cannot say",
        "coverage": "share of the steps that were scored",
        "status": "'ok', 'abstain' or 'error'",
        "reason": "code of why nothing was scored; unknown where something was",
        "verdict": "what a verifier found: 'equal', 'different', 'undecided', …",
        "values": "the step scores; for len()",
    }
)

_Read = Callable[[str, str], Any]  # (scorer or "row", column) -> value
_Value = Callable[[_Read], Any]

_ORDER: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_ARITHMETIC: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_FUNCTIONS: Mapping[str, Callable[[Any], Any]] = {"abs": abs, "len": len}


class RuleError(ValueError):
    """A rule that cannot be read, or that does not fit the values of a row."""


@dataclass(frozen=True)
class _Part:
    """One of the conditions that "and" joins: its text, the scorers it asks, and its value."""

    text: str
    owners: tuple[str, ...]
    value: _Value


@dataclass(frozen=True)
class Rule:
    """A rule, read once: ``decide`` says whether a row is kept and, if not, which part failed or is unknown.

    Names: with one scorer the ``COLUMNS`` (``aggregate >= 0.5``), with any number ``SCORER.COLUMN``; ``summary.KEY`` or
    ``SCORER.summary.KEY`` for what a scorer says besides; ``row.COLUMN`` for a column of the input; ``n_steps``.
    Operators: and, or, not, comparisons (chained too), ``in`` a list, ``is None``, + - * /, ``abs()``, ``len()``.

    Args:
        text: the rule. scorers: the names of the scorers that run.

    Raises:
        RuleError: (a ValueError) says what is wrong and where.

    Example:
        >>> rule = Rule("aggregate >= 0.5 and n_steps < 4", ("math",))
        >>> scores = StepScores((None, 1.0), "correctness", reasons=("no_claim", None))
        >>> rule.decide(Rollout("1+1?", ("Add.", "2")), {"math": scores})
        (True, '')
        >>> rule.decide(Rollout("1+1?", ("Add.",)), {"math": StepScores.abstain(1, "correctness", "no_gold")})
        (None, 'aggregate >= 0.5 (math: no_gold)')
    """

    text: str
    scorers: tuple[str, ...]
    _parts: tuple[_Part, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scorers", tuple(self.scorers))
        object.__setattr__(self, "_parts", _read_rule(self.text, self.scorers))

    def __reduce__(self) -> tuple[type[Rule], tuple[str, tuple[str, ...]]]:
        return Rule, (self.text, self.scorers)

    def decide(self, rollout: Rollout, scores: Mapping[str, StepScores]) -> tuple[bool | None, str]:
        """(True, ""); or (False, the first part that is false); or (None, the first part that is unknown, and why).

        Raises RuleError where a value does not fit the rule, as a text compared with a number.
        """

        def read(owner: str, column: str) -> Any:
            return _of_row(rollout, column) if owner == "row" else _of_scorer(scores[owner], column)

        unknown = None
        for part in self._parts:
            truth = _as_truth(part.value(read), part.text)
            if truth is False:
                return False, part.text
            if truth is None and unknown is None:
                silent = [f"{o}: {unscored_reason(scores[o])}" for o in part.owners if scores[o].status != "ok"]
                unknown = part.text + (f" ({', '.join(silent)})" if silent else "")
        return (True, "") if unknown is None else (None, unknown)


def _read_rule(text: str, scorers: Sequence[str]) -> tuple[_Part, ...]:
    if not isinstance(text, str):
        raise TypeError(f"a rule is a string such as 'aggregate >= 0.5', got {type(text).__name__}")
    if len(text) > MAX_CHARS:
        raise RuleError(f"the rule has {len(text)} characters; at most {MAX_CHARS}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise RuleError(f"the rule {text!r} cannot be read: {error.msg}, at character {error.offset}") from None
    except (ValueError, MemoryError, RecursionError) as error:
        raise RuleError(f"the rule {text!r:.60} cannot be read: {error or type(error).__name__}") from None
    _check_depth(tree)
    joined = tree.values if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And) else [tree]
    parts = []
    for node in joined:
        owners: dict[str, None] = {}
        value = _compile(node, scorers, owners)
        negated = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
        flag = isinstance(node, ast.Constant) and isinstance(node.value, bool)
        if not (negated or flag or isinstance(node, ast.Compare | ast.BoolOp | ast.Name | ast.Attribute)):
            raise RuleError(f"{ast.unparse(node)!r} is no condition; compare it with something, as in aggregate >= 0.5")
        parts.append(_Part(ast.unparse(node), tuple(owners), value))
    return tuple(parts)


def _check_depth(tree: ast.expr) -> None:
    level: list[ast.AST] = [tree]
    for _ in range(MAX_DEPTH):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    if level:
        raise RuleError(f"the rule is nested too deeply; at most {MAX_DEPTH} levels")


def _compile(node: ast.expr, scorers: Sequence[str], owners: dict[str, None]) -> _Value:
    """The value of a part as a function of a row; RuleError for anything outside the language."""

    def inner(child: ast.expr) -> _Value:
        return _compile(child, scorers, owners)

    match node:
        case ast.Constant(value=bool() | int() | float() | str() | None as constant):
            return lambda read: constant
        case ast.Name() | ast.Attribute():
            owner, column = _resolve(node, scorers)
            if owner != "row":
                owners[owner] = None
            return lambda read: read(owner, column)
        case ast.BoolOp():
            return _joined([inner(child) for child in node.values], isinstance(node.op, ast.And), ast.unparse(node))
        case ast.UnaryOp(op=ast.Not()):
            return _negated(inner(node.operand), ast.unparse(node))
        case ast.UnaryOp(op=ast.USub()):
            return _arithmetic(lambda a, b: a - b, lambda read: 0, inner(node.operand), ast.unparse(node))
        case ast.BinOp() if type(node.op) in _ARITHMETIC:
            return _arithmetic(_ARITHMETIC[type(node.op)], inner(node.left), inner(node.right), ast.unparse(node))
        case ast.Tuple() | ast.List():
            items = [inner(child) for child in node.elts]
            return lambda read: [item(read) for item in items]
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in _FUNCTIONS:
            return _called(name, inner(argument))
        case ast.Compare():
            return _compared(node, [inner(child) for child in (node.left, *node.comparators)])
    raise RuleError(
        f"{ast.unparse(node)[:60]!r} is not in the language of rules, which knows and, or, not, comparisons, in, "
        f"is None, + - * /, {', '.join(f'{name}()' for name in _FUNCTIONS)}, numbers, strings and columns"
    )


def _resolve(node: ast.Name | ast.Attribute, scorers: Sequence[str]) -> tuple[str, str]:
    """(owner, column) of a dotted name; the owner is a scorer or "row"."""
    path: list[str] = []
    at: ast.expr = node
    while isinstance(at, ast.Attribute):
        path.insert(0, at.attr)
        at = at.value
    if not isinstance(at, ast.Name):
        raise RuleError(f"{ast.unparse(node)[:60]!r}: a dot stands between a scorer (or row) and a column only")
    path.insert(0, at.id)
    if path == ["n_steps"] or (path[0] == "row" and len(path) == 2):
        return "row", path[-1]
    owner = path.pop(0) if path[0] in scorers and len(path) > 1 else scorers[0] if len(scorers) == 1 else ""
    summary = len(path) == 2 and path[0] == "summary"
    if not summary and not (len(path) == 1 and path[0] in COLUMNS):
        near = difflib.get_close_matches(path[-1], [*COLUMNS, "n_steps"], n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise RuleError(
            f"there is no column {ast.unparse(node)[:60]!r}: {hint}known are {', '.join(COLUMNS)} and summary.KEY (of "
            f"SCORER: {', '.join(scorers)}), n_steps, and row.COLUMN for the columns of the input"
        )
    column = ".".join(path)
    if not owner:
        choices = " or ".join(f"{name}.{column}" for name in scorers)
        raise RuleError(f"{column!r} belongs to one scorer, but {len(scorers)} run; write {choices}")
    return owner, column


def _as_truth(value: Any, text: str) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    raise RuleError(f"{text!r} is neither true nor false here but {value!r:.60}; compare it with something")


def _joined(parts: Sequence[_Value], is_and: bool, text: str) -> _Value:
    """Kleene's three-valued and / or; later parts are not asked once the value is certain."""

    def value(read: _Read) -> bool | None:
        unknown = False
        for part in parts:
            truth = _as_truth(part(read), text)
            if truth is None:
                unknown = True
            elif truth is not is_and:
                return truth
        return None if unknown else is_and

    return value


def _negated(part: _Value, text: str) -> _Value:
    def value(read: _Read) -> bool | None:
        truth = _as_truth(part(read), text)
        return None if truth is None else not truth

    return value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _arithmetic(apply: Callable[[Any, Any], Any], left: _Value, right: _Value, text: str) -> _Value:
    def value(read: _Read) -> Any:
        a, b = left(read), right(read)
        if a is None or b is None:
            return None
        if not (_is_number(a) and _is_number(b)):
            raise RuleError(f"{text!r} needs numbers, got {a!r:.40} and {b!r:.40}")
        try:
            return apply(a, b)
        except (ZeroDivisionError, OverflowError) as error:
            raise RuleError(f"{text!r}: {error}") from None

    return value


def _called(name: str, argument: _Value) -> _Value:
    def value(read: _Read) -> Any:
        found = argument(read)
        if found is None:
            return None
        fits = _is_number(found) if name == "abs" else isinstance(found, str | list | tuple)
        if not fits:
            raise RuleError(f"{name}() needs {'a number' if name == 'abs' else 'a text or list'}, got {found!r:.60}")
        return _FUNCTIONS[name](found)

    return value


def _compared(node: ast.Compare, operands: Sequence[_Value]) -> _Value:
    """A comparison, chained or not: every link must hold."""
    text = ast.unparse(node)
    links: list[_Value] = []
    for index, op in enumerate(node.ops):
        if isinstance(op, ast.Is | ast.IsNot):
            right = node.comparators[index]
            if not (isinstance(right, ast.Constant) and right.value is None):
                raise RuleError(f"{text!r}: 'is' is for None only; compare with ==")
            links.append(_presence(operands[index], isinstance(op, ast.Is)))
        elif isinstance(op, ast.In | ast.NotIn):
            links.append(_membership(operands[index], operands[index + 1], isinstance(op, ast.In), text))
        else:
            links.append(_ordered(_ORDER[type(op)], operands[index], operands[index + 1], text))
    return links[0] if len(links) == 1 else _joined(links, True, text)


def _presence(operand: _Value, absent: bool) -> _Value:
    return lambda read: (operand(read) is None) == absent


def _membership(item: _Value, items: _Value, inside: bool, text: str) -> _Value:
    def value(read: _Read) -> bool | None:
        a, b = item(read), items(read)
        if a is None or b is None:
            return None
        if not isinstance(b, list | tuple):
            raise RuleError(f"{text!r}: 'in' needs a list on the right, got {b!r:.60}")
        return (a in b) == inside

    return value


def _ordered(compare: Callable[[Any, Any], bool], left: _Value, right: _Value, text: str) -> _Value:
    def value(read: _Read) -> bool | None:
        a, b = left(read), right(read)
        if a is None or b is None:
            return None
        alike = any(isinstance(a, kind) and isinstance(b, kind) for kind in (bool, str))
        if not alike and not (_is_number(a) and _is_number(b)):
            raise RuleError(f"{text!r} compares {type(a).__name__} {a!r:.40} with {type(b).__name__} {b!r:.40}")
        return compare(a, b)

    return value


def _of_row(rollout: Rollout, column: str) -> Any:
    match column:
        case "n_steps":
            return len(rollout.steps)
        case "problem" | "gold" | "id" | "steps":
            return getattr(rollout, column)
        case "text":
            return rollout.response
    return rollout.meta.get(column)


def _of_scorer(scores: StepScores, column: str) -> Any:
    match column:
        case "aggregate":
            return scores.aggregate()
        case "min" | "mean" | "last":
            return scores.aggregate(column)
        case "first_error":
            return known_first_error(scores)
        case "coverage" | "status" | "values":
            return getattr(scores, column)
        case "reason":
            return unscored_reason(scores)
    return scores.summary.get(column.removeprefix("summary."))


def known_first_error(scores: StepScores) -> int | None:
    """``first_error()``, or None where the scorer does not know."""
    try:
        return scores.first_error()
    except ValueError:
        return None


def unscored_reason(scores: StepScores) -> str | None:
    """Why nothing was scored, a code; None where at least one step was."""
    if scores.status == "ok":
        return None
    last = scores.reasons[-1] if scores.reasons else None
    return last or scores.summary.get("reason") or scores.status
