"""Small questions the comparison asks of a node: its words, its exact value, is it a region, a key to match it by."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from stepgauge.verifiers.symbolic import cost
from stepgauge.verifiers.symbolic.exact import rational
from stepgauge.verifiers.symbolic.modular import fingerprint
from stepgauge.verifiers.symbolic.nodes import (
    BaseNum,
    Builder,
    Congruence,
    Const,
    Div,
    Fn,
    Int,
    ListOf,
    Mul,
    Node,
    Percent,
    Quantity,
    Ratio,
    Rel,
    Seq,
    SetOf,
    SetOp,
    Sym,
    System,
    Text,
    rebuild,
)
from stepgauge.verifiers.symbolic.policy import Policy

_ARTICLE = re.compile(r"(?:a|an|the)\s+(?=\w)", re.IGNORECASE)


def words(text: str, policy: Policy) -> str:
    words = " ".join("".join(char if char.isalnum() else " " for char in text).split())
    if leading := _ARTICLE.match(words):
        words = words[leading.end() :]
    words = " ".join(word.removesuffix("s") if len(word) > 3 else word for word in words.split())
    return words.casefold() if policy.fold_case else words


def exact_value(node: Node) -> Any | None:
    try:
        return rational(node)
    except cost.Undefined:
        return None


def scale(value: Node, factor: Fraction) -> Node:
    if factor == 1:
        return value
    return Mul((value, Div(Int(factor.numerator), Int(factor.denominator))))


def is_region(node: Node) -> bool:
    if isinstance(node, (SetOp, Builder)) or (isinstance(node, Sym) and node.name.startswith("\\R")):
        return True
    if isinstance(node, Rel):
        return any(op in ("<", ">", "<=", ">=", "!=", "in", "notin") for op in node.ops)
    if isinstance(node, (ListOf, System)):
        return bool(node.items) and all(is_region(item) for item in node.items)
    return isinstance(node, Seq) and len(node.items) == 2 and (node.open, node.close) != ("(", ")")


def plain_equation(node: Node) -> bool:
    return isinstance(node, Rel) and set(node.ops) == {"="}


def key(node: Node) -> Any:
    value = None if isinstance(node, (Percent, BaseNum)) else exact_value(node)
    if value is not None:
        return ("number", value.p, value.q)
    if isinstance(node, (Rel, Text, Quantity, Congruence, Ratio, SetOf, Seq, ListOf)):
        return node
    try:
        return ("print", fingerprint(node).value)
    except (cost.Undefined, cost.TooLarge):
        return node


def keys(items: tuple[Node, ...]) -> set[Any] | None:
    values = [None if isinstance(item, Percent) else exact_value(item) for item in items]
    if any(value is None for value in values):
        return None
    return {(value.p, value.q) for value in values if value is not None}


def _imaginary(node: Node) -> Node:
    return Const("i") if node == Sym("I") else rebuild(node, _imaginary)


def _decadic(node: Node) -> Node:
    if isinstance(node, Fn) and node.name == "log" and len(node.args) == 1:
        return Fn("log", (_decadic(node.args[0]), Int(10)))
    return rebuild(node, _decadic)


READINGS = {"i": _imaginary, "log": _decadic}
