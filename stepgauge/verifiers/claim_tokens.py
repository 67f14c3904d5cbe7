"""The words of a stated equality: tokens, units, and where an expression may begin in running text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Literal

__all__ = [
    "COMPUTING_WORDS",
    "CONJUNCTIONS",
    "FUNCTIONS",
    "ONE_LETTER_UNITS",
    "PROSE",
    "Token",
    "converts",
    "is_fraction",
    "is_unit",
    "left_starts",
    "tokenize",
]

_LATEX = {
    r"\\(?:times|cdot|ast)(?![a-zA-Z])": "*",
    r"\\div(?![a-zA-Z])": "/",
    r"\\(?:approx|simeq)(?![a-zA-Z])": "≈",
    r"\\(?:left|right|quad|qquad|displaystyle)(?![a-zA-Z])|\\[!,;:> ]|\\[()\[\]]|\$|&": " ",
    r"\\([%#])": r"\1",
    r"\\[dt]?frac\s*\{\s*([\d.]{1,40})\s*\}\s*\{\s*([\d.]{1,40})\s*\}": r"((\1)/(\2))",
    r"\\(?:text|mathrm|mbox)\s*\{([^{}\n]{0,80})\}": r" \1 ",
}
_LATEX_RULES = [(re.compile(pattern), to) for pattern, to in _LATEX.items()]
_BOLD = re.compile(r"\*\*(?=\s*\D)|(?<=\D)\*\*")

_TOKEN = re.compile(
    r"(?P<number>\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)(?P<percent>\s?%)?"
    r"|(?P<equals>≈|(?<![=<>!:+\-*/])=(?![=>]))"
    r"|(?P<operator>\*\*|[-+*/^×·÷−–∗⋅]|\\[a-zA-Z]+)"
    r"|(?P<open>[(\[{])|(?P<close>[)\]}])"
    r"|(?P<word>[^\W\d_]+(?:['’][^\W\d_]+)*)"
    r"|(?P<space>[^\S\n]+)"
    r"|(?P<stop>.|\n)",
    re.DOTALL,
)
_SAME_OPERATOR = {"×": "*", "·": "*", "∗": "*", "⋅": "*", "÷": "/", "−": "-", "–": "-", "**": "^"}
_CURRENCY = frozenset("€£¥₹¢")
_SPOKEN = {"times": "*", "x": "*", "X": "*", "plus": "+", "minus": "-"}
COMPUTING_WORDS = frozenset(
    "squared|cubed|dozen|half|twice|thrice|double|triple|hundred|thousand|million|billion|over|mod|divided|multiplied|"
    "choose|power|remainder|off|am|pm".split("|")
)
FUNCTIONS = frozenset(
    "log|ln|lg|exp|sin|cos|tan|cot|sec|csc|sqrt|root|cbrt|gcd|lcm|max|min|abs|floor|ceil|round".split("|")
)
CONJUNCTIONS = frozenset("and|or|so|then|but|which|where|because|since|as|therefore|hence|thus|while".split("|"))
ONE_LETTER_UNITS = frozenset("mgshLlNJWVAKCFaA")  # "a" is the article; each only after a space
PROSE = frozenset(".,;:?!\n\"'“”‘’`<>|#*~…—→⇒&@，。；：？！、")
_RELATING = frozenset("by than from".split())  # what stands before them takes part: "3 less than 2 * 5"
_PART_OF = frozenset("out root square cube half third quarter percent times power".split())
_LABELS = frozenset("step day part case question problem round age chapter line week year level stage group".split())
_SAME_QUANTITY = [
    frozenset(names.split())
    for names in (
        "second sec s minute min hour hr h day week month year decade century",
        "inch foot ft yard yd mile mi meter metre m centimeter cm millimeter mm kilometer km",
        "gram g kilogram kg milligram mg ounce oz pound lb ton",
        "liter litre l milliliter ml gallon quart pint cup tablespoon teaspoon ounce oz",
        "dollar penny dime nickel quarter pound euro",
    )
]
_PLURALS = {"feet": "foot", "inches": "inch", "pennies": "penny", "centuries": "century"}


@dataclass(frozen=True, slots=True)
class Token:
    """A number, sign, bracket, word or other character."""

    kind: Literal["number", "equals", "operator", "open", "close", "word", "stop"]
    text: str
    glued: bool  # no space before it
    percent: bool = False
    digits: int = 0  # digits after the decimal point


def tokenize(step: str) -> list[Token]:
    """The tokens of a step, LaTeX and spoken operators turned into signs; currency signs are left out."""
    for pattern, to in _LATEX_RULES:
        step = pattern.sub(to, step)
    step = _BOLD.sub(" ", step)
    tokens: list[Token] = []
    glued = False
    for match in _TOKEN.finditer(step):
        kind, text = match.lastgroup, match.group()
        if kind == "space" or text in _CURRENCY:
            glued = False
            continue
        if kind == "percent":
            kind = "number"
        if kind == "number":
            number = match.group("number").replace(",", "")
            digits = len(number.partition(".")[2])
            tokens.append(Token("number", number, glued, match.group("percent") is not None, digits))
        else:
            tokens.append(Token(kind, _SAME_OPERATOR.get(text, text), glued))  # type: ignore[arg-type]
        glued = True
    return _join_words(tokens)


def _join_words(tokens: list[Token]) -> list[Token]:
    """Read ``20 percent``, ``3 x 4``, ``3 plus 4``, ``12 divided by 3`` and ``50% of 80`` as what they say."""
    joined: list[Token] = []
    rest = iter(range(len(tokens)))
    for at in rest:
        token = tokens[at]
        before = joined[-1] if joined else None
        by = token.text in ("divided", "multiplied") and at + 1 < len(tokens) and tokens[at + 1].text == "by"
        following = tokens[at + 1 + by] if at + 1 + by < len(tokens) else None
        after = following if following is not None and following.kind in ("number", "open") else None
        if by and after is not None and before is not None:
            next(rest)
            joined.append(Token("operator", "/" if token.text == "divided" else "*", glued=False))
            continue
        if token.kind == "word" and before is not None and before.kind in ("number", "close"):
            if token.text == "percent" and before.kind == "number":
                joined[-1] = replace(before, percent=True)
                continue
            operator = _SPOKEN.get(token.text) if before.text != "0" or not token.glued else None  # not 0x10
            if token.text == "of" and (before.percent or (len(joined) > 1 and joined[-2].text == "/")):
                operator = "*"
            if operator and after is not None:
                token = Token("operator", operator, token.glued)
        elif token.text in ("x", "X") and before is not None and after is not None and not (token.glued or after.glued):
            token = Token("operator", "*", token.glued)  # 60 students x 2/3
        joined.append(token)
    return joined


def left_starts(tokens: Sequence[Token], equals: int, limit: int) -> Iterator[int]:
    """Starts of candidate left sides, longest first; each begins an expression that nothing before it continues."""
    low = equals
    while low > 0 and equals - low < limit and tokens[low - 1].kind not in ("equals", "stop"):
        low -= 1
    for start in range(low, equals):
        token = tokens[start]
        dash = token.text == "-" and (start == low or (not token.glued and tokens[start + 1].glued))
        bullet = start == low + 1 and tokens[low].text == "-" and _is_free(tokens, low)
        if (token.kind in ("number", "open") or dash) and (bullet or _is_free(tokens, start)):
            yield start


def _is_free(tokens: Sequence[Token], start: int) -> bool:
    """Whether an expression may begin at ``start``: what stands before it is not part of it."""
    if start == 0:
        return True
    token, before = tokens[start], tokens[start - 1]
    if before.kind == "stop":
        inside_number = token.glued and before.glued and start > 1 and tokens[start - 2].kind in ("number", "close")
        return before.text in PROSE and not inside_number  # not 5:00, x_3, √16
    if before.text == "and" and start > 1 and tokens[start - 2].kind == "number" and is_fraction(tokens[start:]):
        return False  # 1 and 1/4
    if before.kind == "word":
        return not token.glued and not _takes_part(tokens, start)
    return before.kind in ("equals", "open") or (before.kind == "close" and not token.glued)


def _takes_part(tokens: Sequence[Token], start: int) -> bool:
    """Whether the word before ``start`` makes what follows only a part of a larger expression."""
    token, word = tokens[start], tokens[start - 1].text.lower()
    if word in FUNCTIONS | COMPUTING_WORDS | _RELATING or (token.text == "-" and len(word) == 1):
        return True
    if word == "of":  # 3 groups of 4, 1 out of 4
        return any(t.kind == "number" or t.text.lower() in _PART_OF for t in tokens[max(0, start - 4) : start - 1])
    if _unit(word) in _LABELS and start + 1 < len(tokens) and tokens[start + 1].text in ("-", "="):
        return True  # Step 2 - 3 * 5, Week 2 = 35 + 35
    if token.kind != "open":
        return False
    inside = takewhile(lambda t: t.kind != "close", tokens[start + 1 :])
    return not any(t.kind == "operator" for t in inside)  # a remark: 2 cups (16 oz)


def is_fraction(tokens: Sequence[Token]) -> bool:
    """Whether the tokens begin with ``a / b`` of two numbers."""
    return [token.kind for token in tokens[:3]] == ["number", "operator", "number"] and tokens[1].text == "/"


def _unit(word: str) -> str:
    lower = word.lower()
    return _PLURALS.get(lower, lower[:-1] if lower.endswith("s") and len(lower) > 2 else lower)


def is_unit(token: Token) -> bool:
    """Whether a token is a unit that others convert to: hours, feet, ounces."""
    return token.kind == "word" and any(_unit(token.text) in names for names in _SAME_QUANTITY)


def converts(tokens: Sequence[Token]) -> bool:
    """Whether two units of one quantity appear (hours and minutes), or cents: then numbers need not match."""
    units = {_unit(token.text) for token in tokens if token.kind == "word"}
    return "cent" in units or any(len(units & names) > 1 for names in _SAME_QUANTITY)
