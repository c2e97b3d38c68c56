"""Reads workflow files: finds the graph inside other data and explains mistakes. Pure."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress

from pydantic import JsonValue

from backends.comfyui.workflow.exported.foreign import in_our_words
from backends.comfyui.workflow.graph.nodes import (
    Graph,
    Node,
    cycle_in,
    has_broken_placeholder,
    is_deep,
    link_of,
    texts_in,
)
from queueing.core.errors import BadModel

EXPORT = (
    "in ComfyUI, choose Workflow → Export (API); older versions show Save (API Format) once the"
    " dev mode options are on"
)
"""How a person gets a file that servers understand."""

_NOTE = re.compile(r"^[_#/]")  # the keys of comments
_UNQUOTED = re.compile(r"\{\{?[^{}\n]*\}?\}")  # a placeholder
_WRAPPED = 4  # levels of other data around a graph


def parse_workflow(text: str, *, name: str) -> Graph:
    """Parse a workflow file and return its nodes. Raises `BadModel` naming file and node.

    The graph may be inside the body of a request to a server or to a program in front of one.
    """
    data = _data(text, name)
    body = next(_graphs_in(data, _WRAPPED), None)
    if body is None and any(_is_editors(value) for value in (data, *data.values())):
        raise BadModel(
            f"{name}: this is the editor's own format, which servers cannot run: {EXPORT}"
        )
    nodes = {
        key: _node(f"{name}: node {key}", value)
        for key, value in (body or data).items()
        if not _is_beside(key, value, has_nodes=body is not None)
    }
    for key, node in nodes.items():
        for link in map(link_of, node.inputs.values()):
            if link and link[0] not in nodes:
                raise BadModel(
                    f"{name}: node {key}: linked to node {link[0]}, which does not exist"
                )
    if circular := cycle_in(nodes):
        raise BadModel(f"{name}: node {circular}: depends on itself")
    return nodes


def _data(text: str, name: str) -> dict[str, JsonValue]:
    if not text.strip("\ufeff \t\r\n\0"):
        raise BadModel(f"{name}: the file is empty")
    try:
        data: JsonValue = json.loads(text.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        raise BadModel(f"{name}: not JSON ({error}){_hint(error)}") from None
    except (ValueError, RecursionError) as error:
        raise BadModel(f"{name}: not JSON ({error})") from None
    if isinstance(data, list | str) and any(_graphs_in(data, _WRAPPED)):
        return {"workflow": data}
    if not isinstance(data, dict) or not data:
        raise BadModel(f"{name}: not a workflow: an object with nodes is expected")
    return data


def _hint(error: json.JSONDecodeError) -> str:
    """Return a hint if a common mistake is at the place of the error."""
    after = error.doc[error.pos :].lstrip()
    if found := _UNQUOTED.match(error.doc, max(error.pos - 1, 0)):
        return f': put the placeholder in quotes, as in "{found[0]}", even for a number'
    if after.startswith(("//", "/*", "#")):
        return ": JSON has no comments"
    if after.startswith(("}", "]")) or error.msg.startswith("Illegal trailing comma"):
        return ": remove the comma before it"
    if error.msg == "Extra data" or error.doc.lstrip().startswith("```"):
        return ": the file may contain nothing but the workflow"
    return ""


def _graphs_in(data: JsonValue, levels: int) -> Iterator[dict[str, JsonValue]]:
    """Yield the graphs in a value: objects with at least one node, which may be written as a text.

    Skips the editor's files, because the graph inside one may be older than the workflow.
    """
    if isinstance(data, str) and data.lstrip().startswith("{"):
        with suppress(ValueError, RecursionError):
            data = json.loads(data)
    if _is_editors(data):
        return
    if isinstance(data, dict) and any(_is_node(value) for value in data.values()):
        yield data
    elif levels:
        inner = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
        for value in inner:
            yield from _graphs_in(value, levels - 1)


def _is_node(value: JsonValue) -> bool:
    return isinstance(value, dict) and {"class_type", "inputs"} <= value.keys()


def _is_beside(key: str, value: JsonValue, *, has_nodes: bool) -> bool:
    """Return whether a value is a comment or another program's settings between the nodes."""
    if isinstance(value, dict):
        return has_nodes and not value.keys() & {"class_type", "inputs"}
    return bool(_NOTE.match(key))


def _is_editors(value: JsonValue) -> bool:
    return isinstance(value, dict) and isinstance(value.get("nodes"), list)


def _node(where: str, value: JsonValue) -> Node:
    if not isinstance(value, dict):
        raise BadModel(f"{where}: not a node")
    class_type, inputs = value.get("class_type"), value.get("inputs")
    if not isinstance(class_type, str) or not class_type:
        raise BadModel(f"{where}: class_type is missing")
    if not isinstance(inputs, dict):  # ComfyUI accepts such a node, and its worker may crash
        raise BadModel(f"{where} ({class_type}): inputs are missing")
    if is_deep(list(inputs.values())):
        raise BadModel(f"{where} ({class_type}): a value is nested too deeply")
    for text in texts_in(inputs):
        if has_broken_placeholder(text):
            raise BadModel(f"{where} ({class_type}): {text!r} contains a malformed placeholder")
    return Node(class_type=class_type, inputs=inputs, title=_title(value.get("_meta")))


def _title(about: JsonValue) -> str:
    title = about.get("title") if isinstance(about, dict) else None
    return title if isinstance(title, str) else ""


def read_export(text: str, *, name: str) -> Graph:
    """Parse a workflow that was not made for Usher. Raises `BadModel` like `parse_workflow`.

    Puts missing quotes around placeholders and words, separates double braces that are no
    placeholder, and replaces other programs' placeholders for numbers with usual numbers.
    """
    first, *others = in_our_words(text)
    try:
        return parse_workflow(first, name=name)
    except BadModel as error:
        for mended in others:
            try:
                return parse_workflow(mended, name=name)
            except BadModel:
                continue
        raise error from None


def as_export(graph: Graph) -> dict[str, JsonValue]:
    """Return a graph as ComfyUI exports it, with the titles of nodes."""
    found: dict[str, JsonValue] = {}
    for key, node in graph.items():
        about: dict[str, JsonValue] = {"_meta": {"title": node.title}} if node.title else {}
        found[key] = {"inputs": dict(node.inputs), "class_type": node.class_type, **about}
    return found
