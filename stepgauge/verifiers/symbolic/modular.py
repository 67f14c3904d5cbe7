"""Random identity tests: an expression's value modulo a secret 61-bit prime, unknown functions by hashing
their arguments' values.

Equal values mean equal expressions up to a chance of degree / 2**60, whatever the functions are; different
values prove a difference only
where nothing was hashed (rational functions with ``i``).
"""

from __future__ import annotations

import hashlib
import secrets
from functools import lru_cache
from typing import Any, NamedTuple

from stepgauge.verifiers.symbolic import cost
from stepgauge.verifiers.symbolic.nodes import (
    Add,
    Apply,
    BaseNum,
    Big,
    Const,
    Dec,
    Div,
    Dots,
    Fn,
    Int,
    Matrix,
    Mul,
    Neg,
    Node,
    Percent,
    Pow,
    Quantity,
    Seq,
    SetOf,
    Sym,
    Text,
)


def _secret_prime() -> tuple[int, int]:
    """A random prime p = 1 mod 4 below 2**61 and a square root of -1 modulo p."""
    from flint import fmpz

    while True:
        prime = (secrets.randbits(60) | (1 << 60)) & ~3 | 1
        if fmpz(prime).is_prime():
            break
    while True:
        root = pow(secrets.randbelow(prime - 2) + 2, (prime - 1) // 4, prime)
        if root * root % prime == prime - 1:
            return prime, root


_PRIME, _IMAGINARY = _secret_prime()
_KEY = secrets.token_bytes(16)


@lru_cache(maxsize=16384)
def _name_value(name: str) -> int:
    return (
        int.from_bytes(hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8, key=_KEY).digest(), "big")
        % _PRIME
    )


class Fingerprint(NamedTuple):
    """``value`` modulo the secret prime; ``exact`` where a different value proves a difference; ``symbols`` met."""

    value: int
    exact: bool
    symbols: frozenset[str]


def fingerprint(node: Node) -> Fingerprint:
    """The expression's fingerprint in this process. Raises cost.Undefined for a division by zero.

    >>> from stepgauge.verifiers.symbolic.parser import parse
    >>> fingerprint(parse("(x+1)^2")).value == fingerprint(parse("x^2+2x+1")).value
    True
    """
    state = _State()
    value = state.value(node)
    return Fingerprint(value, state.exact, frozenset(state.symbols))


def _mix(name: str, *values: int) -> int:
    return hash((_name_value("fn " + name), *values)) % _PRIME


