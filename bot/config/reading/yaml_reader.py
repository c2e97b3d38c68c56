"""Reads the text of a configuration: plain values, their lines, and secrets filled in.

Knows YAML and environment variables, but not the meaning of settings. Nothing here raises on bad
input: every mistake becomes a `ConfigProblem`, so that all of them can be shown at once.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import yaml
from pydantic import JsonValue

from queueing.core.catalog import meant_or_all

_INDENTED = "the indentation of this line or the one above does not match"
_NOT_HERE = 'a name with ":" is not allowed here'
_IN_PLAIN_WORDS = (
    (r"expected <block end>, but found '(<block \w+ start>|[-?])'", _INDENTED),
    (
        r"expected <block end>, but found",
        "only a comment may follow a value in quotes or brackets on its line",
    ),
    (
        r"mapping values are not allowed",
        f'{_NOT_HERE}; {_INDENTED}, the one above lacks ":" and a space after its name, or a text with ":" needs quotes',
    ),
    (r"could not find expected ':'", 'this line lacks ":" and a space after its name'),
    (r"found character '\\t'", "tabs are not allowed here; indent with spaces"),
    (r"found character '(.)' that cannot start", r"a text that begins with \1 needs quotes"),
    (r"expected alphabetic or numeric", "a text that begins with %, & or * needs quotes"),
    (r"expected (chomping|a comment or)", "a text that begins with | or > needs quotes"),
    (r"mapping keys are not allowed", "a text that begins with ? needs quotes"),
    (r"expected the node content, but found '(.)'", r"a text that begins with \1 needs quotes"),
    (r"sequence entries are not allowed", 'a list\'s "-" needs its own line'),
    (r"but found another document", "a line of --- begins a second configuration in this file"),
    (
        r"expected '<document start>'",
        f"the configuration ends above this line: {_INDENTED}, or a line of ... ends it",
    ),
    (r"expected the node content, but found '<stream end>'", "a value is missing here"),
    (r"expected (URI|' '),|'<tag>'", "a text that begins with ! needs quotes"),
    (r"found unknown escape", r"between double quotes write \\ for each \, or use single quotes"),
)
"""The library's errors and the operator's messages. The first match applies."""

_BRACKETS = {
    "while parsing a flow sequence": ("list", "[", "]"),
    "while parsing a flow mapping": ("group", "{", "}"),
}
_OPEN_QUOTE = "this text begins with a quote that is never closed"
_GOT = re.compile(r"but got '(.*)'")


def slip(text: str, error: yaml.MarkedYAMLError) -> tuple[str, int | None]:
    """Return why a text cannot be read, and the line of the mistake, counted from 1."""
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
    """Explain an error between brackets. A missing one is noticed long after its line."""
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
    """Return whether the mistake is at the brace of a `${NAME}` inside a group in braces."""
    lines = text.splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ""
    return line[: mark.column].endswith("$") and line[mark.column :].startswith("{")


Path = tuple[str | int, ...]
"""The path of a value: ("models", "flux", "aliases", 0)."""

SECRET_KEYS = frozenset({"token"})
VARIABLE_KEYS = SECRET_KEYS | {"api_url", "database", "proxy", "url"}
"""The settings in which `${NAME}` stands for an environment variable."""

_VARIABLE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")
_VARIABLE_FORM = "write a variable as ${NAME} or ${NAME:-default}"
_BARE_VARIABLE = re.compile(r"\$[A-Z][A-Z0-9_]+")  # as shells write it
_TAG = "tag:yaml.org,2002:"


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfigProblem:
    """A mistake in the configuration, in one sentence for the operator."""

    path: Path
    text: str
    line: int | None = None  # if it is known better than from the path


@dataclass(kw_only=True, slots=True)
class Document:
    """A parsed configuration file.

    `lines` contains the line of every key and list item, counted from 1. `literal_secrets` are the
    places where a secret is written out instead of referenced.
    """

    value: JsonValue = None
    lines: dict[Path, int] = field(default_factory=dict)
    problems: list[ConfigProblem] = field(default_factory=list)
    literal_secrets: list[Path] = field(default_factory=list)

    def line_of(self, path: Path) -> int | None:
        """Return the line of a value, or of its nearest enclosing value in the file."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return None


def read(text: str, environ: Mapping[str, str]) -> Document:
    """Parse a configuration file. `problems` is empty if everything could be read."""
    document = Document()
    try:
        node = yaml.compose(text, Loader=_Loader)
        if node is not None:
            document.value = _Reader(document, environ).value(node, ())
        if document.value is None and not document.problems:
            text = "the file is empty: `usher example` prints every setting"
            document.problems.append(ConfigProblem(path=(), text=text))
    except yaml.MarkedYAMLError as error:
        what, line = slip(text, error)
        document.problems.append(ConfigProblem(path=(), text=f"cannot be read: {what}", line=line))
    except yaml.YAMLError as error:
        what = str(error).splitlines()[0]
        document.problems.append(ConfigProblem(path=(), text=f"cannot be read: {what}"))
    except RecursionError:
        document.problems.append(ConfigProblem(path=(), text="cannot be read: nested too deeply"))
    return document


