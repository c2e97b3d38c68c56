"""Whether a server accepts a template, according to its descriptions of node types. Pure.

ComfyUI validates the nodes that lead to a saved file, by the same descriptions. It accepts a name
only as it lists it: servers on Windows list folders with a backslash, and templates come from
servers of both kinds.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from backends.comfyui.workflow.graph.node_types import (
    NumberRange,
    choices_in,
    info_of,
    inputs_for,
    is_newer,
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
from backends.comfyui.workflow.template import Template
from backends.common.model_names import base_name, comparable, one_like, with_slashes
from queueing.core.catalog import near

_LISTED = 10  # names of a short list, which is shown whole
_NEAREST = 5
_ALIKE = 0.5  # folders and endings of file names differ more than words do


def offered_name(name: str, choices: Collection[str]) -> str | None:
    """Return the choice that a name means: the same but for its separators, or for its case.

    Returns None if there is none, or if several differ from it only in case.
    """
    return one_like(name, choices, with_slashes) or one_like(name, choices, comparable)


def as_offered(
    inputs: Mapping[str, JsonValue], info: Mapping[str, JsonValue]
) -> Mapping[str, JsonValue]:
    """Return a node's inputs with each name as the server's description of the node offers it."""
    while changed := _respelled(inputs, info):  # a choice may add inputs with choices of their own
        inputs = {**inputs, **changed}
    return inputs


def _respelled(
    inputs: Mapping[str, JsonValue], info: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    known = inputs_for(info, inputs)
    found: dict[str, JsonValue] = {}
    for name, kind in {**known.required, **known.optional}.items():
        value, choices = inputs.get(name), choices_in(kind)
        if isinstance(value, str) and choices and value not in choices:
            offered = offered_name(value, choices)
            found |= {name: offered} if offered else {}
    return found


def in_short(name: str, choices: Sequence[str]) -> str:
    """Return what a server has instead of a name: everything, or what is most similar to it."""
    if len(choices) <= _LISTED:
        return f"it has: {', '.join(choices) or 'none'}"
    own = comparable(base_name(name))
    same = [choice for choice in choices if comparable(base_name(choice)) == own]
    close = dict.fromkeys((*same, *near(name, choices, most=_NEAREST, alike=_ALIKE)))
    if close:
        return f"the nearest of its {len(choices)}: {', '.join([*close][:_NEAREST])}"
    return f"it has: {', '.join(choices[:_LISTED])} …"


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


def faults_in(workflow: Template, key: str, offered: JsonValue) -> Iterator[str]:
    """Yield why the server would refuse a node.

    Its type must exist and its required inputs must be set. Links must be of the right type. The
    server must offer every fixed choice (a model file, a sampler), in any case and with any
    separator. Every fixed or default number must be within its limits.
    """
    node = workflow.nodes[key]
    where = f"{workflow.name}: node {key} ({node.class_type})"
    if not info_of(offered, node.class_type):
        yield f"{where}: the server has no such node; {_lacking(workflow, node.class_type)}"
        return
    filled, kinds, missing = _inputs(workflow, node, offered)
    yield from (f"{where}: the required input {name} is not set" for name in missing)
    for name, kind in kinds.items():
        wrong = (
            _fault_of_input(node, filled[name], kind, workflow, offered) if name in filled else ""
        )
        if wrong:
            yield f"{where}: {name}: {wrong}"


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
) -> tuple[Mapping[str, JsonValue], dict[str, JsonValue], list[str]]:
    """Return a node's values with all defaults, its described inputs, and those not set."""
    info = info_of(offered, node.class_type)
    filled = substituted({"": node}, workflow.defaults)[""].inputs
    filled = as_offered(filled, info)
    inputs = inputs_for(info, filled)
    missing = sorted(inputs.required.keys() - node.inputs.keys())
    return filled, {**inputs.required, **inputs.optional}, missing


def _fault_of_input(
    node: Node, value: JsonValue, kind: JsonValue, workflow: Template, offered: JsonValue
) -> str:
    """Return why the server would refuse a value, or an empty text."""
    if isinstance(value, list):
        return _fault_of_link(value, kind, workflow.nodes, offered)
    if isinstance(value, str) and names_in(value):
        return ""
    return _fault_of_value(node.class_type, value, kind)


def _fault_of_value(class_type: str, value: JsonValue, kind: JsonValue) -> str:
    choices, limits = choices_in(kind), limits_in(kind)
    if choices is not None and isinstance(value, str | int | float):
        return _fault_of_choice(class_type, value, kind, choices)
    return _fault_of_number(value, limits) if limits is not None else ""


def _fault_of_choice(
    class_type: str, value: str | float, kind: JsonValue, choices: list[str]
) -> str:
    named = str(value)
    whole = isinstance(value, float) and value.is_integer() and str(int(value)) in choices
    if named in choices or whole or class_type in _FREE or _takes_uploads(kind):
        return ""
    if not choices and not is_model_file(named):
        return ""  # see `doubts`
    return f"the server does not have {named}; {in_short(named, choices)}"


def _fault_of_number(value: JsonValue, limits: NumberRange) -> str:
    try:
        number = float(value) if isinstance(value, str | int | float) else None
    except ValueError:
        number = None
    if number is None:
        return f"{value!r} is not a number"
    if number < limits.least:
        return f"{value} is less than its minimum, {limits.least}"
    if number > limits.most:
        return f"{value} is more than its maximum, {limits.most}"
    return ""


def _fault_of_link(value: JsonValue, kind: JsonValue, nodes: Graph, offered: JsonValue) -> str:
    """Return why the server refuses a link: to nothing, or to a value of another type."""
    link = link_of(value)
    if link is None:
        return f"a list is not a value, and {value} is not a link"
    given = info_of(offered, nodes[link[0]].class_type).get("output")
    if not isinstance(given, list):
        return ""
    if not 0 <= link[1] < len(given):
        return f"node {link[0]} has no output {link[1]}"
    wanted, made = kind[0] if isinstance(kind, list) and kind else None, given[link[1]]
    if isinstance(wanted, str) and isinstance(made, str) and not _fit(wanted, made):
        return f"takes {wanted}, but output {link[1]} of node {link[0]} is {made}"
    return ""


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
    if not is_own(class_type):
        return "a custom node pack is missing"
    if not is_newer(class_type):
        return "it is ComfyUI's own node, and the server's log says why it was not imported"
    least = least_version(node.class_type for node in workflow.nodes.values())
    return f"the workflow needs ComfyUI {least} or newer (if it is, the server's log says why)"
