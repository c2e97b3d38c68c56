"""The language of docstrings, comments and documents: idioms that were once rewritten stay out.

Names in code and quoted text are not looked at: only what a reader of the project reads as prose.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("backends", "benchmarks", "bot", "queueing", "tests")
CODE = sorted(file for folder in PACKAGES for file in (ROOT / folder).rglob("*.py"))
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FORBIDDEN = {
    "of ours": "our",
    "anew": "again",
    "in vain": "without effect",
    "whoever": "a noun, such as the caller",
    "somebody": "a noun, such as a person",
    "someone else": "a noun, such as another person",
    "everybody": "a noun, such as all people",
    "nobody": "a noun, such as no request",
    "himself": "themselves",
    "courier": "extra messages",
    "back row": "overflow",
    "by heart": "in memory",
    "lets go of": "drops, deletes or releases",
    "let go of": "drop, delete or release",
    "tells apart": "distinguishes",
    "told apart": "distinguished",
}
_ONE_OF_THEM = "|".join(each.replace(" ", r"\s+") for each in FORBIDDEN)
_IDIOM = re.compile(rf"\b(?:{_ONE_OF_THEM})\b", re.IGNORECASE)
_SUSPECT = re.compile(rf"\b(?:{_ONE_OF_THEM}|Who|Whom|Whoever)\b", re.IGNORECASE)
_QUOTED = re.compile(r"```.*?```|`[^`]*`|\"[^\"\n]*\"|“[^”]*”|\]\([^)]*\)", re.DOTALL)
_HEADLESS = re.compile(r"(?:^|\n\n|\.\s)(?:Who|Whom|Whoever) (?!\w+\?)[a-z][^.?]*\.(?=\s|$)")


def _prose(source: str) -> Iterator[str]:
    """Yield the docstrings and comments of a module."""
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            match statement:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield cleandoc(text)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def idioms(text: str) -> list[str]:
    """Return the forbidden idioms and the sentences without a subject in a piece of prose."""
    plain = _QUOTED.sub("…", text)
    found = [*_IDIOM.findall(plain), *_HEADLESS.findall(plain)]
    return [" ".join(each.split()) for each in found]


def of_a_module(source: str) -> list[str]:
    """Return what `idioms` finds in the docstrings and comments of a module."""
    if not _SUSPECT.search(source):  # as nearly all: to read their tokens would take a minute
        return []
    return [each for text in _prose(source) for each in idioms(text)]


def test_docstrings_and_comments_keep_to_plain_english() -> None:
    """Foreign idioms would come back one by one."""
    files = {file: of_a_module(file.read_text(encoding="utf-8")) for file in CODE}
    found = {str(file.relative_to(ROOT)): told for file, told in files.items() if told}
    assert found == {}


def test_documents_keep_to_plain_english() -> None:
    """Operators and newcomers would read what no native speaker writes."""
    files = {file: idioms(file.read_text(encoding="utf-8")) for file in DOCUMENTS}
    assert {file.name: told for file, told in files.items() if told} == {}


@pytest.mark.parametrize(
    "source",
    [
        '"""A job that nobody waits for."""',
        "# A job that nobody waits for.",
        'def wait() -> None:\n    """Wait.\n\n    Who mistypes reads one sentence.\n    """',
        'def wait() -> None:\n    """It is told\n    apart by its key."""',
    ],
)
def test_the_idioms_of_a_module_are_found(source: str) -> None:
    """A module would be passed over as having no docstring that is worth a look."""
    assert of_a_module(source)


def test_names_and_texts_of_a_module_are_left_alone() -> None:
    """A message for people could not say "nobody"."""
    assert not of_a_module('nobody = "nobody"')


@pytest.mark.parametrize(
    "text",
    [
        "A job that nobody waits for.",
        "Done. Who mistypes reads one sentence.",
        "It is told\napart by its key.",
    ],
)
def test_the_idioms_are_found(text: str) -> None:
    """The checks above would pass whatever stands there."""
    assert idioms(text)


@pytest.mark.parametrize("text", ['It says "nobody".', "`Whoever`", "Who may use it: admins"])
def test_quotations_and_headings_are_left_alone(text: str) -> None:
    """An example of a message could not be quoted."""
    assert not idioms(text)
