"""Matrices as rows of entries; sums, products and multiples of matrices are written out before they are compared."""

from __future__ import annotations

from collections.abc import Callable

from stepgauge.verifiers.symbolic.nodes import Add, Div, Int, Matrix, Mul, Neg, Node, Seq, walk

Rows = tuple[tuple[Node, ...], ...]


def has_matrix(node: Node) -> bool:
    """Whether a matrix, or a list of rows in square brackets, stands in the node."""
    return any(isinstance(part, Matrix) for part in walk(node)) or (
        isinstance(node, Seq)
        and bool(node.items)
        and all(isinstance(item, Seq) and item.open == "[" for item in node.items)
        and node.open == "["
    )


def entries(node: Node) -> Rows | None:
    """The entries of a matrix, sums and products of matrices written out; None where it is none."""
    if isinstance(node, Matrix):
        return node.rows
    if isinstance(node, Seq):
        rows = [item.items if isinstance(item, Seq) else (item,) for item in node.items]
        return tuple(rows) if len({len(row) for row in rows}) == 1 else None
    if isinstance(node, Neg):
        return _scaled_matrix(Int(-1), entries(node.arg))
    if isinstance(node, Div):
        return _scaled_matrix(Div(Int(1), node.den), entries(node.num))
    if isinstance(node, Add):
        return _folded([entries(arg) for arg in node.args], _matrix_sum)
    if isinstance(node, Mul):
        scalars = [arg for arg in node.args if not has_matrix(arg)]
        product = _folded([entries(arg) for arg in node.args if has_matrix(arg)], _matrix_product)
        for scalar in scalars:
            product = _scaled_matrix(scalar, product)
        return product
    return None


def _folded(parts: list[Rows | None], step: Callable[[Rows, Rows], Rows | None]) -> Rows | None:
    total = parts[0] if parts else None
    for part in parts[1:]:
        if total is None or part is None:
            return None
        total = step(total, part)
    return total


def _scaled_matrix(factor: Node, rows: Rows | None) -> Rows | None:
    return None if rows is None else tuple(tuple(Mul((factor, cell)) for cell in row) for row in rows)


def _matrix_sum(a: Rows, b: Rows) -> Rows | None:
    if len(a) != len(b) or len(a[0]) != len(b[0]):
        return None
    return tuple(tuple(Add((x, y)) for x, y in zip(row, other, strict=True)) for row, other in zip(a, b, strict=True))


def _matrix_product(a: Rows, b: Rows) -> Rows | None:
    if len(a[0]) != len(b) or len(a) * len(b) * len(b[0]) > 1000:
        return None
    return tuple(tuple(Add(tuple(Mul((x, b[k][j])) for k, x in enumerate(row))) for j in range(len(b[0]))) for row in a)
