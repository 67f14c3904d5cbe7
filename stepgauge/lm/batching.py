"""Batches of similar length under a budget of tokens, padding included."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["token_batches"]


def token_batches(lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Indices in batches, the longest first, each with ``len(batch) * max(length) <= max_tokens``.

    A sequence longer than the budget gets a batch of its own.

    Args:
        lengths: (N,) tokens of each sequence.
        max_tokens: tokens of a padded batch.

    Raises:
        ValueError: ``max_tokens`` below 1.

    Example:
        >>> token_batches([3, 9, 4, 30], max_tokens=18)
        [[3], [1, 2], [0]]
    """
    if max_tokens < 1:
        raise ValueError(f"token_batches(max_tokens) must be at least 1, got {max_tokens}")
    batches: list[list[int]] = []
    longest = 0
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batches and (len(batches[-1]) + 1) * longest <= max_tokens:
            batches[-1].append(index)
        else:
            batches.append([index])
            longest = lengths[index]
    return batches
