"""Is the left side of an equation only a name for the value on the right: ``x``, ``f(x)``, ``|AB|``,
``NO/BO``, ``(x, y)``?
"""

from __future__ import annotations

from collections.abc import Sequence

from stepgauge.verifiers.symbolic.lexer import Token
from stepgauge.verifiers.symbolic.nodes import Add, Apply, Const, Div, Fn, Mul, Node, Pow, Ratio, Seq, Sym

_TRIG = frozenset(["sin", "cos", "tan", "cot", "sec", "csc"])


def is_name(node: Node, tokens: Sequence[Token]) -> bool:
    """Decide from the node and the tokens it was read from."""
    if isinstance(node, (Sym, Const, Apply)):
        return True
    if isinstance(node, (Seq, Ratio)):
        return all(isinstance(item, (Sym, Const)) for item in node.items) or _segments(node)
    if isinstance(node, Mul) and is_call(tokens):
        return True
    if isinstance(node, Add):
        return all(isinstance(item, Apply) for item in node.args)
    return _segments(node)


def _segments(node: Node) -> bool:
    """Names of points and lengths: upper-case letters, their products, ratios, absolute values, squares and
    angles' functions.
    """
    if isinstance(node, Sym):
        return node.name[0].isupper()
    if isinstance(node, Mul):
        return all(isinstance(item, Sym) and _segments(item) for item in node.args)
    if isinstance(node, Div):
        return (_segments(node.num) or isinstance(node.num, Sym)) and (_segments(node.den) or isinstance(node.den, Sym))
    if isinstance(node, Ratio):
        return all(_segments(item) for item in node.items)
    if isinstance(node, Fn):
        return node.name in ("abs", *_TRIG) and all(_segments(item) for item in node.args)
    if isinstance(node, Pow):
        return isinstance(node.base, (Mul, Fn)) and _segments(node.base)
    return False


def is_call(tokens: Sequence[Token]) -> bool:
    """``W(n)``: one name, then one bracket that closes at the end."""
    if len(tokens) < 4 or tokens[0].kind not in ("id", "const") or tokens[-1].value != ")":
        return False
    start = next((index for index, token in enumerate(tokens) if token.value == "("), 0)
    if start == 0 or (tokens[start].spaced and tokens[0].value.islower()):
        return False
    if start > 1 and tokens[1].value not in ("_", "'", "^"):
        return False
    level = 0
    for index in range(start, len(tokens)):
        level += (tokens[index].value == "(") - (tokens[index].value == ")")
        if level == 0:
            return index == len(tokens) - 1
    return False
