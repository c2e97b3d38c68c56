"""The threat model is true: every row names tests, and they exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
THREATS = TEXT.partition("## What an attacker could try")[2].partition("\n## ")[0]
ROWS = [
    line
    for line in THREATS.splitlines()
    if line.startswith("| ") and not line.startswith("| attempt |")
]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def names_in(file: Path) -> set[str]:
    """Return the names of a file's tests."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_the_rows_are_found() -> None:
    """The test below would pass over a document it cannot read."""
    assert len(ROWS) > 30


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip()[:50])
def test_each_row_names_tests_that_exist(row: str) -> None:
    """A defence would be stated that no one proves, or whose proof was deleted."""
    _, _, _, tests, _ = row.split("|")
    named = NAMED.findall(tests)
    assert named
    for path, name in named:
        assert name in names_in(ROOT / path)