class _Loader(yaml.SafeLoader):
    """Accepts only YAML 1.2's plain values: in YAML 1.1, `on` is a boolean and 12:30 a number."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  # the library's own attribute

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Refuse aliases: a few lines of them can expand beyond the memory."""
        if self.check_event(yaml.AliasEvent):
            mark = self.get_event().start_mark  # type: ignore[no-untyped-call]  # stubs lack it
            what = "references (*name) are not supported"
            raise yaml.composer.ComposerError(None, None, what, mark)
        return super().compose_node(parent, index)


for _kind, _pattern, _starts in (
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("int", r"^[-+]?[0-9]+$", "-+0123456789"),
    ("float", r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$", "-+.0123456789"),
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
):
    _Loader.add_implicit_resolver(_TAG + _kind, re.compile(_pattern), list(_starts))


_SCALARS: Mapping[str, Callable[[str], JsonValue]] = {
    "null": lambda _: None,
    "bool": lambda text: text.lower() == "true",
    "int": int,  # the library would read 010 as 8
    "float": float,
}


class _Reader:
    """Turns a tree of nodes into plain values and records lines and problems on the way."""

    def __init__(self, document: Document, environ: Mapping[str, str]) -> None:
        self._document = document
        self._environ = environ

    def value(self, node: yaml.Node, path: Path) -> JsonValue:
        self._document.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        return self._scalar(node, path)

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, JsonValue]:
        found: dict[str, JsonValue] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode) or not _is_name(key_node, path):
                self._complain(path, _unquoted(key_node), line)
                continue
            key = key_node.value
            if key in found:
                before = self._document.lines[*path, key]
                self._complain((*path, key), f"is given twice (first in line {before})", line)
                continue
            self._document.lines[*path, key] = line
            found[key] = self.value(value_node, (*path, key))
        return found

    def _scalar(self, node: yaml.Node, path: Path) -> JsonValue:
        kind = node.tag.removeprefix(_TAG)
        if kind == "str":
            return self._text(node.value, path)
        if kind not in _SCALARS:
            self._complain(path, f"the tag {node.tag} is not supported")
            return None
        try:
            return _SCALARS[kind](node.value)
        except ValueError:  # `!!int x`, or a number with thousands of digits
            self._complain(path, "this is not a usable number")
            return None

    def _text(self, text: str, path: Path) -> str:
        key = next((part for part in reversed(path) if isinstance(part, str)), "")
        if key in VARIABLE_KEYS and _BARE_VARIABLE.fullmatch(text):
            self._complain(path, _VARIABLE_FORM)
            return text
        if "${" not in text:
            if key in SECRET_KEYS and text:
                self._document.literal_secrets.append(path)
            return text
        if key not in VARIABLE_KEYS:
            allowed = ", ".join(sorted(VARIABLE_KEYS))
            self._complain(path, f"${{NAME}} is replaced by a variable only in {allowed}")
            return text
        if "${" in _VARIABLE.sub("", text):
            self._complain(path, _VARIABLE_FORM)
            return text
        return _VARIABLE.sub(lambda match: self._variable(match, path), text)

    def _variable(self, match: re.Match[str], path: Path) -> str:
        name, default = match["name"], match["default"]
        found = self._environ.get(name) or default
        if found is None:
            self._complain(
                path,
                f"the variable {name} is not set: add it to the environment or to usher.env next to this file",
            )
            return f"${{{name}}}"
        return found

    def _complain(self, path: Path, text: str, line: int | None = None) -> None:
        self._document.problems.append(ConfigProblem(path=path, text=text, line=line))


def _is_name(key: yaml.ScalarNode, path: Path) -> bool:
    """Return whether a key is text. GPUs are usually numbered, so a number is a name too."""
    counted = path[-1:] == ("gpus",) and key.value.isdecimal()
    return counted or key.tag == f"{_TAG}str"


def _unquoted(key: yaml.Node) -> str:
    named = f" {key.value!r}" if isinstance(key, yaml.ScalarNode) else ""
    return f"the name{named} must be text: quote it"


def no_setting(name: str, names: Iterable[str]) -> str:
    """Report that a setting does not exist, and which ones do."""
    return f"is not a setting; {meant_or_all(name, names)}"


def sentences(document: Document, file: str, problems: Iterable[ConfigProblem]) -> tuple[str, ...]:
    """Return problems as "config.yaml:17: models.flux.load_s: must be a number", in line order."""
    placed = [(problem.line or document.line_of(problem.path), problem) for problem in problems]
    placed.sort(key=lambda pair: pair[0] or 0)
    return tuple(
        f"{file}{f':{line}' if line else ''}: {_dotted(problem.path)}{problem.text}"
        for line, problem in placed
    )


def _dotted(path: Path) -> str:
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in path]
    return "".join(parts).removeprefix(".") + ": " if parts else ""
