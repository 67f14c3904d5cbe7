"""Do two formulas of physics say the same? A test on their solution sets, by points, without solving symbolically.

Take points where one formula holds, test the other there, and the other way round. Names that cancel therefore do not
matter, and a root that one form has and the other has not is found.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, Literal

import numpy as np

from stepgauge.dag_scoring.calculus import resolve, substitute, symbols
from stepgauge.dag_scoring.evaluating import Unsupported, evaluate
from stepgauge.dag_scoring.operators import commutation_rules, expand, operator_names, proportional, reduced
from stepgauge.dag_scoring.reading import Unreadable, read_formula
from stepgauge.dag_scoring.sampling import Domain, Points, agreement, points_on, random_points, satisfied, truth
from stepgauge.verifiers.symbolic.nodes import Add, Div, Int, Neg, Node, PlusMinus, Rel, Sym, rebuild, walk

__all__ = ["FormulaVerdict", "Verdict", "compare_trees", "equal_formulas", "prepare"]

Verdict = Literal["equivalent", "implies", "implied", "different", "unparsed", "undecided"]
_INEQUALITIES = frozenset(("<", "<=", ">", ">=", "!="))
ENOUGH = 8


@dataclass(frozen=True, slots=True)
class FormulaVerdict:
    """``verdict``, why, and the milliseconds it took. Only ``equivalent`` counts as the same formula."""

    verdict: Verdict
    reason: str = ""
    ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the problem gives, read once: names to substitute, names that are constant, rules of operators."""

    values: Mapping[str, Node]
    constant: frozenset[str]
    context: tuple[Node, ...]

    def apply(self, node: Node) -> Node:
        for _ in range(6):
            changed = substitute(node, self.values)
            if changed == node:
                break
            node = changed
        return resolve(node, self.constant)


def prepare(constants: Mapping[str, object], context: Sequence[str]) -> Prepared:
    """Read constants and context relations.

    Raises:
        Unreadable: one of them cannot be read.
    """
    values: dict[str, Node] = {}
    constant: set[str] = set()
    nodes: list[Node] = []
    for name, value in constants.items():
        head = read_formula(name)
        if not isinstance(head, Sym):
            raise Unreadable(f"the constant {name!r} is not a name")
        values[head.name] = read_formula(str(value))
    for text in context:
        relation = (
            text.replace("\\text{const}", "CONST")
            .replace("\\text{constant}", "CONST")
            .replace("\\mathrm{const}", "CONST")
        )
        if "CONST" in relation:
            constant |= symbols(read_formula(relation.partition("=")[0]))
            continue
        node = read_formula(text)
        nodes.append(node)
        _define(node, values)
    return Prepared(values, frozenset(constant), tuple(nodes))


def _define(node: Node, values: dict[str, Node]) -> None:
    """Turn a context equation into a substitution, by solving for a name in which it is linear."""
    if not (isinstance(node, Rel) and node.ops == ("=",)):
        return
    left, right = (substitute(term, values) for term in node.terms)
    if isinstance(left, Sym) and left.name not in symbols(right) and left.name not in values:
        values[left.name] = right
        return
    residual = Add((left, Neg(right)))
    for name in sorted(symbols(residual) - set(values)):
        one, two, far = (substitute(residual, {name: Int(k)}) for k in (1, 2, 5))
        slope = Add((two, Neg(one)))
        env = random_points(Domain({}, frozenset()), symbols(residual), 6, seed=name).env
        try:
            a, b, c = (evaluate(item, env) for item in (one, slope, far))
        except Unsupported:
            continue
        if np.all(np.abs(a.at + 4 * b.at - c.at) <= 1e-9 * c.size) and np.all(np.abs(b.at) > 1e-9 * b.size):
            values[name] = Add((Int(1), Neg(Div(one, slope))))
            return


def equal_formulas(
    a: str,
    b: str,
    constants: Mapping[str, object] | None = None,
    context: Sequence[str] = (),
    assumptions: Mapping[str, str] | None = None,
    rtol: float | None = None,
) -> FormulaVerdict:
    """Compare two formulas of physics as statements about the same quantities.

    Two formulas are equivalent iff they have the same solutions, after the constants and the context are put in, over
    positive numbers (``assumptions`` may say "real" or "angle" of a name).

    Args:
        a, b: LaTeX of an equation, an inequality or an expression.
        constants: name -> number or LaTeX that the problem gives for it.
        context: relations that may be used to eliminate names; ``m = \\text{const}`` says that m does not change.
        assumptions: name -> "real", "positive", "angle" or "integer".
        rtol: relative tolerance on the solved-for quantity; None compares exactly (to rounding).

    Returns:
        ``equivalent``; ``implies`` (every solution of a is one of b, not the other way round); ``implied``;
        ``different``; ``unparsed``; ``undecided`` (too few points could be tested). The last two are never "wrong".

    Example:
        >>> equal_formulas(r"\\frac{1}{2} m v^2 = m g h", r"v = \\sqrt{2 g h}").verdict
        'equivalent'
        >>> equal_formulas(r"\\vec{\\tau} = \\vec{r}\\times\\vec{F}", r"\\vec{\\tau} = \\vec{F}\\times\\vec{r}").verdict
        'different'
    """
    start = time.perf_counter()

    def done(verdict: Verdict, reason: str) -> FormulaVerdict:
        return FormulaVerdict(verdict, reason, (time.perf_counter() - start) * 1e3)

    try:
        given = prepare(constants or {}, context)
        left, right = read_formula(a), read_formula(b)
    except Unreadable as error:
        return done("unparsed", str(error))
    try:
        with np.errstate(all="ignore"):
            found = compare_trees(left, right, given, assumptions or {}, rtol)
    except (ValueError, ArithmeticError, RecursionError) as error:
        return done("undecided", str(error))
    return replace(found, ms=(time.perf_counter() - start) * 1e3)


