"""Adds a model to the text of a configuration and keeps everything else, comments included. Pure."""

import json
import re

import yaml

from bot.config.loader import ConfigError

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
_COMMENT = re.compile(r"#.*")
_WORDS = frozenset({"yes", "no", "on", "off", "true", "false", "null", "y", "n"})


def entry(name: str, backends: tuple[str, ...], workflow: str, *, indent: int = 2) -> str:
    """Return the lines of a model under `models`."""
    pad = " " * indent
    return (
        f"{pad}{_scalar(name)}:\n"
        f"{pad}{pad}backends: [{', '.join(map(_scalar, backends))}]\n"
        f"{pad}{pad}workflow: {_scalar(workflow)}\n"
    )


def with_model(text: str, name: str, backends: tuple[str, ...], workflow: str) -> str:
    """Return the text of a configuration with one more model, after the others.

    Raises `ConfigError` if the text is too unusual to be changed without reading it.
    """
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(root, yaml.MappingNode) or root.flow_style:
        raise _unusual("it does not have one setting per line")
    found = next((pair for pair in root.value if pair[0].value == "models"), None)
    added = entry(name, backends, workflow)
    if found is None:
        return _inserted(text, _last_line(root), f"\nmodels:\n{added}")
    key, models = found
    if models.start_mark.index < key.end_mark.index:
        raise _unusual("`models` refers to another place in the file")
    if not isinstance(models, yaml.MappingNode):
        if models.value:
            raise _unusual("`models` is not a group")
        return _inserted(text, key.end_mark.line, added)
    if models.flow_style:
        return _in_braces(text, models, name, backends, workflow)
    indent = models.value[0][0].start_mark.column
    return _inserted(text, _last_line(models), entry(name, backends, workflow, indent=indent))


def _unusual(why: str) -> ConfigError:
    return ConfigError(
        (f"the configuration was not changed, because {why}: add the lines by hand",)
    )


def _scalar(text: str) -> str:
    """Quote a text if YAML would otherwise not read it back as text."""
    plain = _PLAIN.fullmatch(text) and text.casefold() not in _WORDS
    return text if plain else json.dumps(text, ensure_ascii=False)


def _inserted(text: str, line: int, added: str) -> str:
    """Return a text with lines inserted after a line, counted from 0."""
    end = "\r\n" if "\r\n" in text else "\n"
    lines = text.splitlines(keepends=True)
    before, after = lines[: line + 1], lines[line + 1 :]
    if before and not before[-1].endswith(("\n", "\r")):
        before[-1] += end
    return "".join([*before, added.replace("\n", end), *after])


def _last_line(node: yaml.Node) -> int:
    """Return the line on which a value ends, without the comments after it."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        parts = last if isinstance(last, tuple) else (last,)
        return max(map(_last_line, parts))
    end: int = node.end_mark.line
    block = isinstance(node, yaml.ScalarNode) and node.style in {"|", ">"}
    return end - 1 if block and node.end_mark.column == 0 else end


def _in_braces(
    text: str, models: yaml.MappingNode, name: str, backends: tuple[str, ...], workflow: str
) -> str:
    at = models.end_mark.index - 1
    before = text[:at].rstrip()
    last = models.value[-1][1].end_mark.index if models.value else at
    has_comma = "," in _COMMENT.sub("", text[last:at])
    comma = "" if has_comma or not models.value else ","
    listed = ", ".join(map(_scalar, backends))
    added = f"{_scalar(name)}: {{backends: [{listed}], workflow: {_scalar(workflow)}}}"
    kept = text[len(before) : at]
    return (
        f"{before}{comma} {added}{kept}{text[at:]}"
        if "\n" not in kept
        else (f"{text[:at]}{comma} {added}{text[at:]}")
    )
