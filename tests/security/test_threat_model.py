"""The threat model is true: every row names tests, and they exist."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
THREATS = TEXT.partition("## What an attacker could try")[2].partition("\n## ")[0]
ROWS = [
    line
    for line in THREATS.splitlines()
    if line.startswith("| ") and not line.startswith("| attempt |")
]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


@cache
def names_in(path: str) -> set[str]:
    """Return the names of a file's tests."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def faults(row: str) -> list[str]:
    """Return the tests that a row names and that do not exist, or that it names none."""
    named = NAMED.findall(row.split("|")[3])
    missing = [f"{path}::{name}" for path, name in named if name not in names_in(path)]
    return missing if named else ["no test"]


def test_each_row_names_tests_that_exist() -> None:
    """A defence would be claimed that no test proves, or whose test was deleted."""
    assert len(ROWS) > 30
    assert {row.split("|")[1]: found for row in ROWS if (found := faults(row))} == {}
