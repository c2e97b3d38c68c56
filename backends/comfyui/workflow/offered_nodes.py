"""Whether a server accepts a template, according to its descriptions of node types. Pure.

ComfyUI validates the nodes that lead to a saved file, by the same descriptions.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from backends.comfyui.workflow.graph.node_types import (
    NumberRange,
    choices_in,
    info_of,
    inputs_for,
    is_own,
    least_version,
    limits_in,
    rules_in,
)
from backends.comfyui.workflow.graph.nodes import (
    Graph,
    Node,
    is_model_file,
    link_of,
    names_in,
    substituted,
)
from backends.comfyui.workflow.offered_names import as_offered, in_short
from backends.comfyui.workflow.template import Template
from queueing.core.errors import BadModel

_UPLOADS = ("image_upload", "audio_upload", "video_upload", "file_upload")
_FREE = frozenset({"CustomCombo"})
"""ComfyUI's own nodes that accept more than they list."""

_IN_FOLDER = re.compile(r"^(.*?) ?\[(input|output|temp)\]$")
_OPEN_TYPES = ("*", "COMFY_")  # connected to anything, or judged by the node itself


@dataclass(frozen=True, kw_only=True, slots=True)
class InputFile:
    """A file that a template reads from a folder of the server, such as "input"."""

    where: str
    filename: str
    subfolder: str
    type: str

    def __str__(self) -> str:
        named = f"{self.subfolder}/{self.filename}" if self.subfolder else self.filename
        return named if self.type == "input" else f"{named} [{self.type}]"


def check_offered(workflow: Template, key: str, offered: JsonValue) -> None:
    """Raise `BadModel` unless the server accepts a node.

    Its type must exist and its required inputs must be set. Links must be of the right type. The
    server must offer every fixed choice (a model file, a sampler), in any case and with any
    separator. Every fixed or default number must be within its limits.
    """
    node = workflow.nodes[key]
    where = f"{workflow.name}: node {key} ({node.class_type})"
    if not info_of(offered, node.class_type):
        raise BadModel(f"{where}: {_lacking(workflow, node.class_type)}")
    filled, kinds, missing = _inputs(workflow, node, offered)
    if missing:
        raise BadModel(f"{where}: the required input {missing} is not set")
    for name, kind in kinds.items():
        value = filled.get(name)
        if isinstance(value, list):
            _check_link(f"{where}: {name}", value, kind, workflow.nodes, offered)
        elif name in filled and not names_in(value if isinstance(value, str) else []):
            _check_value(f"{where}: {name}", node.class_type, value, kind)


def input_files(workflow: Template, offered: JsonValue) -> Iterator[InputFile]:
    """Yield the files that nodes for uploads read, if the server does not list them.

    Such a list has no folders, and a server accepts every file that is there.
    """
    for key, name, value, kind in _unlisted(workflow, offered):
        if _takes_uploads(kind):
            found = _IN_FOLDER.match(value)
            path, place = (found[1], found[2]) if found else (value, _folder(kind))
            folder, _, file = path.replace("\\", "/").rpartition("/")
            where = f"{workflow.name}: node {key} ({workflow.nodes[key].class_type}): {name}"
            yield InputFile(where=where, filename=file, subfolder=folder, type=place)


def doubts(workflow: Template, offered: JsonValue) -> Iterator[str]:
    """Yield a note for each choice from an empty list, which a node pack's page fills."""
    for key, name, value, kind in _unlisted(workflow, offered):
        kept = workflow.nodes[key].class_type
        if kept not in _FREE and not _takes_uploads(kind) and not choices_in(kind):
            yield (
                f"{workflow.name}: node {key} ({kept}): {name} is {value}, which cannot be checked:"
                " the server lists no choices."
            )


