"""Operators that do not commute: formulas as polynomials in words of operators with scalar coefficients."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from stepgauge.dag_scoring.evaluating import Unsupported, evaluate
from stepgauge.verifiers.symbolic.nodes import Add, Big, Div, Fn, Int, Mul, Neg, Node, Pow, Rel, Sym, walk

Words = dict[tuple[str, ...], complex]
MAX_WORDS = 2_000


def operator_names(nodes: list[Node]) -> set[str]:
    """Names that stand in a commutator, under a dagger or under a hat."""
    found: set[str] = set()
    for node in nodes:
        for item in walk(node):
            if isinstance(item, Fn) and item.name in ("commutator", "dagger"):
                found |= {below.name for below in walk(item) if isinstance(below, Sym)}
            if isinstance(item, Sym) and item.name.startswith("hat:"):
                found.add(item.name)
    return found


def expand(node: Node, operators: set[str], env: Mapping[str, complex]) -> Words:
    """The polynomial of a tree: word of operators -> coefficient."""
    if isinstance(node, Sym) and node.name in operators:
        return {(node.name,): 1.0}
    if isinstance(node, Fn) and node.name == "dagger" and isinstance(node.args[0], Sym):
        return {(node.args[0].name + "†",): 1.0}
    if not any(isinstance(item, Sym) and item.name in operators for item in walk(node)):
        return {(): complex(evaluate(node, env).at)}
    if isinstance(node, Add):
        total: Words = {}
        for item in node.args:
            total = _plus(total, expand(item, operators, env))
        return total
    if isinstance(node, Neg):
        return _scaled(expand(node.arg, operators, env), -1)
    if isinstance(node, Mul) or (isinstance(node, Fn) and node.name in ("dot", "cross")):
        product: Words = {(): 1.0}
        for item in node.args:
            product = _times(product, expand(item, operators, env))
        return product
    if isinstance(node, Div):
        below = expand(node.den, operators, env)
        if set(below) != {()}:
            raise Unsupported("division by an operator")
        return _scaled(expand(node.num, operators, env), 1 / below[()])
    if isinstance(node, Pow) and isinstance(node.exp, Int) and 0 <= node.exp.value <= 8:
        product = {(): 1.0}
        for _ in range(node.exp.value):
            product = _times(product, expand(node.base, operators, env))
        return product
    if isinstance(node, Fn) and node.name == "commutator":
        left, right = (expand(item, operators, env) for item in node.args)
        return _plus(_times(left, right), _scaled(_times(right, left), -1))
    if isinstance(node, Big):
        raise Unsupported("calculus of operators")
    raise Unsupported(f"{type(node).__name__} of an operator")


def _plus(left: Words, right: Words) -> Words:
    total = dict(left)
    for word, value in right.items():
        total[word] = total.get(word, 0) + value
    return total


def _scaled(words: Words, factor: complex) -> Words:
    return {word: value * factor for word, value in words.items()}


def _times(left: Words, right: Words) -> Words:
    if len(left) * len(right) > MAX_WORDS:
        raise Unsupported("too many words of operators")
    total: Words = {}
    for a, x in left.items():
        for b, y in right.items():
            total[a + b] = total.get(a + b, 0) + x * y
    return total


def reduced(words: Words, rules: Mapping[tuple[str, str], Words]) -> Words:
    """The polynomial after replacing each pair of neighbours that has a rule, until none is left."""
    done: Words = {}
    pending = list(words.items())
    for _ in range(20_000):
        if not pending:
            return {word: value for word, value in done.items() if abs(value) > 1e-12}
        word, value = pending.pop()
        spot = next((k for k in range(len(word) - 1) if word[k : k + 2] in rules), None)
        if spot is None:
            done[word] = done.get(word, 0) + value
        else:
            pair = rules[(word[spot], word[spot + 1])]
            pending += [(word[:spot] + new + word[spot + 2 :], value * factor) for new, factor in pair.items()]
    raise Unsupported("rules that do not end")


def commutation_rules(
    context: list[Node], operators: set[str], env: Mapping[str, complex]
) -> dict[tuple[str, str], Words]:
    """``[a, b] = c`` as the rule a b -> b a + c."""
    rules: dict[tuple[str, str], Words] = {}
    for node in context:
        if isinstance(node, Rel) and node.ops == ("=",):
            left, right = node.terms
            if isinstance(left, Fn) and left.name == "commutator":
                first, second = (expand(item, operators, env) for item in left.args)
                if len(first) == len(second) == 1:
                    (a,), (b,) = next(iter(first)), next(iter(second))
                    rules[(a, b)] = _plus({(b, a): 1.0}, expand(right, operators, env))
    return rules


def proportional(left: Words, right: Words) -> bool:
    """Whether one polynomial is a nonzero number times the other."""
    if set(left) != set(right) or not left:
        return False
    factors = np.array([left[word] / right[word] for word in left])
    return bool(np.all(np.abs(factors - factors[0]) <= 1e-9 * np.abs(factors[0])))
