"""Keys and values of the prefixes that sessions share: a tree of segments, grown by many branches at once."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Prefix", "grow"]


@dataclass(frozen=True, eq=False)
class Prefix:
    """Some tokens after a parent prefix, with their keys and values; branches share their ancestors."""

    parent: Prefix | None
    length: int  # tokens from the root to here
    keys_values: list[tuple[Tensor, Tensor]]  # a layer each: (1, heads, own tokens, width)

    @property
    def ancestry(self) -> list[Prefix]:
        """From the root to this one."""
        chain: list[Prefix] = []
        node: Prefix | None = self
        while node is not None:
            chain.append(node)
            node = node.parent
        return chain[::-1]


def grow(body: Any, branches: Sequence[tuple[Prefix | None, Sequence[int]]]) -> list[tuple[Prefix, Tensor]]:
    """Append tokens to each prefix: (the longer prefix, (H,) state of its last token) of each, in one pass.

    What the prefixes have in common is attended to where it is; nothing is computed again.

    Args:
        body: a causal transformer without its head.
        branches: (prefix or None, at least one new token) each.
    """
    import torch
    from transformers import DynamicCache

    device = body.get_input_embeddings().weight.device
    segments: dict[int, tuple[Prefix, int]] = {}  # each distinct ancestor once, and where its keys begin
    kept = 0
    for prefix, _ in branches:
        for node in [] if prefix is None else prefix.ancestry:
            if id(node) not in segments:
                segments[id(node)] = node, kept
                kept += node.keys_values[0][0].shape[2]
    cache = DynamicCache()  # without a config: a sliding-window cache would drop tokens of a tree
    nodes = [node for node, _ in segments.values()]
    for layer in range(len(nodes[0].keys_values) if nodes else 0):
        keys, values = (torch.cat([node.keys_values[layer][part] for node in nodes], 2) for part in (0, 1))
        cache.update(keys, values, layer)
    new = [len(ids) for _, ids in branches]
    mask = torch.zeros(sum(new), kept + sum(new), dtype=torch.bool)  # (N, K): which keys a new token sees
    positions: list[int] = []
    first = 0
    for (prefix, _), count in zip(branches, new, strict=True):
        for node in [] if prefix is None else prefix.ancestry:
            at = segments[id(node)][1]
            mask[first : first + count, at : at + node.keys_values[0][0].shape[2]] = True
        mask[first : first + count, kept + first : kept + first + count] = torch.ones(count, count).tril().bool()
        start = 0 if prefix is None else prefix.length
        positions += range(start, start + count)
        first += count
    bias = torch.zeros(mask.shape, dtype=body.dtype).masked_fill_(~mask, torch.finfo(body.dtype).min)
    name = "cache" if "cache" in inspect.signature(body.forward).parameters else "past_key_values"  # before 5.24
    with torch.inference_mode():
        states = body(
            input_ids=torch.tensor([[token for _, ids in branches for token in ids]], device=device),
            attention_mask=bias[None, None].to(device),
            position_ids=torch.tensor([positions], device=device),
            use_cache=True,
            **{name: cache},
        )[0][0]  # (N, H)
    grown = []
    end = 0
    for (prefix, ids), count in zip(branches, new, strict=True):
        span = slice(kept + end, kept + end + count)
        own = [(layer.keys[:, :, span].clone(), layer.values[:, :, span].clone()) for layer in cache.layers]
        end += count
        grown.append((Prefix(prefix, (0 if prefix is None else prefix.length) + len(ids), own), states[end - 1]))
    return grown
