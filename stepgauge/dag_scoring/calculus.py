"""Substitution, derivatives and the names of opaque atoms on formula trees."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stepgauge.verifiers.symbolic.nodes import (
    Add,
    Big,
    Const,
    Dec,
    Div,
    Fn,
    Int,
    Mul,
    Neg,
    Node,
    Pow,
    Sym,
    rebuild,
    walk,
)

ZERO, ONE, TWO = Int(0), Int(1), Int(2)


def symbols(node: Node) -> set[str]:
    """Names that occur in the tree."""
    return {item.name for item in walk(node) if isinstance(item, Sym)}


def substitute(node: Node, values: Mapping[str, Node]) -> Node:
    """The tree with every name in ``values`` replaced; dummies of integrals and sums are left alone."""
    if isinstance(node, Sym):
        return values.get(node.name, node)
    if isinstance(node, Big):
        inner = {name: value for name, value in values.items() if name != node.var.name}
        low = None if node.low is None else substitute(node.low, values)
        high = None if node.high is None else substitute(node.high, values)
        return Big(node.op, node.var, low, high, substitute(node.body, values if node.op == "diff" else inner))
    return rebuild(node, lambda item: substitute(item, values))


def atom(kind: str, body: Node, var: str) -> Sym:
    """The one name of something that is not evaluated: a derivative of an unknown, an integral of one."""
    inner = body.name if isinstance(body, Sym) else repr(body)
    prefix = "vec:" if inner.startswith("vec:") else ""
    return Sym(f"{prefix}{kind}({inner.removeprefix('vec:')},{var})")


def resolve(node: Node, constant: frozenset[str]) -> Node:
    """Carry out the derivatives of a tree; what stays unknown becomes one atom."""
    if isinstance(node, Big) and node.op == "diff":
        body = resolve(node.body, constant)
        names = symbols(body)
        explicit = node.var.name in names
        return derivative(body, node.var.name, names - {node.var.name} if explicit else constant)
    if isinstance(node, Big) and node.op == "int":
        body = resolve(node.body, constant)
        plain = node.low is None or node.high is None
        opaque = node.var.name not in symbols(body) and bool(symbols(body))
        if plain or opaque:
            limits = "" if plain else f",{node.low!r},{node.high!r}"
            return atom("int", body, node.var.name + limits)
        low, high = (None if item is None else resolve(item, constant) for item in (node.low, node.high))
        return Big("int", node.var, low, high, body)
    return rebuild(node, lambda item: resolve(item, constant))


_CHAIN: dict[str, Callable[[Node], Node]] = {
    "sin": lambda u: Fn("cos", (u,)),
    "cos": lambda u: Neg(Fn("sin", (u,))),
    "tan": lambda u: Div(ONE, Pow(Fn("cos", (u,)), TWO)),
    "exp": lambda u: Fn("exp", (u,)),
    "ln": lambda u: Div(ONE, u),
    "sqrt": lambda u: Div(ONE, Mul((TWO, Fn("sqrt", (u,))))),
    "sinh": lambda u: Fn("cosh", (u,)),
    "cosh": lambda u: Fn("sinh", (u,)),
    "tanh": lambda u: Div(ONE, Pow(Fn("cosh", (u,)), TWO)),
    "arctan": lambda u: Div(ONE, Add((ONE, Pow(u, TWO)))),
}


def derivative(node: Node, var: str, constant: frozenset[str] | set[str]) -> Node:
    """d node / d var; names outside ``constant`` depend on ``var`` in an unknown way."""

    def d(item: Node) -> Node:
        return derivative(item, var, constant)

    if isinstance(node, (Int, Dec, Const)):
        return ZERO
    if isinstance(node, Sym):
        if node.name == var:
            return ONE
        return ZERO if node.name in constant or node.name.startswith("unit:") else atom("D", node, var)
    if isinstance(node, Add):
        return Add(tuple(d(item) for item in node.args))
    if isinstance(node, Neg):
        return Neg(d(node.arg))
    if isinstance(node, Mul):
        terms = [
            Mul((*node.args[:k], changed, *node.args[k + 1 :]))
            for k, item in enumerate(node.args)
            if (changed := d(item)) != ZERO
        ]
        return Add(tuple(terms)) if terms else ZERO
    if isinstance(node, Fn) and node.name in ("dot", "cross"):
        left, right = node.args
        return Add((Fn(node.name, (d(left), right)), Fn(node.name, (left, d(right)))))
    if isinstance(node, Div):
        top, below = d(node.num), d(node.den)
        if below == ZERO:
            return ZERO if top == ZERO else Div(top, node.den)
        return Add((Div(top, node.den), Neg(Div(Mul((node.num, below)), Pow(node.den, TWO)))))
    if isinstance(node, Pow):
        below, above = d(node.base), d(node.exp)
        if above == ZERO:
            if below == ZERO:
                return ZERO
            return Mul((node.exp, Pow(node.base, Add((node.exp, Int(-1)))), below))
        return Mul((node, Add((Mul((above, Fn("ln", (node.base,)))), Div(Mul((node.exp, below)), node.base)))))
    if isinstance(node, Fn) and node.name in _CHAIN:
        inner = d(node.args[0])
        return ZERO if inner == ZERO else Mul((_CHAIN[node.name](node.args[0]), inner))
    if isinstance(node, Fn) and node.name in ("div", "curl", "grad", "laplacian"):
        return Fn(node.name, (d(node.args[0]),))
    return atom("D", node, var)
