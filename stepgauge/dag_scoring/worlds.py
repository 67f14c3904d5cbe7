"""Ground-truth worlds: values of all names for which every formula of a derivation holds.

A formula that is false in them is wrong whatever it was meant to be; one that is true may follow from the derivation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from stepgauge.dag_scoring.calculus import substitute, symbols
from stepgauge.dag_scoring.equivalence import FormulaVerdict, Prepared, compare_trees, prepare
from stepgauge.dag_scoring.evaluating import Array
from stepgauge.dag_scoring.graph import FormulaDag
from stepgauge.dag_scoring.reading import Unreadable, read_formula
from stepgauge.dag_scoring.sampling import Domain, Points, points_on, random_points, residual, residual_ratio, satisfied
from stepgauge.verifiers.symbolic.nodes import Int, Node, Rel, Sym

__all__ = ["Reference", "reference_of"]

WORLDS = 24
ROUNDS = 30
MAX_NAMES = 60


@dataclass(frozen=True)
class Reference:
    """A derivation read once: its trees, the worlds where it holds, and points of each formula for a quick no."""

    dag: FormulaDag
    given: Prepared
    trees: Mapping[str, tuple[Node, ...]]  # as written, alternatives included
    applied: Mapping[str, tuple[Node, ...]]  # with the constants put in
    worlds: Mapping[str, Array]
    points: Mapping[str, Points]  # of each node, a few points where it holds
    unread: tuple[str, ...]

    def truth(self, tree: Node) -> bool | None:
        """Whether a formula holds in the worlds; None where it has names of its own or cannot be evaluated."""
        tree = _without_units(self.given.apply(tree))
        if (
            not isinstance(tree, Rel)
            or set(tree.ops) != {"="}
            or not self.worlds
            or not symbols(tree) <= set(self.worlds)
        ):
            return None
        count = len(next(iter(self.worlds.values())))
        try:
            ratio = residual_ratio(residual(tree, self.worlds), count)
        except (ValueError, ArithmeticError):
            return None
        known = np.isfinite(ratio)
        bound = 1e-6 if self.dag.rtol is None else 1.5 * self.dag.rtol
        if known.sum() < 3:
            return None
        return bool(np.mean(ratio[known] <= bound) > 0.8)

    def matches(self, tree: Node, node: str) -> FormulaVerdict:
        """The verdict on a formula and a node, the best over the node's alternatives."""
        best = FormulaVerdict("different", "values differ")
        for written in self.trees[node]:
            try:
                verdict = compare_trees(written, tree, self.given, self.dag.assumptions, self.dag.rtol)
            except (ValueError, ArithmeticError) as error:
                verdict = FormulaVerdict("undecided", str(error))
            if verdict.verdict == "equivalent":
                return verdict
            best = verdict if verdict.verdict == "undecided" else best
        return best

    def may_match(self, tree: Node, node: str) -> bool:
        """A quick no: a formula that fails at some points where the node holds does not match it."""
        if self.given.apply(tree) in self.applied[node]:
            return True
        points = self.points.get(node)
        applied = _without_units(self.given.apply(tree))
        if points is None or not isinstance(applied, Rel) or set(applied.ops) != {"="} or len(self.trees[node]) > 1:
            return True
        missing = symbols(applied) - set(points.env)
        extra = random_points(Domain.of([applied], self.dag.assumptions), missing, len(points.env[points.target]), node)
        try:
            bad = satisfied(applied, Points({**extra.env, **points.env}, points.target), self.dag.rtol)[1]
        except (ValueError, ArithmeticError):
            return True
        return bad == 0


def _without_units(tree: Node) -> Node:
    units = {name for name in symbols(tree) if name.startswith("unit:")}
    return substitute(tree, dict.fromkeys(units, Int(1))) if units else tree


def reference_of(dag: FormulaDag) -> Reference:
    """The derivation made ready; kept for the next call."""
    return _reference(json.dumps(dag.to_json(), sort_keys=True))


