"""Steps to tokens: which of the *given* token ids spell which step. Nothing is ever encoded again.

The bytes of each token come from the tokenizer's vocabulary: byte-level BPE (GPT-2, Llama 3, Qwen, SmolLM) and
SentencePiece (Llama 2, Mistral; with byte fallback) are read exactly, so a character that is spread over several
tokens belongs to each of them. Linear in text and tokens.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, groupby, pairwise
from typing import Any

from stepgauge.scoring import Rollout

__all__ = ["align", "step_of_token", "step_token_spans", "token_spans"]

Span = tuple[int, int]

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_UNDECODED = re.compile("([\udc80-\udcff]+)")  # what "surrogateescape" makes of bytes that are not UTF-8


def align(rollout: Rollout, tokenizer: Any) -> tuple[Span, ...]:
    """(S,) token range (first, last exclusive) of each step in ``rollout.token_ids``.

    A token that straddles a boundary belongs to the earlier step; tokens that only spell the space between steps
    belong to none. A step without a token of its own has an empty range.

    Raises:
        ValueError: no ``token_ids``, or ids that do not spell ``rollout.response``.

    Example:
        >>> align(rollout, tokenizer)  # doctest: +SKIP
        ((0, 12), (13, 30))
    """
    if rollout.token_ids is None:
        raise ValueError("align(rollout): rollout.token_ids is None; pass the ids that the policy sampled")
    spans = token_spans(tokenizer, rollout.token_ids, rollout.response)
    return tuple(step_token_spans(spans, rollout.step_spans))


def step_of_token(token_spans: Sequence[Span], step_spans: Sequence[Span]) -> list[int | None]:
    """(T,) index of the step each token belongs to: the first one it shares a character with; None for the others.

    Args:
        token_spans: (T,) character spans, in order.
        step_spans: (S,) character spans of the same text, in order.

    Raises:
        ValueError: steps that overlap or are out of order.

    Example:
        >>> step_of_token([(0, 3), (3, 6), (6, 7), (7, 9)], [(0, 4), (5, 6), (7, 9)])
        [0, 0, None, 2]
    """
    for index, ((_, end), (start, _)) in enumerate(pairwise(step_spans)):
        if start < end:
            raise ValueError(f"step_of_token(step_spans): step {index + 1} begins at {start}, before step {index} ends")
    owners: list[int | None] = []
    step = 0
    for start, end in token_spans:
        while step < len(step_spans) and (step_spans[step][1] <= start or step_spans[step][0] == step_spans[step][1]):
            step += 1
        overlaps = start < end and step < len(step_spans) and step_spans[step][0] < end
        owners.append(step if overlaps else None)
    return owners


def step_token_spans(token_spans: Sequence[Span], step_spans: Sequence[Span]) -> list[Span]:
    """(S,) token range (first, last exclusive) of each step; see ``align``.

    Example:
        >>> step_token_spans([(0, 3), (3, 6), (6, 7), (7, 9)], [(0, 4), (5, 6), (7, 9)])
        [(0, 2), (2, 2), (3, 4)]
    """
    ranges: dict[int, Span] = {}
    for token, step in enumerate(step_of_token(token_spans, step_spans)):
        if step is not None:
            ranges[step] = (ranges[step][0] if step in ranges else token, token + 1)
    spans, at = [], 0
    for step in range(len(step_spans)):
        first, last = ranges.get(step, (at, at))
        spans.append((first, last))
        at = last
    return spans


def token_spans(tokenizer: Any, token_ids: Sequence[int], text: str) -> list[Span]:
    """(T,) character span in ``text`` of each given token.

    Each token of a character that takes several has that character's span. A special token that the text does not show
    has an empty span. The one space that SentencePiece puts before a text may be missing from ``text``. U+FFFD in the
    text stands for bytes that are not UTF-8, as ``tokenizer.decode`` writes them.

    Args:
        tokenizer: a transformers fast tokenizer.
        token_ids: (T,) ids, as the policy sampled them.
        text: what ``tokenizer.decode(token_ids, clean_up_tokenization_spaces=False)`` gives, with or without special
            tokens.

    Raises:
        ValueError: ids that do not spell ``text``, or an id outside the vocabulary. TypeError: another tokenizer.

    Example:
        >>> token_spans(tokenizer, tokenizer.encode("a 😀"), "a 😀")  # doctest: +SKIP
        [(0, 1), (1, 3), (2, 3)]
    """
    spans: list[Span] = []
    at = 0
    for is_special, run in _runs(tokenizer, token_ids):
        written = b"".join(run)
        shown = written.decode("utf-8", "replace")
        if text.startswith(shown, at):
            missing = 0
        elif shown.startswith(" ") and text.startswith(shown[1:], at):
            missing = 1
        elif is_special:
            spans += [(at, at)] * len(run)
            continue
        else:
            raise ValueError(_mismatch(shown, text, at, len(spans)))
        chars = _char_of_byte(written)
        first = 0
        for token in run:
            last = first + len(token)
            start, end = (chars[first], chars[last - 1] + 1) if token else (len(shown), len(shown))
            spans.append((at + max(0, start - missing), at + max(0, end - missing)))
            first = last
        at += len(shown) - missing
    if at < len(text):
        raise ValueError(_mismatch("", text, at, len(spans)))
    return spans


def _mismatch(shown: str, text: str, at: int, token: int) -> str:
    same = next((i for i, pair in enumerate(zip(shown, text[at:], strict=False)) if pair[0] != pair[1]), 0)
    return (
        f"token_spans(token_ids): the ids do not spell the text: at character {at + same} (after token "
        f"{token}) they give {shown[same : same + 20]!r}, the text has {text[at + same : at + same + 20]!r}; pass "
        "the ids of exactly this response, and tokenizer.decode(token_ids, clean_up_tokenization_spaces=False) as text"
    )


def _char_of_byte(written: bytes) -> list[int]:
    """Index of the character that each byte belongs to in ``written.decode("utf-8", "replace")``."""
    try:
        written.decode()
    except UnicodeDecodeError:
        pass
    else:
        return [count - 1 for count in accumulate(byte & 0xC0 != 0x80 for byte in written)]
    chars: list[int] = []
    count = 0
    for part in _UNDECODED.split(written.decode("utf-8", "surrogateescape")):
        raw = part.encode("utf-8", "surrogateescape")
        if _UNDECODED.match(part):
            marks = len(raw.decode("utf-8", "replace"))  # one U+FFFD may stand for several bytes
            chars += [count + min(index, marks - 1) for index in range(len(raw))]
            count += marks
        else:
            chars += [count + index for index in _char_of_byte(raw)]
            count += len(part)
    return chars


def _runs(tokenizer: Any, token_ids: Sequence[int]) -> Iterator[tuple[bool, list[bytes]]]:
    """(is special, bytes of each token): an added token alone, the ordinary tokens between two of them together."""
    read = _reader(tokenizer)
    added = tokenizer.added_tokens_decoder
    tokens = tokenizer.convert_ids_to_tokens(list(token_ids))
    if None in tokens:
        index = tokens.index(None)
        raise ValueError(
            f"token_spans(token_ids): token_ids[{index}] = {token_ids[index]} is not in the tokenizer's vocabulary of "
            f"{len(tokenizer)}; pass the tokenizer that belongs to these ids"
        )
    for is_added, group in groupby(zip(token_ids, tokens, strict=True), key=lambda pair: pair[0] in added):
        if is_added:
            for token_id, token in group:
                yield added[token_id].special, [token.encode()]
        else:
            yield False, read([token for _, token in group])


def _reader(tokenizer: Any) -> Callable[[list[str]], list[bytes]]:
    """How this tokenizer's vocabulary writes bytes, by its decoder."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    decoder = json.loads(backend.decoder.__getstate__()) if backend is not None and backend.decoder else {}
    kinds = {part["type"] for part in decoder.get("decoders", [decoder]) if part}
    if "ByteLevel" in kinds:
        return _read_byte_level
    if "ByteFallback" in kinds or "Metaspace" in kinds:
        return _read_sentencepiece
    raise TypeError(
        f"token_spans(tokenizer) needs a fast tokenizer with a byte-level or SentencePiece decoder, got "
        f"{type(tokenizer).__name__} with {sorted(kinds) or 'none'}; load it with transformers.AutoTokenizer"
    )


@functools.cache
def _byte_alphabet() -> dict[str, int]:
    """The characters by which byte-level BPE writes the 256 bytes (GPT-2's table)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + index): byte for index, byte in enumerate(others)}


def _read_byte_level(tokens: list[str]) -> list[bytes]:
    alphabet = _byte_alphabet()
    return [
        bytes(alphabet[char] for char in token) if all(char in alphabet for char in token) else token.encode()
        for token in tokens
    ]


def _read_sentencepiece(tokens: list[str]) -> list[bytes]:
    pieces: list[bytes] = []
    for is_byte, group in groupby(tokens, key=lambda token: _BYTE_TOKEN.fullmatch(token) is not None):
        if is_byte:
            pieces += _byte_tokens([bytes.fromhex(token[3:5]) for token in group])
        else:
            pieces += [token.replace("▁", " ").encode() for token in group]
    return pieces


def _byte_tokens(run: list[bytes]) -> list[bytes]:
    """A run of byte tokens; where it is not UTF-8, ``decode`` writes U+FFFD for each byte of the whole run."""
    try:
        b"".join(run).decode()
    except UnicodeDecodeError:
        return [b"\xff"] * len(run)
    return run
