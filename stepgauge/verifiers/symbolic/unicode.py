"""Mathematical unicode to ASCII and LaTeX, one character at a time: digits of any script, operators, Greek,
super- and subscripts.
"""

from __future__ import annotations

import re
import unicodedata

_SUPER = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱˣʸᵏᵐᵃᵇᵗ", "0123456789+-=()nixykmabt", strict=True))
_SUB = dict(zip("₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ", "0123456789+-=()aehijklmnoprstuvx", strict=True))
_SUPER_RUN = re.compile("[" + "".join(map(re.escape, _SUPER)) + "]+")
_SUB_RUN = re.compile("[" + "".join(map(re.escape, _SUB)) + "]+")
_GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau "
    "upsilon phi chi psi omega"
)
_SIGNS = {
    "−–—‐‑‒﹣⁃": "-", "×✕✖⨯": "\\times ", "·⋅•∙・": "\\cdot ", "÷": "\\div ", "√": "\\sqrt ", "∛": "\\sqrt[3]",
    "∜": "\\sqrt[4]",
    "∞": "\\infty ", "≤⩽≦": "\\le ", "≥⩾≧": "\\ge ", "≠": "\\ne ", "≈≃≅": "\\approx ", "≡": "\\equiv ", "∪": "\\cup ",
    "∩": "\\cap ",
    "∈": "\\in ", "∉": "\\notin ", "∖": "\\setminus ", "∅⌀": "\\emptyset ", "°º˚": "^\\circ ", "′": "'", "″": "''",
    "∥": "\\parallel ", "⊥⟂": "\\perp ", "⊂": "\\subset ", "⊃": "\\supset ", "⊆": "\\subseteq ", "⊇": "\\supseteq ",
    "∑": "\\sum ",
    "∏": "\\prod ", "∫": "\\int ", "⌊": "\\lfloor ", "⌋": "\\rfloor ", "⌈": "\\lceil ", "⌉": "\\rceil ",
    "→⟶": "\\to ", "⇒⟹": "\\implies ",
    "±": "\\pm ", "∓": "\\mp ", "⁄∕": "/", "∣｜": "|", "‖": "\\|", "⟨〈": "\\langle ", "⟩〉": "\\rangle ",
    "ℝ": "\\mathbb{R}",
    "ℕ": "\\mathbb{N}", "ℤ": "\\mathbb{Z}", "ℚ": "\\mathbb{Q}", "ℂ": "\\mathbb{C}", "…⋯": "\\ldots ", "∠": "\\angle ",
    "△": "\\triangle ",
    "ħ": "\\hbar ", "ℓ": "\\ell ", "∂": "\\partial ", "∇": "\\nabla ", "“”„": '"', "‘’": "'", "。．": ".",
    "、،，﹐": ",",
    "；": ";",
    "：": ":",
    "٫": ".", "٬": ",", "٪": "%", "∧": "\\land ", "∨": "\\lor ", "∀": "\\forall ", "∝": "\\propto ",
    "‰": "\\permil ",
    "ϕ": "\\phi ", "ϵ": "\\epsilon ", "ϑ": "\\theta ", "∗": "*", "∶": ":", "€": "\\euro ", "£": "\\pound ",
    "¥￥": "\\yen ",
}  # fmt: skip
_ZERO_WIDTH = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u200e\u200f"
_BIDI = re.compile("[\u202a-\u202e\u2066-\u2069]")


def _build_table() -> dict[int, str]:
    table = {ord(char): out for chars, out in _SIGNS.items() for char in chars}
    table.update(dict.fromkeys(map(ord, _ZERO_WIDTH), ""))
    for offset, name in enumerate(_GREEK.split()):
        code = 0x3B1 + offset + (offset > 16)  # U+03C2 is the final sigma
        table[code] = f"\\{name} "
        table[code - 0x20] = f"\\{name.capitalize()} "
    table[0x3C2] = "\\sigma "
    table[0xB5] = "\\mu "
    return table


_TABLE = _build_table()
_OTHER = re.compile(r"[^\x00-\x7f]")


def _other(match: re.Match[str]) -> str:
    """One character outside the table: a digit of any script, a vulgar fraction, or its compatibility form."""
    char = match[0]
    digit = unicodedata.decimal(char, None)
    if digit is not None:
        return str(digit)
    if char.isspace():
        return " "
    plain = unicodedata.normalize("NFKC", char)
    if "\u2044" in plain:
        above, _, below = plain.partition("\u2044")
        return f"\\frac{{{above}}}{{{below or 1}}}"
    return plain.translate(_TABLE)


def to_ascii(text: str) -> str | None:
    """Rewrite mathematical unicode as ASCII and LaTeX; None where the text carries bidirectional overrides.

    >>> to_ascii("x³ ≤ ½·√５")
    'x^{3} \\\\le  \\\\frac{1}{2}\\\\cdot \\\\sqrt 5'
    """
    if text.isascii():
        return text
    if _BIDI.search(text):
        return None
    text = _SUPER_RUN.sub(lambda run: "^{" + "".join(_SUPER[char] for char in run[0]) + "}", text)
    text = _SUB_RUN.sub(lambda run: "_{" + "".join(_SUB[char] for char in run[0]) + "}", text)
    return _OTHER.sub(_other, text.translate(_TABLE))
