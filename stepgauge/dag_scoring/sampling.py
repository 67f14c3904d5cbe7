"""Points of a typed domain, and points where a formula holds. Seeded by content: the same call, the same points."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stepgauge.dag_scoring.calculus import symbols
from stepgauge.dag_scoring.evaluating import Array, Value, evaluate, holds_relation
from stepgauge.dag_scoring.reading import Unreadable, read_formula
from stepgauge.verifiers.symbolic.nodes import Add, Big, Const, Dec, Fn, Int, Neg, Node, Rel, Sym, walk

POINTS = 12
TARGETS = 3
EXACT = 1e-8
FALSE = 1e-6
_TRIG = frozenset("sin cos tan cot sec csc".split())
_COMPLEX = frozenset(("psi", "Psi"))
_MAX_GRIDS = 1


@dataclass(frozen=True, slots=True)
class Domain:
    """Kind of each name: positive unless said otherwise; ``complex_valued`` where the imaginary unit occurs."""

    kinds: Mapping[str, str]
    angles: frozenset[str]
    complex_valued: bool = False
    scales: tuple[float, ...] = (1.0,)
    signed: bool = False  # solved-for names may be negative

    @staticmethod
    def of(trees: Sequence[Node], assumptions: Mapping[str, str]) -> Domain:
        """The domain of formulas: a name inside a trigonometric function is an angle in (0, pi/2)."""
        kinds: dict[str, str] = {}
        for name, kind in assumptions.items():
            try:
                head = read_formula(name)
            except Unreadable:
                continue
            for item in walk(head):
                if isinstance(item, Sym):
                    kinds[item.name] = kind
            if isinstance(head, Big):
                from stepgauge.dag_scoring.calculus import resolve

                kinds |= dict.fromkeys(symbols(resolve(head, frozenset())), kind)
        angles: set[str] = set()
        complex_valued = False
        scales = {1.0}
        for tree in trees:
            for item in walk(tree):
                if isinstance(item, Fn) and item.name in _TRIG and isinstance(item.args[0], Sym):
                    angles.add(item.args[0].name)
                elif isinstance(item, Const) and item.name == "i":
                    complex_valued = True
                elif isinstance(item, Sym) and item.name.split("_")[0] in _COMPLEX:
                    if any(isinstance(other, Fn) and other.name in ("abs", "conj") for t in trees for other in walk(t)):
                        complex_valued = True
                elif isinstance(item, Dec):
                    size = abs(item.digits) * 10.0**-item.scale if item.scale < 300 else 0.0
                    if size and not 1e-3 <= size <= 1e3:
                        scales.add(size)
                elif isinstance(item, Int) and 1000 < abs(item.value) < 10**30:
                    scales.add(float(abs(item.value)))
        angles |= {name for name, kind in kinds.items() if kind == "angle"}
        signed = any(name.startswith("vec:") for tree in trees for name in symbols(tree))
        return Domain(kinds, frozenset(angles), complex_valued, tuple(sorted(scales)), signed)

    def draw(self, name: str, count: int, rng: np.random.Generator) -> Array:
        """Random values of one name."""
        kind = self.kinds.get(name, "positive")
        if name.startswith("vec:"):
            return rng.normal(size=(3, count))
        if kind == "integer":
            return rng.integers(1, 8, count).astype(float)
        if name in self.angles:
            return rng.uniform(0.15, 1.4, count)
        values = np.exp(rng.uniform(-1.1, 1.1, count))
        if len(self.scales) > 1:
            values = values * rng.choice(self.scales, count)
        if self.complex_valued and name.split("_")[0] in _COMPLEX:
            return values * np.exp(1j * rng.uniform(0.2, 6.0, count))
        return values * rng.choice([-1.0, 1.0], count) if kind == "real" else values

    def inside(self, name: str, values: Array) -> Array:
        """Which values the name may take."""
        if self.complex_valued:
            return np.isfinite(values)
        fine = np.isfinite(values)
        if self.signed or self.kinds.get(name) == "real" or name.startswith(("D(", "int(")):
            return fine
        if name in self.angles:
            return fine & (values > 0) & (values < np.pi / 2 + 1e-9)
        return fine & (values > 0)


@dataclass(frozen=True, slots=True)
class Points:
    """Values of all names at each point; ``target`` is the name that was solved for."""

    env: dict[str, Array]
    target: str = ""


def _rng(*parts: str) -> np.random.Generator:
    return np.random.default_rng(
        int.from_bytes(hashlib.blake2b("\0".join(parts).encode(), digest_size=8).digest(), "big")
    )


def random_points(domain: Domain, names: set[str], count: int, seed: str) -> Points:
    """Points of the domain that solve nothing."""
    rng = _rng(seed)
    return Points({name: domain.draw(name, count, rng) for name in sorted(names)})


def residual(tree: Rel, env: Mapping[str, Array]) -> Value:
    """Left minus right, with the size of the terms."""
    return evaluate(Add((tree.terms[0], Neg(tree.terms[1]))), env)


def residual_ratio(value: Value, count: int) -> Array:
    """|residual| / size at each point: one number a point, nan where undefined."""
    at, size = np.abs(value.at), np.real(value.size)
    with np.errstate(all="ignore"):
        if value.vector and np.ndim(at):
            at, size = at.max(axis=0), size.max(axis=0)
        ratio = np.where(size > 0, at / np.where(size > 0, size, 1.0), np.where(at == 0, 0.0, np.nan))
    ratio = np.where(np.isfinite(at) & np.isfinite(size), ratio, np.nan)
    return np.broadcast_to(ratio, (count,))


def _count(env: Mapping[str, Array]) -> int:
    return next((np.shape(value)[-1] for value in env.values() if np.ndim(value)), 1)


def agreement(left: Node, right: Node, points: Points, rtol: float | None) -> tuple[int, int]:
    """How many points give equal values, how many unequal ones."""
    count = _count(points.env)
    ratio = residual_ratio(residual(Rel(("=",), (left, right)), points.env), count)
    bound = EXACT if rtol is None else rtol
    return int(np.sum(ratio <= bound)), int(np.sum(ratio > max(bound, FALSE if rtol is None else 0)))


def truth(relation: Rel, points: Points) -> Array:
    """1, 0 or -1 (no value) at each point."""
    count = _count(points.env)
    left, right = (evaluate(term, points.env) for term in relation.terms)
    defined = np.isfinite(np.broadcast_to(np.real(left.at), (count,))) & np.isfinite(
        np.broadcast_to(np.real(right.at), (count,))
    )
    return np.where(defined, np.broadcast_to(holds_relation(relation, points.env), (count,)), -1)


def points_on(tree: Node, names: set[str], domain: Domain, seed: str) -> Iterator[Points]:
    """Batches of points where the equation holds, each solved for another of its names."""
    assert isinstance(tree, Rel)
    own = sorted(symbols(tree), key=lambda name: (domain.kinds.get(name) != "real", name))
    left = tree.terms[0]
    if isinstance(left, Sym) and left.name in own:
        own.remove(left.name)
        own.insert(0, left.name)
    integral = any(isinstance(item, Big) for item in walk(tree))
    grids = used = 0
    for target in own:
        if target.startswith("unit:"):
            continue
        if used >= TARGETS:
            return
        env = random_points(domain, names, POINTS, f"{seed}/{target}").env
        if target.startswith("vec:"):
            roots = _vector_roots(tree, env, target)
            if roots is not None:
                used += 1
                yield Points({**env, target: roots}, target)
            continue
        found = _linear_roots(tree, env, target)
        if found is None and grids < _MAX_GRIDS and not domain.complex_valued and not (integral and used):
            grids += 1
            found = _grid_roots(tree, env, target, domain)
        if found is None:
            continue
        env, roots = found
        check = residual_ratio(residual(tree, {**env, target: roots}), np.shape(roots)[-1])
        keep = domain.inside(target, roots) & (check <= 1e-9)
        if keep.any():
            used += 1
            yield Points({**{name: value[..., keep] for name, value in env.items()}, target: roots[keep]}, target)


def _linear_roots(tree: Rel, env: dict[str, Array], target: str) -> tuple[dict[str, Array], Array] | None:
    """The root where the residual is linear in the target; None where it is not."""
    count = _count(env)
    left, right = tree.terms
    if left == Sym(target) and target not in symbols(right):
        value = evaluate(right, env)
        return None if value.vector else (env, np.broadcast_to(value.at, (count,)))
    tiled = {name: np.tile(array, 3) for name, array in env.items()}
    value = residual(tree, {**tiled, target: np.repeat((1.0, 2.0, 3.7), count)})
    if value.vector:
        return None
    one, two, far = np.broadcast_to(value.at, (3 * count,)).reshape(3, count)
    _, middle, size = np.broadcast_to(value.size, (3 * count,)).reshape(3, count)
    slope = two - one
    with np.errstate(all="ignore"):
        linear = np.abs(one + 2.7 * slope - far) <= 1e-9 * size
        usable = np.isfinite(far) & (np.abs(slope) > 1e-12 * middle)
        if not np.any(usable) or not np.all(linear[usable]):
            return None
        roots = 1.0 - one / slope
        # the difference loses digits where the slope is small: one correction
        again = residual(tree, {**env, target: roots})
        return env, np.where(usable, roots - again.at / slope, np.nan)


def _vector_roots(tree: Rel, env: dict[str, Array], target: str) -> Array | None:
    """The nearest vector to the drawn one that solves an equation linear in it."""
    count = _count(env)
    base = _rows(residual(tree, {**env, target: np.zeros((3, count))}), count)
    units = [np.repeat(np.eye(3)[axis][:, None], count, axis=1) for axis in range(3)]
    columns = [_rows(residual(tree, {**env, target: unit}), count) - base for unit in units]
    matrix = np.stack(columns, axis=1)  # (points, 3 components of the target, rows)
    guess = env[target].T
    offset = np.einsum("pcr,pc->pr", matrix, guess) + base
    if not np.isfinite(matrix).all() or not np.isfinite(offset).all():
        return None
    roots = (guess - np.einsum("prc,pr->pc", np.linalg.pinv(matrix), offset)).T
    # a residual that is not linear in the vector is left
    return roots if np.all(residual_ratio(residual(tree, {**env, target: roots}), count) <= 1e-9) else None


def _rows(value: Value, count: int) -> Array:
    """A residual as (points, rows)."""
    return np.broadcast_to(value.at, (3, count)).T if value.vector else np.broadcast_to(value.at, (count,))[:, None]


def _grid_roots(tree: Rel, env: dict[str, Array], target: str, domain: Domain) -> tuple[dict[str, Array], Array] | None:
    """Roots by sign change on a grid, refined by bisection and false position."""
    if target in domain.angles:
        grid = np.linspace(1e-3, np.pi / 2 - 1e-3, 60)
    else:
        top = max(domain.scales)
        bottom = min(domain.scales)
        positive = np.geomspace(1e-3 * bottom, 1e3 * top, 80)
        grid = np.concatenate([-positive[::-1], positive]) if domain.kinds.get(target) == "real" else positive
    spread = {name: value[..., None] for name, value in env.items()}
    value = residual(tree, {**spread, target: grid[None, :]})
    if value.vector or np.iscomplexobj(value.at):
        return None
    count = _count(env)
    table = np.broadcast_to(value.at, (count, grid.size))
    with np.errstate(all="ignore"):
        crossing = (
            (np.sign(table[:, :-1]) * np.sign(table[:, 1:]) < 0)
            & np.isfinite(table[:, :-1])
            & np.isfinite(table[:, 1:])
        )
    rows, columns = np.nonzero(crossing)
    if rows.size == 0:
        return None
    rows, columns = rows[:32], columns[:32]
    chosen = {name: array[..., rows] for name, array in env.items()}
    low, high = grid[columns].copy(), grid[columns + 1].copy()
    at_low = table[rows, columns].copy()
    at_high = table[rows, columns + 1].copy()
    for turn in range(40):
        with np.errstate(all="ignore"):
            secant = high - at_high * (high - low) / (at_high - at_low)
        middle = (low + high) / 2
        point = np.where((turn % 3 < 2) & np.isfinite(secant) & (secant > low) & (secant < high), secant, middle)
        at = np.broadcast_to(residual(tree, {**chosen, target: point}).at, point.shape)
        left = np.sign(at) == np.sign(at_low)
        low, at_low = np.where(left, point, low), np.where(left, at, at_low)
        high, at_high = np.where(left, high, point), np.where(left, at_high, at)
        if np.all((np.abs(high - low) <= 1e-15 * np.abs(high)) | (at == 0)):
            break
    best = np.where(np.abs(at_low) < np.abs(at_high), low, high)
    roots = np.where(at == 0, point, best)
    return chosen, np.where(np.abs(roots) < 1e-12 * min(1.0, min(domain.scales)), 0.0, roots)


def satisfied(tree: Node, points: Points, rtol: float | None) -> tuple[int, int]:
    """How many of the points satisfy the equation, how many do not; points without a value count for neither."""
    assert isinstance(tree, Rel)
    count = _count(points.env)
    value = residual(tree, points.env)
    ratio = residual_ratio(value, count)
    has_integral = any(isinstance(item, Big) for item in walk(tree))
    exact, false = (1e-6, 1e-4) if has_integral else (EXACT, FALSE)
    good = ratio <= exact
    bad = ratio > false
    if rtol is not None and points.target and not points.target.startswith("vec:"):
        shifted = [
            np.broadcast_to(
                residual(tree, {**points.env, points.target: points.env[points.target] * (1 + step)}).at, (count,)
            )
            for step in (-rtol, rtol)
        ]
        if not any(np.iscomplexobj(item) for item in shifted):
            within = np.sign(shifted[0]) != np.sign(shifted[1])
            good, bad = good | within, bad & ~within
    return int(good.sum()), int(bad.sum())