@lru_cache(maxsize=256)
def _reference(text: str) -> Reference:
    dag = FormulaDag.from_json(json.loads(text))
    given = prepare(dag.constants, dag.context)
    trees, applied, unread = {}, {}, []
    for node in dag.nodes:
        read = []
        for latex in (node.latex, *node.alternatives):
            try:
                read.append(read_formula(latex))
            except Unreadable:
                continue
        if not read:
            unread.append(node.id)
        trees[node.id] = tuple(read)
        applied[node.id] = tuple(given.apply(tree) for tree in read)
    first = [_without_units(applied[name][0]) for name in dag.order if applied[name]]
    equations = [tree for tree in first if isinstance(tree, Rel) and tree.ops == ("=",)]
    worlds = _solve(equations, dag, text) if equations else {}
    points = {name: found for name, read in applied.items() if read and (found := _points(read[0], dag, name))}
    return Reference(dag, given, trees, applied, worlds, points, tuple(unread))


def _points(tree: Node, dag: FormulaDag, seed: str) -> Points | None:
    plain = _without_units(tree)
    if not isinstance(plain, Rel) or plain.ops != ("=",):
        return None
    try:
        return next(points_on(plain, symbols(plain), Domain.of([plain], dag.assumptions), seed), None)
    except (ValueError, ArithmeticError):
        return None


def _solve(equations: list[Rel], dag: FormulaDag, seed: str) -> dict[str, Array]:
    """Values of all names that solve all equations, by Gauss-Newton from random starts; empty where none is found."""
    names = sorted(set().union(*(symbols(tree) for tree in equations)))
    domain = Domain.of(equations, dag.assumptions)
    if len(names) > MAX_NAMES or domain.signed or domain.complex_valued:
        return {}
    env = dict(random_points(domain, set(names), WORLDS, seed).env)
    step = 1e-7
    lenient = 1e-10 if dag.rtol is None else dag.rtol
    try:
        for _ in range(ROUNDS):
            at = _residuals(equations, env)
            if np.nanmax(np.abs(at), initial=0.0) <= 1e-13:
                break
            scale = {name: np.where(env[name] == 0, 1.0, np.abs(env[name])) for name in names}
            columns = [
                (_residuals(equations, {**env, name: env[name] + step * scale[name]}) - at) / step for name in names
            ]
            jacobian = np.stack(columns, axis=2)  # (worlds, equations, names)
            fine = np.isfinite(jacobian).all(axis=(1, 2)) & np.isfinite(at).all(axis=1)
            move = np.zeros((WORLDS, len(names)))
            if fine.any():
                move[fine] = -np.einsum("wnm,wm->wn", np.linalg.pinv(jacobian[fine], rcond=1e-8), at[fine])
            move = np.clip(move, -0.5, 0.5)
            for k, name in enumerate(names):
                env[name] = env[name] + move[:, k] * scale[name]
        ratios = np.stack([residual_ratio(residual(tree, env), WORLDS) for tree in equations])
    except (ValueError, ArithmeticError, np.linalg.LinAlgError):
        return {}
    keep = (ratios <= max(1e-9, 2 * lenient if dag.rtol else 0)).all(axis=0)
    for name in names:
        keep &= (
            domain.inside(name, env[name]) & (np.abs(env[name]) > 1e-6) & (np.abs(env[name]) < 1e6 * max(domain.scales))
        )
    return {name: env[name][keep] for name in names} if keep.sum() >= 3 else {}


def _residuals(equations: list[Rel], env: Mapping[str, Array]) -> Array:
    columns = []
    for tree in equations:
        value = residual(tree, env)
        with np.errstate(all="ignore"):
            columns.append(np.broadcast_to(value.at / np.where(value.size > 0, value.size, 1.0), (WORLDS,)))
    return np.stack(columns, axis=1)


def head_name(tree: Node) -> str | None:
    """The name that a formula gives: ``v`` of ``v = a t``."""
    if isinstance(tree, Rel) and isinstance(tree.terms[0], Sym):
        return tree.terms[0].name
    return None
