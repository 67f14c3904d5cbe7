"""What the documents say is true: their examples run, their words keep to the rules."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
EXAMPLES = [
    pytest.param(code, id=f"{page.name}-{number}")
    for page in PAGES
    for number, code in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")))
    if "# needs" not in code.split("\n")[0]  # says what it needs that this machine may lack
]


@pytest.mark.parametrize("code", EXAMPLES)
def test_python_examples_run(code, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "example", "exec"), {"__name__": "example"})  # noqa: S102  # our own text
    expected = re.findall(r"^print\(.*\)\s*# (.+)$", code, re.MULTILINE)
    printed = capsys.readouterr().out.splitlines()
    for said, line in zip(expected, printed, strict=False):
        assert line == said or line.startswith(said) or said.startswith(f"{line}:"), f"says {said!r}, prints {line!r}"


def test_relative_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_text_speaks_of_the_thing_itself():
    """No tracker numbers or internal codes in what users read."""
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if tracked.returncode:
        pytest.skip("not a git checkout")
    codes = re.compile(r"\b(issue|session) ?#?\d+\b|\breference card\b", re.IGNORECASE)
    for name in tracked.stdout.splitlines():
        if name.endswith((".py", ".md", ".toml", ".sh")) and not name.startswith("tests/"):
            found = codes.search((ROOT / name).read_text(encoding="utf-8"))
            assert not found, f"{name}: {found.group()}"


@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_example_scripts_run(script, tmp_path):
    result = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert result.returncode == 0, result.stderr
    assert result.stdout