def compare_trees(
    left: Node, right: Node, given: Prepared, assumptions: Mapping[str, str], rtol: float | None
) -> FormulaVerdict:
    """``equal_formulas`` on trees.

    Raises:
        Unsupported: a part of a formula has no value.
    """
    trees = _same_units([given.apply(left), given.apply(right)])
    operators = operator_names([*trees, *given.context])
    vectors = any(name.startswith("vec:") for tree in trees for name in symbols(tree))
    if operators and not vectors:
        return _compare_operators(trees, given, operators)
    first, second = (_links(tree) for tree in trees)
    if len(first) > 1 or len(second) > 1:
        return _compare_chains(first, second, given, assumptions, rtol)
    domain = Domain.of(trees, assumptions)
    kinds = [_kind(tree) for tree in trees]
    if kinds[0] != kinds[1]:
        return FormulaVerdict("different", f"{kinds[0]} against {kinds[1]}")
    if kinds[0] == "inequality":
        return _compare_inequalities(trees, domain)
    if any(isinstance(item, PlusMinus) for tree in trees for item in walk(tree)):
        return _compare_signs(trees, given, assumptions, rtol)
    if kinds[0] == "expression":
        return _compare_expressions(trees, domain, rtol)
    return _compare_equations(trees, domain, rtol)


def _kind(tree: Node) -> str:
    if not isinstance(tree, Rel):
        return "expression"
    if tree.ops[0] == "=":
        return "equation"
    if tree.ops[0] in _INEQUALITIES:
        return "inequality"
    raise Unsupported(f"relation {tree.ops[0]!r}")


def _same_units(trees: list[Node]) -> list[Node]:
    """Where only one formula has units, they are taken as SI and dropped."""
    units = [{name for name in symbols(tree) if name.startswith("unit:")} for tree in trees]
    if bool(units[0]) == bool(units[1]):
        return trees
    return [substitute(tree, dict.fromkeys(names, Int(1))) for tree, names in zip(trees, units, strict=True)]


def _links(tree: Node) -> list[Node]:
    if not isinstance(tree, Rel) or len(tree.ops) == 1:
        return [tree]
    return [Rel((op,), (tree.terms[k], tree.terms[k + 1])) for k, op in enumerate(tree.ops)]


def _compare_chains(
    first: list[Node], second: list[Node], given: Prepared, assumptions: Mapping[str, str], rtol: float | None
) -> FormulaVerdict:
    """Chains link by link: each link of one must be a link of the other."""
    plain = Prepared({}, given.constant, ())

    def covered(links: list[Node], others: list[Node]) -> bool:
        return all(
            any(compare_trees(x, y, plain, assumptions, rtol).verdict == "equivalent" for y in others) for x in links
        )

    forward, backward = covered(second, first), covered(first, second)
    if forward and backward:
        return FormulaVerdict("equivalent", "the same links")
    if forward or backward:
        return FormulaVerdict("implies" if forward else "implied", "one chain has more links")
    return FormulaVerdict("different", "links differ")


def _compare_operators(trees: list[Node], given: Prepared, operators: set[str]) -> FormulaVerdict:
    names = set().union(*(symbols(tree) for tree in (*trees, *given.context))) - operators
    values = random_points(Domain({}, frozenset()), names, 1, seed="operators").env
    env = {name: value[0] for name, value in values.items()}
    rules = commutation_rules(list(given.context), operators, env)
    words = []
    for tree in trees:
        if isinstance(tree, Rel) and tree.ops == ("=",):
            tree = Add((tree.terms[0], Neg(tree.terms[1])))
        elif isinstance(tree, Rel):
            raise Unsupported("a relation of operators")
        words.append(reduced(expand(tree, operators, env), rules))
    if not words[0] or not words[1]:
        return FormulaVerdict("different", "an identity of operators")
    same = proportional(*words)
    return FormulaVerdict(
        "equivalent" if same else "different", "operator polynomials " + ("agree" if same else "differ")
    )