class _State:
    def __init__(self) -> None:
        self.exact = True
        self.symbols: set[str] = set()
        self.bound: dict[str, int] = {}

    def opaque(self, name: str, *values: int) -> int:
        self.exact = False
        return _mix(name, *values)

    def value(self, node: Node) -> int:
        kind = type(node)
        if kind is Int:
            return int(node.value % _PRIME)  # type: ignore[attr-defined]
        if kind is Sym:
            name = node.name  # type: ignore[attr-defined]
            if name in self.bound:
                return self.bound[name]
            self.symbols.add(name)
            return _name_value(name)
        handler = _HANDLERS.get(kind)
        if handler is None:
            raise cost.TooLarge(f"a {kind.__name__} in a formula")
        return int(handler(self, node) % _PRIME)

    def inverse(self, value: int) -> int:
        if value % _PRIME == 0:
            raise cost.Undefined("division by zero")
        return pow(value, -1, _PRIME)

    def add(self, node: Add) -> int:
        return sum(map(self.value, node.args))

    def mul(self, node: Mul) -> int:
        out = 1
        for arg in node.args:
            out = out * self.value(arg) % _PRIME
        return out

    def div(self, node: Div) -> int:
        return self.value(node.num) * self.inverse(self.value(node.den))

    def pow(self, node: Pow) -> int:
        base = self.value(node.base)
        exponent = node.exp
        sign = 1
        while isinstance(exponent, Neg):
            exponent, sign = exponent.arg, -sign
        if isinstance(exponent, Int) and exponent.value.bit_length() <= 64:
            return self.int_power(base, sign * exponent.value)
        if isinstance(exponent, (Div, Dec, Int, Add, Mul, Pow, Fn)):
            from stepgauge.verifiers.symbolic.exact import rational

            ratio = rational(exponent)
            if ratio is not None and max(int(ratio.p.bit_length()), int(ratio.q.bit_length())) <= 64:
                top, below = sign * int(ratio.p), int(ratio.q)
                if below == 1:
                    return self.int_power(base, top)
                return self.int_power(self.opaque("root", base, below), top)
        return self.opaque("pow", base, sign * self.value(exponent) % _PRIME)

    def int_power(self, base: int, exponent: int) -> int:
        if base == 0 and exponent <= 0:
            raise cost.Undefined("zero to a power not above zero")
        return pow(base, exponent, _PRIME)

    def const(self, node: Const) -> int:
        if node.name == "i":
            return _IMAGINARY
        if node.name == "oo":
            raise cost.Undefined("infinity inside a formula")
        self.exact = False
        return _name_value("constant " + node.name)

    def fn(self, node: Fn) -> int:
        name, args = node.name, node.args
        values = [self.value(arg) for arg in args]
        if name == "root" and len(values) == 2:
            return self.opaque("root", *values)
        if name in ("ln", "log"):
            top = self.opaque("ln", values[0])
            return top * self.inverse(self.opaque("ln", values[1])) if len(values) == 2 else top
        if len(values) == 1 and name in ("tan", "cot", "sec", "csc"):
            sine, cosine = self.opaque("sin", values[0]), self.opaque("cos", values[0])
            if name == "tan":
                return sine * self.inverse(cosine)
            return cosine * self.inverse(sine) if name == "cot" else self.inverse(cosine if name == "sec" else sine)
        if name in ("gcd", "lcm", "max", "min"):
            values.sort()
        return self.opaque(name, *values)

    def big(self, node: Big) -> int:
        low, high = self.bound_value(node.low), self.bound_value(node.high)
        name = node.var.name
        before = self.bound.get(name)
        self.bound[name] = _mix("bound", len(self.bound))
        body = self.value(node.body)
        if node.op == "diff" or (node.op == "int" and node.low is None):
            body = _mix("free", body, _name_value(name))
        if before is None:
            del self.bound[name]
        else:
            self.bound[name] = before
        return self.opaque("big " + node.op, low, high, body)

    def bound_value(self, node: Node | None) -> int:
        """The value of a bound or limit point, where infinity may stand."""
        if isinstance(node, Neg):
            return -self.bound_value(node.arg)
        if node is None or node == Const("oo"):
            return _mix("bound " + ("none" if node is None else "oo"))
        return self.value(node)

    def apply(self, node: Apply) -> int:
        return self.opaque("apply " + node.name, *map(self.value, node.args))

    def matrix(self, node: Matrix) -> int:
        return self.opaque("matrix", *(self.value(cell) for row in node.rows for cell in row), len(node.rows))

    def dec(self, node: Dec) -> int:
        power = pow(10, abs(node.scale), _PRIME)
        return node.digits * (self.inverse(power) if node.scale > 0 else power)


_HANDLERS: dict[type[Node], Any] = {
    Add: _State.add, Mul: _State.mul, Div: _State.div, Pow: _State.pow, Const: _State.const, Fn: _State.fn,
    Big: _State.big,
    Apply: _State.apply, Matrix: _State.matrix, Dec: _State.dec,
    Neg: lambda state, node: -state.value(node.arg),
    Percent: lambda state, node: state.value(node.value) * state.inverse(100),
    Quantity: lambda state, node: state.opaque("unit " + repr(node.unit), state.value(node.value)),
    Dots: lambda state, node: state.opaque("dots"),
    Text: lambda state, node: state.opaque("text " + node.value.strip().lower()),
    BaseNum: lambda state, node: state.opaque("base", int(node.digits), node.base),
    Seq: lambda state, node: state.opaque("seq " + node.open + node.close, *map(state.value, node.items)),
    SetOf: lambda state, node: state.opaque("set", *sorted(map(state.value, node.items))),
}  # fmt: skip
