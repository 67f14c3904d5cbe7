"""Equalities with symbols: ``Let x = 5`` in one step, ``2x = 10`` in a later one.

A symbol counts only where a step gives it a number in words (let, given, suppose, set, where, define); a second value
for it, or any other equation on it, ends that. A clause is read only as a whole, by the symbolic parser.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from stepgauge.verifiers.symbolic import cost
from stepgauge.verifiers.symbolic.exact import rational
from stepgauge.verifiers.symbolic.nodes import Apply, Const, Div, Int, Neg, Node, Rel, Sym, rebuild, walk
from stepgauge.verifiers.symbolic.parser import Invalid, parse
from stepgauge.verifiers.symbolic.policy import Policy
from stepgauge.verifiers.symbolic.scalars import close

__all__ = ["symbol_claims"]

_MAX_CLAUSE = 120
_MAX_CLAUSES = 200
_SPLIT = re.compile(
    r"\\\[|\\\]|\\\(|\\\)|\$+|[,;:!?\n]|\.(?=\s|$)|\b(let|given|suppose|set|where|define|so|then|thus|hence|therefore|and|we|get|have"
    r"|find|gives?|which|that|since|because|is|now|but|if|when|or)\b",
    re.IGNORECASE,
)
_KEEPS = frozenset(("and", ",", "$", "$$", "\\(", "\\)", "\\[", "\\]"))  # what a definition runs on over
_DEFINES = frozenset(("let", "given", "suppose", "set", "where", "define"))


def symbol_claims(step: str, known: MutableMapping[str, Any]) -> list[tuple[str, bool, str, str]]:
    """Claims of a step that use symbols of ``known``: text, whether it holds, both sides; ``known`` learns and forgets.

    ``known`` maps a name to its exact value, or to None once it has had two.

    >>> known = {}
    >>> symbol_claims("Let x = 5.", known), symbol_claims("Then 2x = 10 and 3x = 16.", known)
    ([], [('2x = 10', True, '10', '10'), ('3x = 16', False, '15', '16')])
    """
    claims: list[tuple[str, bool, str, str]] = []
    for word, clause in _clauses(step):
        node = parse(clause)
        if isinstance(node, Invalid) or not isinstance(node, Rel) or set(node.ops) != {"="}:
            continue
        names = {part.name for part in walk(node) if isinstance(part, Sym)}
        if isinstance(node.terms[0], Sym) and len(node.terms) == 2:
            _learn(node.terms[0].name, node.terms[1], word in _DEFINES, known)
            continue
        if (
            not names
            or any(known.get(name) is None for name in names)
            or any(isinstance(p, (Apply, Const)) for p in walk(node))
        ):
            continue
        claims.extend(_links(clause, node, known))
    return claims


def _clauses(step: str) -> Iterator[tuple[str, str]]:
    """The word before each clause that holds an equals sign, and the clause."""
    word, start, seen = "", 0, 0
    for match in _SPLIT.finditer(step):
        clause = step[start : match.start()].strip()
        if "=" in clause and len(clause) <= _MAX_CLAUSE and seen < _MAX_CLAUSES:
            seen += 1
            yield word, clause
        if match[0].lower() not in _KEEPS:
            word = match[0].lower()
        start = match.end()
    clause = step[start:].strip().rstrip(".")
    if "=" in clause and len(clause) <= _MAX_CLAUSE:
        yield word, clause


def _learn(name: str, node: Node, defines: bool, known: MutableMapping[str, Any]) -> None:
    try:
        value = rational(_substituted(node, known))
    except cost.Undefined:
        value = None
    if name in known:
        if known[name] != value:
            known[name] = None
    elif defines and value is not None:
        known[name] = value


def _substituted(node: Node, known: Mapping[str, Any]) -> Node:
    """The node with known symbols replaced by their values."""
    if isinstance(node, Sym) and known.get(node.name) is not None:
        value = known[node.name]
        number: Node = Int(abs(int(value.p))) if value.q == 1 else Div(Int(abs(int(value.p))), Int(int(value.q)))
        return Neg(number) if value < 0 else number
    return rebuild(node, lambda child: _substituted(child, known))


def _links(clause: str, node: Rel, known: Mapping[str, Any]) -> Iterator[tuple[str, bool, str, str]]:
    """Each link of the chain whose two sides have values."""
    for left, right in zip(node.terms, node.terms[1:], strict=False):
        sides = _substituted(left, known), _substituted(right, known)
        try:
            one, other = rational(sides[0]), rational(sides[1])
        except cost.Undefined:
            continue
        if one is not None and other is not None:
            yield clause, bool(one == other or close(*sides, Policy(min_digits=1))), str(one), str(other)