def _compare_signs(
    trees: list[Node], given: Prepared, assumptions: Mapping[str, str], rtol: float | None
) -> FormulaVerdict:
    """± is two formulas; both must match, in either order."""
    plain = Prepared({}, given.constant, ())
    versions = [[_signed(tree, sign) for sign in (1, -1)] for tree in trees]

    def same(x: Node, y: Node) -> bool:
        return compare_trees(x, y, plain, assumptions, rtol).verdict == "equivalent"

    (a, b), (c, d) = versions
    both = (same(a, c) and same(b, d)) or (same(a, d) and same(b, c))
    return FormulaVerdict("equivalent" if both else "different", "both signs" if both else "signs differ")


def _signed(node: Node, sign: int) -> Node:
    if isinstance(node, PlusMinus):
        right = _signed(node.right, sign)
        term = right if node.upper * sign > 0 else Neg(right)
        return term if node.left is None else Add((_signed(node.left, sign), term))
    return rebuild(node, lambda item: _signed(item, sign))


def _compare_expressions(trees: list[Node], domain: Domain, rtol: float | None) -> FormulaVerdict:
    names = set().union(*(symbols(tree) for tree in trees))
    points = random_points(domain, names, 48, seed=repr(trees))
    equal, unequal = agreement(trees[0], trees[1], points, rtol)
    if unequal:
        return FormulaVerdict("different", "values differ")
    if equal < ENOUGH:
        return FormulaVerdict("undecided", "too few points where both have a value")
    return FormulaVerdict("equivalent", "equal values")


def _compare_inequalities(trees: list[Node], domain: Domain) -> FormulaVerdict:
    relations: list[Any] = trees
    strict = [relation.ops[0] in ("<", ">", "!=") for relation in relations]
    names = set().union(*(symbols(tree) for tree in trees))
    points = random_points(domain, names, 200, seed=repr(trees))
    boundary = points_on(Rel(("=",), relations[0].terms), names, domain, seed=repr(trees[0]))
    batches = [points]
    for on in boundary:
        for factor in (0.95, 1.05, 1.0 - 1e-4, 1.0 + 1e-4):
            batches.append(Points({**on.env, on.target: on.env[on.target] * factor}, on.target))
    counts = np.zeros((2, 2), int)
    for batch in batches:
        first, second = (truth(relation, batch) for relation in relations)
        for k in (0, 1):
            for m in (0, 1):
                counts[k, m] += int(np.sum((first == k) & (second == m)))
    if counts[0, 0] + counts[1, 1] + counts[0, 1] + counts[1, 0] < ENOUGH:
        return FormulaVerdict("undecided", "too few points where both have a value")
    if not counts[1].sum() or not counts[:, 1].sum() or not counts[0].sum() or not counts[:, 0].sum():
        if counts[0, 1] or counts[1, 0]:
            return FormulaVerdict("different", "truth differs")
        return FormulaVerdict("undecided", "never both true and false")
    if counts[0, 1] and counts[1, 0]:
        return FormulaVerdict("different", "truth differs")
    if counts[0, 1] or counts[1, 0]:
        return FormulaVerdict("implies" if counts[0, 1] else "implied", "one region holds the other")
    if strict[0] != strict[1]:
        return FormulaVerdict("implies" if strict[0] else "implied", "strict against not strict")
    return FormulaVerdict("equivalent", "the same region")


def _compare_equations(trees: list[Node], domain: Domain, rtol: float | None) -> FormulaVerdict:
    names = set().union(*(symbols(tree) for tree in trees))
    seed = "|".join(sorted(map(repr, trees)))
    if any(_identity(tree, names, domain, seed) for tree in trees):
        return FormulaVerdict("different", "an identity says nothing")
    if trees[0] == trees[1]:
        return FormulaVerdict("equivalent", "the same tree")
    true, false = [0, 0], [0, 0]
    batches = [points_on(tree, names, domain, seed) for tree in trees]
    for forward, backward in zip_longest(*batches):
        for k, points in enumerate((forward, backward)):
            if points is not None:
                good, bad = satisfied(trees[1 - k], points, rtol)
                true[k] += good
                false[k] += bad
        if all(false) and not any(true):
            break
    if not any(true) and not any(false) and not domain.signed:
        return _compare_equations(trees, replace(domain, signed=True), rtol)
    if all(false) or (any(false) and min(true) == 0):
        return FormulaVerdict("different", "solutions differ")
    if min(true[k] + false[k] for k in (0, 1)) == 0:
        return FormulaVerdict("undecided", "no point found where one of them holds and the other has a value")
    if any(false):
        return FormulaVerdict("implied" if false[0] else "implies", "one has more solutions")
    if min(true) < ENOUGH:
        return FormulaVerdict("undecided", f"only {min(true)} points")
    return FormulaVerdict("equivalent", "the same solutions")


def _identity(tree: Node, names: set[str], domain: Domain, seed: str) -> bool:
    assert isinstance(tree, Rel)
    if not symbols(tree):
        return True
    equal, unequal = agreement(tree.terms[0], tree.terms[1], random_points(domain, names, 12, seed), None)
    return equal >= 3 and unequal == 0
