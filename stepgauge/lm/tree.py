"""The body of a causal LM over many token rows at once: no padding, and what rows share at their beginning runs once.

Rows are packed into one sequence as a tree of segments. A segment attends to its ancestors and to itself, causally;
everything else in a transformer's body is token by token. So a problem with n candidates, or the nodes of a search
tree, cost as many tokens as are distinct.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stepgauge.lm.batching import token_batches

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["TokenTree", "enable_tree", "hidden_states", "row_batches", "token_tree", "tree_batches"]

ATTENTION = "stepgauge_tree"
MIN_SHARED = 16  # tokens that rows must share before the sharing is worth a segment of its own


@dataclass(frozen=True, slots=True)
class TokenTree:
    """Rows packed into one sequence of T distinct tokens.

    ``ids`` and ``positions`` (T,): token and its place in its row. ``segments``: (first, last exclusive) in the packed
    sequence and the ranges of its ancestors, outermost first. ``paths``: of each row, the ranges that spell it.
    """

    ids: list[int]
    positions: list[int]
    segments: list[tuple[tuple[int, int], tuple[tuple[int, int], ...]]]
    paths: list[tuple[tuple[int, int], ...]]


def token_tree(rows: Sequence[Sequence[int]], *, min_shared: int = MIN_SHARED) -> TokenTree:
    """Pack rows so that a common beginning of at least ``min_shared`` tokens stands there once.

    Args:
        rows: (N) token ids of each row, ragged.
        min_shared: tokens below which a shared beginning is repeated instead.

    Example:
        >>> tree = token_tree([[1, 2, 3], [1, 2, 4, 5]], min_shared=2)
        >>> tree.ids, tree.positions
        ([1, 2, 3, 4, 5], [0, 1, 2, 2, 3])
        >>> tree.paths
        [((0, 2), (2, 3)), ((0, 2), (3, 5))]
    """
    tree = TokenTree([], [], [], [() for _ in rows])

    def add(
        row: Sequence[int], start: int, end: int, above: tuple[tuple[int, int], ...]
    ) -> tuple[tuple[int, int], ...]:
        if start == end:
            return above
        span = (len(tree.ids), len(tree.ids) + end - start)
        tree.ids.extend(row[start:end])
        tree.positions.extend(range(start, end))
        tree.segments.append((span, above))
        return (*above, span)

    order = sorted(range(len(rows)), key=lambda index: list(rows[index]))
    work: list[tuple[list[int], int, tuple[tuple[int, int], ...]]] = [(order, 0, ())] if order else []
    while work:
        members, start, above = work.pop()
        first, last = rows[members[0]], rows[members[-1]]
        shared = _common(first, last)  # rows are sorted: what the outermost two share, all share
        if shared - start >= min_shared or len(members) == 1:
            above, start = add(first, start, shared, above), shared
        branches: dict[int, list[int]] = {}
        for index in members:
            if len(rows[index]) == shared:
                tree.paths[index] = add(rows[index], start, shared, above)
            else:
                branches.setdefault(rows[index][shared], []).append(index)
        work.extend((branch, start, above) for branch in reversed(branches.values()))
    return tree


def _common(a: Sequence[int], b: Sequence[int]) -> int:
    """How many tokens two rows share at their beginning."""
    for position, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return position
    return min(len(a), len(b))


def tree_batches(rows: Sequence[Sequence[int]], max_tokens: int) -> Iterator[list[int]]:
    """Indices in batches of at most ``max_tokens`` distinct tokens; rows that begin alike stand together.

    A row longer than the budget gets a batch of its own.

    Raises:
        ValueError: ``max_tokens`` below 1.

    Example:
        >>> list(tree_batches([[1, 2, 3], [7, 8], [1, 2, 4]], max_tokens=4))
        [[0, 2], [1]]
    """
    if max_tokens < 1:
        raise ValueError(f"tree_batches(max_tokens) must be at least 1, got {max_tokens}")
    batch: list[int] = []
    used = 0
    for index in sorted(range(len(rows)), key=lambda index: list(rows[index])):
        shared = _common(rows[batch[-1]], rows[index]) if batch else 0
        if batch and used + len(rows[index]) - shared > max_tokens:
            yield batch
            batch, used, shared = [], 0, 0
        batch.append(index)
        used += len(rows[index]) - shared
    if batch:
        yield batch


def row_batches(model: Any, rows: Sequence[Sequence[int]], max_tokens: int) -> Iterator[list[int]]:
    """Indices in batches for ``hidden_states``: of distinct tokens where the model packs, else of padded tokens.

    Raises:
        ValueError: ``max_tokens`` below 1.
    """
    if model.config._attn_implementation == ATTENTION:
        return tree_batches(rows, max_tokens)
    return iter(token_batches([len(row) for row in rows], max_tokens))


def hidden_states(model: Any, rows: Sequence[Sequence[int]]) -> list[Tensor]:
    """The last hidden states of each row's tokens, (T_i, H): packed as a tree where ``enable_tree`` allowed it.

    Rows of no tokens are not allowed. Elsewhere the rows run side by side, padded on the right.
    """
    import torch

    if model.config._attn_implementation != ATTENTION:
        return _padded_states(model, rows)
    tree = token_tree(rows)
    device = model.device
    states = model.base_model(
        input_ids=torch.tensor([tree.ids], device=device),
        position_ids=torch.tensor([tree.positions], device=device),
        attention_mask=torch.zeros(1, 1, 1, 1, device=device),  # four dimensions: the model makes none of its own
        use_cache=False,
        tree=tree,
    )[0][0]  # (T, H)
    return [torch.cat([states[first:last] for first, last in path]) for path in tree.paths]


def _padded_states(model: Any, rows: Sequence[Sequence[int]]) -> list[Tensor]:
    import torch

    ids = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.long)  # (B, T)
    mask = torch.zeros_like(ids)
    for row, tokens in enumerate(rows):
        ids[row, : len(tokens)] = torch.tensor(tokens, dtype=torch.long)
        mask[row, : len(tokens)] = 1
    device = model.device
    states = model.base_model(input_ids=ids.to(device), attention_mask=mask.to(device), use_cache=False)[0]  # (B, T, H)
    return [states[row, : len(tokens)] for row, tokens in enumerate(rows)]


def enable_tree(model: Any) -> bool:
    """Let ``hidden_states`` pack this model's rows, if a trial shows that its body allows it; say whether it does.

    The model stays as good as before for everything else: other calls get PyTorch's attention. Not for models that
    are not attention alone (Mamba), bias their attention by position (ALiBi), cap it, or attend in chunks.
    """
    import torch
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    before = model.config._attn_implementation
    layers = set(getattr(model.config.get_text_config(), "layer_types", None) or ["full_attention"])
    if before != "sdpa" or not layers <= {"full_attention", "sliding_attention"}:
        return False
    AttentionInterface.register(ATTENTION, tree_attention)
    AttentionMaskInterface.register(ATTENTION, sdpa_mask)
    size = model.get_input_embeddings().weight.shape[0]
    stem = [token % size for token in range(1, 3 * MIN_SHARED)]
    rows = [[*stem, 3 % size, 4 % size], [*stem, 5 % size], [token % size for token in range(7, 12)]]
    try:
        with torch.inference_mode():
            expected = [_padded_states(model, [row])[0] for row in rows]
            model.set_attn_implementation(ATTENTION)
            found = hidden_states(model, rows)
        tolerance = 1e-4 if model.dtype in (torch.float32, torch.float64) else 0.1
        scale = max(float(states.abs().max()) for states in expected)
        if all(torch.allclose(a, b, rtol=0, atol=tolerance * scale) for a, b in zip(found, expected, strict=True)):
            return True
    except (RuntimeError, TypeError, ValueError, KeyError, NotImplementedError):
        pass  # a body that takes no such arguments
    model.set_attn_implementation(before)
    return False


def tree_attention(
    module: Any,
    query: Tensor,  # (1, heads, T, D)
    key: Tensor,  # (1, key heads, T, D)
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    tree: TokenTree | None = None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attention of transformers' interface: over the segments of ``tree``, or PyTorch's where there is none."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    if tree is None:
        out, _ = sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, sliding_window=sliding_window, **kwargs
        )
        return out, None
    if kwargs.get("softcap") is not None or kwargs.get("position_bias") is not None:
        raise NotImplementedError("tree attention has no soft cap and no bias by position")
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = (x.repeat_interleave(groups, dim=1) for x in (key, value))
    out = query.new_empty(1, query.shape[2], query.shape[1], value.shape[-1])  # (1, T, heads, D)
    for (first, last), above in tree.segments:
        spans = [*above, (first, last)]
        keys, values = (
            torch.cat([x[:, :, a:b] for a, b in spans], 2) if above else x[:, :, first:last] for x in (key, value)
        )
        length, width = last - first, keys.shape[2]
        mask = None
        if above or (sliding_window is not None and width > sliding_window):
            distance = torch.arange(width - length, width, device=query.device)[:, None] - torch.arange(
                width, device=query.device
            )
            mask = distance >= 0  # (length, width)
            if sliding_window is not None:
                mask &= distance < sliding_window
        attended = scaled_dot_product_attention(
            query[:, :, first:last], keys, values, attn_mask=mask, scale=scaling, is_causal=mask is None
        )
        out[:, first:last] = attended.transpose(1, 2)
    return out, None
