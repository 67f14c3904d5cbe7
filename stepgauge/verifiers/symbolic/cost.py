"""The cost gate: how large a value would become, asked before any power, factorial, binomial, sum or product
is computed.
"""

from __future__ import annotations

MAX_BITS = 1 << 17  # of an exact result
MAX_FACTORIAL = 5_000
MAX_TERMS = 400  # of a sum or product that is written out


class Undefined(ArithmeticError):
    """The expression has no value: division by zero, 0/0, infinity inside arithmetic."""


class TooLarge(ArithmeticError):
    """The exact value would not fit the budget; the expression may still be compared another way."""


def check_power(base_bits: int, exponent: int) -> None:
    """Raise TooLarge where a base of ``base_bits`` bits to the ``exponent`` leaves the budget.

    >>> check_power(4, 100)
    """
    if base_bits > 1 and abs(exponent) * base_bits > MAX_BITS:
        raise TooLarge("a power")


def check_factorial(argument: int) -> None:
    """Raise TooLarge above ``MAX_FACTORIAL``."""
    if argument > MAX_FACTORIAL:
        raise TooLarge("a factorial")


def check_binomial(top: int, below: int) -> None:
    """Raise TooLarge where a binomial coefficient leaves the budget."""
    if min(abs(below), abs(top - below)) * max(top.bit_length(), 1) > MAX_BITS:
        raise TooLarge("a binomial coefficient")


def check_range(low: int, high: int) -> None:
    """Raise TooLarge for a sum or product of more than ``MAX_TERMS`` terms."""
    if high - low >= MAX_TERMS:
        raise TooLarge("too many terms")
