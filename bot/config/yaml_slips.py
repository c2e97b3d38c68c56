"""What keeps a text from being YAML, in words for an operator: the library's own name its insides.

Knows YAML alone; never what a setting means.
"""

import re

import yaml

_INDENTED = "the indentation of this line or the one above does not match"
_NOT_HERE = 'a name and its ":" cannot stand here'
_IN_PLAIN_WORDS = (
    (r"expected <block end>, but found '(<block \w+ start>|[-?])'", _INDENTED),
    (
        r"expected <block end>, but found",
        "only a comment may follow a value in quotes or brackets on its line",
    ),
    (
        r"mapping values are not allowed",
        f'{_NOT_HERE}; {_INDENTED}, the one above lacks ":" and a blank after its name, or a text with ":" needs quotes',
    ),
    (r"could not find expected ':'", 'this line lacks ":" and a blank after its name'),
    (r"found character '\\t'", "a tab cannot stand here; indent with spaces, not with tabs"),
    (r"found character '(.)' that cannot start", r"a text that begins with \1 needs quotes"),
    (r"expected alphabetic or numeric", "a text that begins with %, & or * needs quotes"),
    (r"expected (chomping|a comment or)", "a text that begins with | or > needs quotes"),
    (r"mapping keys are not allowed", "a text that begins with ? needs quotes"),
    (r"expected the node content, but found '(.)'", r"a text that begins with \1 needs quotes"),
    (r"sequence entries are not allowed", 'a list\'s "-" needs a line of its own'),
    (r"but found another document", "a line of --- begins a second configuration in this file"),
    (
        r"expected '<document start>'",
        f"the configuration ends above this line: {_INDENTED}, or a line of ... ends it",
    ),
    (r"expected the node content, but found '<stream end>'", "a value is missing here"),
    (r"expected (URI|' '),|'<tag>'", "a text that begins with ! needs quotes"),
    (r"found unknown escape", r"between double quotes write \\ for each \, or use single quotes"),
)
"""What the library reports, and what an operator is told, the first that fits."""

_BRACKETS = {
    "while parsing a flow sequence": ("list", "[", "]"),
    "while parsing a flow mapping": ("group", "{", "}"),
}
_OPEN_QUOTE = "this text begins with a quote that is never closed"
_GOT = re.compile(r"but got '(.*)'")


def slip(text: str, error: yaml.MarkedYAMLError) -> tuple[str, int | None]:
    """Return what keeps a text from being read, and the line of the slip, counted from 1."""
    mark, begins = error.problem_mark or error.context_mark, error.context_mark
    problem, context = error.problem or "", error.context or ""
    if mark is None:
        return problem or context or "this is not YAML", None
    if _is_bare_variable(text, mark):
        return 'between { and } write a variable with quotes: "${NAME}"', mark.line + 1
    if begins is not None and context in _BRACKETS and _GOT.search(problem):
        return _in_brackets(problem, context, begins, mark)
    if begins is not None and problem == "found unexpected end of stream":
        return _OPEN_QUOTE, begins.line + 1
    if begins is not None and "could not find expected ':'" in problem:
        mark = begins
    return _in_plain_words(problem) or problem or context, mark.line + 1


def _in_plain_words(problem: str) -> str | None:
    for pattern, words in _IN_PLAIN_WORDS:
        if found := re.search(pattern, problem):
            return found.expand(words) if found.groups() and r"\1" in words else words
    return None


def _in_brackets(
    problem: str, context: str, begins: yaml.Mark, mark: yaml.Mark
) -> tuple[str, int | None]:
    """Say what is wrong between brackets; a missing one is noticed long after the line it is in."""
    what, opening, closing = _BRACKETS[context]
    found = _GOT.search(problem)
    got = found[1] if found else ""
    if got in {"]", "}"}:
        return f"this {what} begins with {opening} but ends with {got}", mark.line + 1
    if mark.line == begins.line and got != "<stream end>":
        if got == ":":
            return f'between {opening} and {closing} a text with ":" needs quotes', mark.line + 1
        return f"between {opening} and {closing} a comma is missing", mark.line + 1
    return f"this {what} begins with {opening} but has no matching {closing}", begins.line + 1


def _is_bare_variable(text: str, mark: yaml.Mark) -> bool:
    """Return whether a slip is at the brace of a `${NAME}` inside a group in braces."""
    lines = text.splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ""
    return line[: mark.column].endswith("$") and line[mark.column :].startswith("{")
