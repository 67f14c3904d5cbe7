"""A tree as LaTeX that parses back to the same tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepgauge.verifiers.symbolic.nodes import (
    Add,
    Apply,
    BaseNum,
    Big,
    Builder,
    Congruence,
    Const,
    Dec,
    Div,
    Dots,
    Fn,
    Int,
    ListOf,
    Matrix,
    Mul,
    Neg,
    Node,
    Percent,
    PlusMinus,
    Pow,
    Quantity,
    Ratio,
    Rel,
    Seq,
    SetOf,
    SetOp,
    Sym,
    System,
    Text,
)
from stepgauge.verifiers.symbolic.tables import COMMANDS

_ATOMS = (Sym, Int, Const, Dec)
_LOOSE = (Add, Neg, PlusMinus)
_RELATIONS = {
    "=": "=", "!=": "\\ne ", "<": "<", ">": ">", "<=": "\\le ", ">=": "\\ge ", "~": "\\approx ", "in": "\\in ",
    "notin": "\\notin ", "|": "\\mid ", "subset": "\\subset ",
    "parallel": "\\parallel ", "perp": "\\perp ",
    "subseteq": "\\subseteq ", "supset": "\\supset ",
    "supseteq": "\\supseteq ",
}  # fmt: skip
_SPELLED = {"€": "euro", "£": "gbp", "¥": "yuan", "Ω": "ohm"}
_CONSTANTS = {"pi": "\\pi", "e": "e", "i": "i", "oo": "\\infty"}


def to_latex(node: Node) -> str:
    """LaTeX of a tree; ``parse(to_latex(tree)) == tree`` for trees that ``parse`` returns.

    Raises TypeError for a node without a notation.

    >>> from stepgauge.verifiers.symbolic.parser import parse
    >>> to_latex(parse("(x+1)/2"))
    '\\\\frac{x + 1}{2}'
    """
    handler = _HANDLERS.get(type(node))
    if handler is None:
        raise TypeError(f"to_latex has no notation for {type(node).__name__}")
    return handler(node)


def _wrapped(node: Node, kinds: tuple[type[Node], ...]) -> str:
    text = to_latex(node)
    return f"({text})" if isinstance(node, kinds) else text


def _dec(node: Dec) -> str:
    if node.scale <= 0:
        return f"{node.digits}e{-node.scale}"
    digits = str(node.digits).rjust(node.scale + 1, "0")
    return f"{digits[: -node.scale]}.{digits[-node.scale :]}"


def _sym(node: Sym) -> str:
    name, primes = node.name, ""
    while name.endswith("'"):
        name, primes = name[:-1], primes + "'"
    head, _, sub = name.partition("_")
    if head.startswith("\\"):
        head = f"\\mathbb{{{head[1:]}}}"
    elif len(head) > 1:
        head = " ".join(f"\\{part}" if part in COMMANDS else part for part in head.split())
    return head + (f"_{{{sub}}}" if sub else "") + primes


def _add(node: Add) -> str:
    parts = [_wrapped(node.args[0], (Add, PlusMinus))]
    for arg in node.args[1:]:
        if isinstance(arg, Neg):
            parts.append(" - " + _wrapped(arg.arg, _LOOSE))
        else:
            parts.append(" + " + _wrapped(arg, _LOOSE))
    return "".join(parts)


def _mul(node: Mul) -> str:
    return " \\cdot ".join(_wrapped(arg, (*_LOOSE, Mul, Quantity, Big)) for arg in node.args)


def _pow(node: Pow) -> str:
    base = to_latex(node.base)
    return f"{base}^{{{to_latex(node.exp)}}}" if isinstance(node.base, _ATOMS) else f"({base})^{{{to_latex(node.exp)}}}"


def _neg(node: Neg) -> str:
    return "-" + _wrapped(node.arg, _LOOSE)


def _fn(node: Fn) -> str:
    name = node.name
    inner = [to_latex(arg) for arg in node.args]
    if name == "root":
        return f"\\sqrt{{{inner[0]}}}" if node.args[1] == Int(2) else f"\\sqrt[{inner[1]}]{{{inner[0]}}}"
    if name == "abs":
        return f"\\left|{inner[0]}\\right|"
    if name in ("floor", "ceil"):
        return f"\\l{name} {inner[0]}\\r{name} "
    if name == "binom":
        return f"\\binom{{{inner[0]}}}{{{inner[1]}}}"
    if name == "factorial":
        return f"({inner[0]})!"
    if name == "log" and len(inner) == 2:
        return f"\\log_{{{inner[1]}}}({inner[0]})"
    if name == "mod":
        return f"(({inner[0]}) \\bmod ({inner[1]}))"
    if name == "conj":
        return f"\\bar{{{inner[0]}}}"
    if name == "det":
        return f"\\det({inner[0]})"
    return f"\\operatorname{{{name}}}({', '.join(inner)})"


def _apply(node: Apply) -> str:
    name = node.name if node.name[0] in "fg" and not node.name[1:].isalpha() else f"\\operatorname{{{node.name}}}"
    return f"{name}({_joined(node.args)})"


def _plus_minus(node: PlusMinus) -> str:
    sign = "\\pm " if node.upper > 0 else "\\mp "
    left = "" if node.left is None else _wrapped(node.left, (PlusMinus,))
    return f"{left} {sign}{_wrapped(node.right, _LOOSE)}".strip()


def _big(node: Big) -> str:
    body = _wrapped(node.body, (Add, PlusMinus))
    var = to_latex(node.var)
    low = "" if node.low is None else to_latex(node.low)
    high = "" if node.high is None else f"^{{{to_latex(node.high)}}}"
    if node.op == "int":
        return f"\\int_{{{low}}}{high} {body} d{var}" if low else f"\\int{high} {body} d{var}"
    if node.op == "diff":
        return f"\\frac{{d}}{{d{var}}} {body}"
    if node.op == "lim":
        return f"\\lim_{{{var} \\to {low}}} {body}"
    return f"\\{node.op}_{{{var} = {low}}}{high} {body}" if low else f"\\{node.op}_{{{var}}}{high} {body}"


def _rel(node: Rel) -> str:
    parts = [to_latex(node.terms[0])]
    for op, term in zip(node.ops, node.terms[1:], strict=True):
        parts.append(f" {_RELATIONS[op]} {to_latex(term)}")
    return "".join(parts)


def _matrix(node: Matrix) -> str:
    return "\\begin{pmatrix}" + _rows(node.rows) + "\\end{pmatrix}"


def _rows(rows: tuple[tuple[Node, ...], ...]) -> str:
    return " \\\\ ".join(" & ".join(map(to_latex, row)) for row in rows)


def _quantity(node: Quantity) -> str:
    if node.unit == (("deg", 1),):
        return _wrapped(node.value, (*_LOOSE, Mul, Pow, Div, Fn)) + "^\\circ"
    names = ((_SPELLED.get(name, name), power) for name, power in node.unit)
    unit = " ".join(f"{name}^{power}" if power != 1 else name for name, power in names) or "units"
    return f"{_wrapped(node.value, _LOOSE)}\\text{{ {unit}}}"


def _joined(items: tuple[Node, ...], separator: str = ", ") -> str:
    return separator.join(map(to_latex, items))


_HANDLERS: dict[type[Node], Callable[[Any], str]] = {
    Int: lambda node: str(node.value),
    Dec: _dec,
    Sym: _sym,
    Const: lambda node: _CONSTANTS[node.name],
    Add: _add,
    Mul: _mul,
    Div: lambda node: f"\\frac{{{to_latex(node.num)}}}{{{to_latex(node.den)}}}",
    Pow: _pow,
    Neg: _neg,
    Fn: _fn,
    Apply: _apply,
    PlusMinus: _plus_minus,
    Big: _big,
    Seq: lambda node: f"{node.open}{_joined(node.items)}{node.close}",
    SetOf: lambda node: f"\\{{{_joined(node.items)}\\}}" if node.items else "\\emptyset ",
    Builder: lambda node: f"\\{{{to_latex(node.var)} \\mid {to_latex(node.cond)}\\}}",
    ListOf: lambda node: _joined(node.items, ", " if node.joiner == "," else f" \\text{{ {node.joiner} }} "),
    SetOp: lambda node: f"{to_latex(node.left)} \\{node.op} {to_latex(node.right)}",
    Rel: _rel,
    Congruence: lambda node: f"{to_latex(node.left)} \\equiv {to_latex(node.right)} \\pmod{{{to_latex(node.modulus)}}}",
    System: lambda node: "\\begin{cases}" + " \\\\ ".join(map(to_latex, node.items)) + "\\end{cases}",
    Matrix: _matrix,
    Text: lambda node: f"\\text{{{node.value}}}",
    Quantity: _quantity,
    Percent: lambda node: _wrapped(node.value, (*_LOOSE, Mul, Pow)) + "\\%",
    Ratio: lambda node: _joined(node.items, " : "),
    BaseNum: lambda node: f"{node.digits}_{{{node.base}}}",
    Dots: lambda node: "\\ldots ",
}