def _unlisted(workflow: Template, offered: JsonValue) -> Iterator[tuple[str, str, str, JsonValue]]:
    """Yield the fixed choices that a server does not list: node, input, value and description."""
    for key, node in workflow.nodes.items():
        filled, kinds, _ = _inputs(workflow, node, offered)
        for name, kind in kinds.items():
            value, choices = filled.get(name), choices_in(kind)
            fixed = isinstance(value, str) and not names_in(value)
            if fixed and choices is not None and value not in choices:
                yield key, name, str(value), kind


def _inputs(
    workflow: Template, node: Node, offered: JsonValue
) -> tuple[Mapping[str, JsonValue], dict[str, JsonValue], str]:
    """Return a node's values with all defaults, its described inputs, and one that is missing."""
    info = info_of(offered, node.class_type)
    filled = substituted({"": node}, workflow.defaults)[""].inputs
    filled = as_offered(filled, info)
    inputs = inputs_for(info, filled)
    missing = min(inputs.required.keys() - node.inputs.keys(), default="")
    return filled, {**inputs.required, **inputs.optional}, missing


def _check_value(where: str, class_type: str, value: JsonValue, kind: JsonValue) -> None:
    choices, limits = choices_in(kind), limits_in(kind)
    if choices is not None and isinstance(value, str | int | float):
        _check_choice(where, class_type, value, kind, choices)
    if limits is not None:
        _check_number(where, value, limits)


def _check_choice(
    where: str, class_type: str, value: str | float, kind: JsonValue, choices: list[str]
) -> None:
    named = str(value)
    whole = isinstance(value, float) and value.is_integer() and str(int(value)) in choices
    if named in choices or whole or class_type in _FREE or _takes_uploads(kind):
        return
    if not choices and not is_model_file(named):
        return  # see `doubts`
    raise BadModel(f"{where}: the server does not have {named}; {in_short(named, choices)}")


def _check_number(where: str, value: JsonValue, limits: NumberRange) -> None:
    try:
        number = float(value) if isinstance(value, str | int | float) else None
    except ValueError:
        number = None
    if number is None:
        raise BadModel(f"{where}: {value!r} is not a number")
    if number < limits.least:
        raise BadModel(f"{where}: {value} is less than its minimum, {limits.least}")
    if number > limits.most:
        raise BadModel(f"{where}: {value} is more than its maximum, {limits.most}")


def _check_link(
    where: str, value: JsonValue, kind: JsonValue, nodes: Graph, offered: JsonValue
) -> None:
    """Refuse a link that the server refuses: to nothing, or to a value of another type."""
    link = link_of(value)
    if link is None:
        raise BadModel(f"{where}: a list is not a value, and {value} is not a link")
    given = info_of(offered, nodes[link[0]].class_type).get("output")
    if not isinstance(given, list):
        return
    if not 0 <= link[1] < len(given):
        raise BadModel(f"{where}: node {link[0]} has no output {link[1]}")
    wanted, made = kind[0] if isinstance(kind, list) and kind else None, given[link[1]]
    if isinstance(wanted, str) and isinstance(made, str) and not _fit(wanted, made):
        raise BadModel(f"{where}: takes {wanted}, but output {link[1]} of node {link[0]} is {made}")


def _fit(wanted: str, made: str) -> bool:
    if any(sign in wanted or sign in made for sign in _OPEN_TYPES):
        return True
    return bool(_types(wanted) & _types(made))


def _types(text: str) -> frozenset[str]:
    return frozenset(each.strip() for each in text.split(","))


def _takes_uploads(kind: JsonValue) -> bool:
    return any(rules_in(kind).get(sign) for sign in _UPLOADS)


def _folder(kind: JsonValue) -> str:
    return str(rules_in(kind).get("image_folder", "input"))


def _lacking(workflow: Template, class_type: str) -> str:
    """Return why a server may lack a node, and the remedy."""
    least = least_version(node.class_type for node in workflow.nodes.values())
    if least is None or not is_own(class_type):
        return "the server has no such node; a custom node pack is missing"
    return f"the server has no such node; the workflow needs ComfyUI {least} or newer"
