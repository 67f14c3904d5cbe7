"""How a family writes a rollout as token ids. In every layout the state at the last token of a step is read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from stepgauge.prm.conventions import Convention
from stepgauge.prm.writing import TokenWriter

__all__ = ["PassLayout", "StepLayout", "TagLayout", "TurnLayout", "build_layout"]

# Private-use characters stand in a chat template for what is filled in: no template contains them.
FIRST, LATER, ANSWER, QUESTION = "\ue000q\ue000", "\ue000s\ue000", "\ue000a\ue000", "\ue000p\ue000"
_NUMBER = re.compile(r"\s*Step\s*\d+\s*:", re.IGNORECASE)


class StepLayout(Protocol):
    """prompt ids + ids of each step; a step's ids depend on nothing but the problem, the step and its place."""

    def prompt(self, problem: str) -> list[int]:
        """What comes before the first step."""

    def step(self, problem: str, step: str, index: int, *, first: bool) -> list[int]:
        """Ids of step ``index``; ``first`` = it follows the prompt. The last one is read."""


class TagLayout:
    """prompt · step · tag · step · tag …; the tag is read."""

    def __init__(self, convention: Convention, writer: TokenWriter) -> None:
        self.convention = convention
        self.writer = writer
        several = convention.fresh and not convention.lines  # a separator may be several tokens; its last one is read
        if not convention.tag:
            self.tag: list[int] = []
        elif several or writer.has_control(convention.tag):
            self.tag = writer.template(convention.tag, {}, fresh=several)
        else:
            self.tag = [writer.one_id(convention.tag, "tag")]

    def prompt(self, problem: str) -> list[int]:
        begin = self.writer.begin if self.convention.bos else []
        never = () if self.convention.fresh else self.tag
        return begin + self.writer.template(self.convention.prompt, {"{problem}": problem}, never=never)

    def step(self, problem: str, step: str, index: int, *, first: bool) -> list[int]:
        row, writer = self.convention, self.writer
        if row.lines:
            return [token for line in step.split("\n") for token in [*writer.text(line, fresh=True), *self.tag]]
        number = f"Step {index + 1}: " if row.numbered and not _NUMBER.match(step) else ""
        text = row.lead[0 if first else 1] + number + step
        ids = writer.text(text, fresh=row.fresh, never=() if row.fresh else self.tag)
        if not row.tag and not step.strip():
            return []  # read at the step's own last token, and it has none
        return ids + self.tag


class TurnLayout:
    """Each step a user turn, each answer the positive label; the state before the label is read."""

    def __init__(self, convention: Convention, writer: TokenWriter) -> None:
        self.writer = writer
        plus = next(writer.one_id(label, "label") for label in convention.labels)
        turns = [("user", FIRST), ("assistant", ANSWER), ("user", LATER), ("assistant", ANSWER)]
        text = writer.chat([{"role": role, "content": content} for role, content in turns], generate=False)
        before, _, rest = text.partition(FIRST)
        header, _, rest = rest.partition(ANSWER)
        between, _, rest = rest.partition(LATER)
        again, found, _ = rest.partition(ANSWER)
        if not found or header != again:
            raise ValueError("the chat template does not write every turn alike, so a step cannot be one user turn")
        self._before = writer.template(before, {})
        self._header = writer.template(header, {}, fresh=False)
        self._between = [plus, *writer.template(between, {}, fresh=False)]

    def prompt(self, problem: str) -> list[int]:
        return list(self._before)

    def step(self, problem: str, step: str, index: int, *, first: bool) -> list[int]:
        if first:
            return [*self.writer.text(f"{problem} {step.strip()}".strip()), *self._header]
        return [*self._between, *self.writer.text(step.strip()), *self._header]


class PassLayout:
    """One sequence a step: the chat prompt, the steps so far, the end token, which is read."""

    def __init__(self, convention: Convention, writer: TokenWriter) -> None:
        self.convention = convention
        self.writer = writer
        if writer.tokenizer.eos_token_id is None:
            raise ValueError(f"convention {convention.name!r} reads the end token, and this tokenizer has none")
        turns = [("system", convention.system), ("user", QUESTION)]
        messages = [{"role": role, "content": content} for role, content in turns]
        self._template = writer.chat(messages, generate=True)

    def prompt(self, problem: str) -> list[int]:
        question = self.convention.question.replace("{problem}", problem)
        return self.writer.template(self._template, {QUESTION: question})

    def until(self, steps: Sequence[str]) -> list[int]:
        """Ids after the prompt for the steps so far; the last one is read."""
        return [*self.writer.text("\n\n".join(steps) + "\n\n"), self.writer.tokenizer.eos_token_id]


def build_layout(convention: Convention, writer: TokenWriter) -> StepLayout | PassLayout:
    """The layout of a convention under a tokenizer.

    Raises:
        ValueError: a tag, label, end token or chat template that the tokenizer lacks.
    """
    if convention.layout == "turns":
        return TurnLayout(convention, writer)
    if convention.layout == "passes":
        return PassLayout(convention, writer)
    return TagLayout(convention, writer)
