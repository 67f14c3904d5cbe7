"""Tasks in the style of HumanEval, written for these tests: prompt, a right body, mutations that break it, checks."""

# ruff: noqa: E501  # tables of programs
from __future__ import annotations

from typing import NamedTuple


class Task(NamedTuple):
    prompt: str
    body: str
    check: str  # the body of check(candidate)
    mutations: tuple[tuple[str, str], ...]  # (text of the body, what breaks it)

    @property
    def entry_point(self) -> str:
        return self.prompt.rpartition("def ")[2].partition("(")[0]

    @property
    def test(self) -> str:
        return "def check(candidate):\n" + "".join(f"    {line}\n" for line in self.check.strip().split("\n"))


TASKS = [
    Task(
        'def running_max(values: list[int]) -> list[int]:\n    """The largest value so far, at every place."""\n',
        "    out = []\n    for v in values:\n        out.append(max(out[-1], v) if out else v)\n    return out\n",
        "assert candidate([]) == []\nassert candidate([3, 1, 4, 1, 5]) == [3, 3, 4, 4, 5]\nassert candidate([-2, -3]) == [-2, -2]",
        (
            ("max(out[-1], v)", "min(out[-1], v)"),
            ("if out else v", "if out else 0"),
            ("return out", "return sorted(out)[1:]"),
        ),
    ),
    Task(
        'from math import sqrt\n\n\ndef root(x: float) -> float:\n    """The square root, to within 1e-9."""\n',
        "    return sqrt(x)\n",
        "import random\nrandom.seed(7)\nfor _ in range(20):\n    x = random.uniform(0, 100)\n    assert abs(candidate(x) ** 2 - x) < 1e-9",
        (("sqrt(x)", "round(sqrt(x), 3)"), ("sqrt(x)", "-x"), ("sqrt(x)", "x / 2")),
    ),
    Task(
        "def encode(text: str) -> str:\n"
        '    """Swap neighbours in pairs."""\n'
        '    return "".join(text[i : i + 2][::-1] for i in range(0, len(text), 2))\n\n\n'
        'def decode(text: str) -> str:\n    """Undo encode."""\n',
        "    return encode(text)\n",
        'for word in ("", "a", "ab", "abc", "hello world"):\n    assert candidate(encode(word)) == word',
        (("encode(text)", "text"), ("encode(text)", "text[::-1]"), ("encode(text)", "encode(text).strip('a')")),
    ),
    Task(
        'def divide(a: int, b: int) -> int:\n    """Floor division; ValueError for b == 0."""\n',
        "    if b == 0:\n        raise ValueError('b is 0')\n    return a // b\n",
        "assert candidate(7, 2) == 3\nassert candidate(-7, 2) == -4\ntry:\n    candidate(1, 0)\nexcept ValueError:\n    pass\n"
        "else:\n    assert False, 'no ValueError'",
        (("a // b", "int(a / b)"), ("b == 0", "b < 0"), ("raise ValueError('b is 0')", "return 0")),
    ),
    Task(
        'def sort_in_place(items: list) -> None:\n    """Sort the list itself; return nothing."""\n',
        "    items.sort()\n",
        "items = [3, 1, 2]\nassert candidate(items) is None\nassert items == [1, 2, 3]\nwords = ['b', 'a']\ncandidate(words)\n"
        "assert words == ['a', 'b']",
        (
            ("items.sort()", "sorted(items)"),
            ("items.sort()", "items.reverse()"),
            ("items.sort()", "return items.sort() or items"),
        ),
    ),
    Task(
        'def count_words(text: str) -> dict[str, int]:\n    """How often each word occurs, in lower case."""\n',
        "    from collections import Counter\n    return Counter(text.lower().split())\n",
        "assert candidate('') == {}\nassert candidate('a b A') == {'a': 2, 'b': 1}\nassert candidate('x  x') == {'x': 2}",
        (("text.lower()", "text"), (".split()", ".split(' ')"), ("return Counter(", "return list(Counter(")),
    ),
    Task(
        'def primes(n: int) -> list[int]:\n    """All primes below n."""\n',
        "    return [p for p in range(2, n) if all(p % d for d in range(2, int(p**0.5) + 1))]\n",
        "assert candidate(2) == []\nassert candidate(12) == [2, 3, 5, 7, 11]\nassert len(candidate(1000)) == 168",
        (("range(2, n)", "range(2, n + 1)"), ("int(p**0.5) + 1", "int(p**0.5)"), ("range(2, n)", "range(1, n)")),
    ),
    Task(
        'def common(a: list, b: list) -> set:\n    """The elements in both."""\n',
        "    return set(a) & set(b)\n",
        "assert candidate([1, 2, 3], [2, 3, 4]) == {2, 3}\nassert candidate([], [1]) == set()\nassert isinstance(candidate([1], [1]), set)",
        (("&", "|"), ("set(a) & set(b)", "list(set(a) & set(b))"), ("set(a) & set(b)", "set(a) - set(b)")),
    ),
    Task(
        'def minmax(values: list[float]) -> tuple[float, float]:\n    """(smallest, largest)."""\n',
        "    return min(values), max(values)\n",
        "assert candidate([2, 3, 1]) == (1, 3)\nassert candidate([5]) == (5, 5)\nlow, high = candidate([-1.5, 2.5])\nassert low < high",
        (
            ("min(values), max(values)", "[min(values), max(values)]"),
            ("max(values)", "values[-1]"),
            ("min(values),", "values[0],"),
        ),
    ),
    Task(
        'def fib(n: int) -> int:\n    """The n-th Fibonacci number, fib(0) == 0."""\n',
        "    a, b = 0, 1\n    for _ in range(n):\n        a, b = b, a + b\n    return a\n",
        "assert [candidate(i) for i in range(7)] == [0, 1, 1, 2, 3, 5, 8]\nassert candidate(500) % 1000 == 125",
        (("0, 1", "1, 1"), ("return a", "return b"), ("a + b", "float(a + b)")),
    ),
    Task(
        'def is_palindrome(text: str) -> bool:\n    """Letters and digits only, case does not count."""\n',
        "    kept = [c.lower() for c in text if c.isalnum()]\n    return kept == kept[::-1]\n",
        "assert candidate('') is True\nassert candidate('A man, a plan, a canal: Panama')\nassert not candidate('ab')",
        (("c.lower()", "c"), ("if c.isalnum()", ""), ("kept[::-1]", "sorted(kept)")),
    ),
    Task(
        'def flatten(nested: list) -> list:\n    """One flat list of all that is not a list."""\n',
        "    out = []\n    for item in nested:\n        out += flatten(item) if isinstance(item, list) else [item]\n    return out\n",
        "assert candidate([]) == []\nassert candidate([1, [2, [3, []], 4]]) == [1, 2, 3, 4]\nassert candidate([(1, 2)]) == [(1, 2)]",
        (("isinstance(item, list)", "isinstance(item, (list, tuple))"), ("flatten(item)", "item"), ("[item]", "[]")),
    ),
    Task(
        'def squares():\n    """A generator of the squares 0, 1, 4, …"""\n',
        "    i = 0\n    while True:\n        yield i * i\n        i += 1\n        if i > 50:\n            return\n",
        "assert list(candidate())[:4] == [0, 1, 4, 9]\nassert len(list(candidate())) == 51",
        (("i = 0", "i = 1"), ("i * i", "i + i"), ("i > 50", "i > 5")),
    ),
    Task(
        'def caesar(text: str, shift: int = 3) -> str:\n    """Shift small letters around the alphabet."""\n',
        "    return ''.join(chr((ord(c) - 97 + shift) % 26 + 97) if c.islower() else c for c in text)\n",
        "assert candidate('xyz') == 'abc'\nassert candidate('a b!', shift=1) == 'b c!'\nassert candidate(candidate('qed', 5), -5) == 'qed'",
        (("% 26", "% 25"), ("shift) %", "3) %"), ("else c", "else ''")),
    ),
]


def wrong_bodies(task: Task) -> list[str]:
    """The mutations of a task, each one a program that runs and is wrong."""
    for old, _ in task.mutations:
        assert old in task.body, (task.entry_point, old)
    bodies = [task.body.replace(old, new) for old, new in task.mutations]
    return [body + ")" * (body.count("(") - body.count(")")) for body in bodies]
