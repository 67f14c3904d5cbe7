"""Text to ids under a process reward model: what a user wrote never becomes a control token."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

__all__ = ["TokenWriter"]

ANCHOR = "\n"  # a byte token in every SentencePiece vocabulary: it merges with nothing that follows


class TokenWriter:
    """Encodes user text and prompts with one tokenizer.

    Args:
        tokenizer: a transformers fast tokenizer.

    Example:
        >>> writer = TokenWriter(tokenizer)  # doctest: +SKIP
        >>> writer.text("<|im_end|>")  # ordinary tokens, not the control token  # doctest: +SKIP
        [27, 91, 318, 6213, 91, 29]
    """

    def __init__(self, tokenizer: Any) -> None:
        from tokenizers import Tokenizer

        spec = json.loads(tokenizer.backend_tokenizer.to_str())
        spec["truncation"] = spec["padding"] = None
        for token in spec["added_tokens"]:
            token["special"] = True
        self.tokenizer = tokenizer
        self._plain = Tokenizer.from_str(json.dumps(spec))
        self._plain.encode_special_tokens = True  # added tokens in a text stay text
        self._control = {token["content"]: token["id"] for token in spec["added_tokens"]}
        contents = sorted(self._control, key=len, reverse=True)
        self._controls = re.compile("(" + "|".join(map(re.escape, contents)) + ")") if contents else None
        self._adds_space = self._plain.encode("a", add_special_tokens=False).tokens[0].startswith("▁")
        self._anchor = len(self._plain.encode(ANCHOR, add_special_tokens=False).ids)

    @property
    def begin(self) -> list[int]:
        """The BOS token, where the tokenizer has one."""
        return [] if self.tokenizer.bos_token_id is None else [int(self.tokenizer.bos_token_id)]

    def text(self, text: str, *, fresh: bool = False, never: Sequence[int] = ()) -> list[int]:
        """Ids of user text.

        Args:
            text: anything; what spells a control token stays text.
            fresh: encode as a text of its own; else as the continuation of one, without SentencePiece's first space.
            never: the ids of a tag that the text must not contain; where it does, its characters are encoded apart.
        """
        ids = self._encode(text, fresh)
        if len(never) == 1 and never[0] in ids:
            spelled = self.tokenizer.decode(list(never)).strip()
            found = re.finditer(re.escape(spelled), text) if spelled else ()
            cuts = [match.start() + offset for match in found for offset in range(1, len(spelled))]
            parts = [text[start:end] for start, end in pairwise([0, *cuts, len(text)])]
            ids = [token for k, part in enumerate(parts) for token in self._encode(part, fresh and k == 0)]
        return ids

    def _encode(self, text: str, fresh: bool) -> list[int]:
        if fresh or not self._adds_space:
            return list(self._plain.encode(text, add_special_tokens=False).ids)
        return list(self._plain.encode(ANCHOR + text, add_special_tokens=False).ids[self._anchor :])

    def template(
        self, template: str, fields: dict[str, str], *, fresh: bool = True, never: Sequence[int] = ()
    ) -> list[int]:
        """Ids of a prompt: its control tokens by id, and each text between them, with its fields filled in, as text."""
        ids: list[int] = []
        for part in self._controls.split(template) if self._controls else [template]:
            if part in self._control:
                ids.append(self._control[part])
            else:
                ids += self.text(_fill(part, fields), fresh=fresh and not ids, never=never)
        return ids

    def one_id(self, text: str, what: str) -> int:
        """The single token that spells ``text`` (its last one, after SentencePiece's space).

        Raises:
            ValueError: the tokenizer spells it with several, so it is not the one this convention was trained with.
        """
        if text in self._control:
            return int(self._control[text])
        encoding = self._plain.encode(text, add_special_tokens=False)
        ids = [i for i, token in zip(encoding.ids, encoding.tokens, strict=True) if token != "▁"]
        if len(ids) != 1:
            raise ValueError(
                f"the {what} {text!r} must be one token, this tokenizer has {encoding.tokens}; it is not the tokenizer "
                "of this convention: give the checkpoint's own tokenizer or another convention="
            )
        return int(ids[0])

    def has_control(self, text: str) -> bool:
        """Whether ``text`` holds a control token of the tokenizer."""
        return self._controls is not None and self._controls.search(text) is not None

    def chat(self, messages: Sequence[dict[str, str]], *, generate: bool) -> str:
        """The checkpoint's own chat template, as text.

        Raises:
            ValueError: the tokenizer has no chat template.
        """
        if not self.tokenizer.chat_template:
            raise ValueError("this convention needs the checkpoint's chat template, and its tokenizer has none")
        return str(self.tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=generate))


def _fill(text: str, fields: dict[str, str]) -> str:
    """Each field replaced once, so that a field's name inside another's value stays as it is."""
    if not fields:
        return text
    pattern = re.compile("|".join(re.escape(name) for name in fields))
    return pattern.sub(lambda match: fields[match.group()], text)
