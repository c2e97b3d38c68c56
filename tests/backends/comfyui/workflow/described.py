"""How a real ComfyUI describes its nodes, and what it would refuse in a graph.

`recorded/comfyui/object_info.json` is the answer to `GET /object_info` of the version it names: the
nodes of the shipped templates only, with every file that they need. `USHER_COMFYUI_RECORD=1` writes
it anew when the live test runs.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from backends.comfyui.workflow.graph.nodes import Graph, Node, link_of

RECORDED = Path(__file__).parents[2] / "recorded" / "comfyui" / "object_info.json"
SHIPPED = sorted((Path(__file__).parents[4] / "backends" / "workflows").glob("*.json"))
_KEPT = ("default", "min", "max", "step", "options", "multiselect", "image_upload")
_NUMBERS: Mapping[str, type | tuple[type, ...]] = {
    "INT": int,
    "FLOAT": (int, float),
    "STRING": str,
    "BOOLEAN": bool,
}
_ANY = "*"


def recorded() -> dict[str, Any]:
    """Return the recorded answer: a version and node descriptions by type."""
    data: dict[str, Any] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return data


def trimmed(offered: Mapping[str, Any]) -> dict[str, Any]:
    """Return descriptions of the nodes that the shipped templates use, without texts for people."""
    used = {
        node["class_type"]
        for path in SHIPPED
        for node in json.loads(path.read_text(encoding="utf-8")).values()
    } | {"PreviewImage", "PreviewAudio"}
    return {kind: _trimmed_node(offered[kind]) for kind in sorted(used)}


def write(version: str, offered: Mapping[str, Any]) -> None:
    """Write a recording, one line per node."""
    lines = [
        f"    {json.dumps(kind)}: {json.dumps(told)}" for kind, told in trimmed(offered).items()
    ]
    text = ",\n".join(lines)
    RECORDED.write_text(
        f'{{\n  "version": {json.dumps(version)},\n  "nodes": {{\n{text}\n  }}\n}}\n',
        encoding="utf-8",
    )


def faults(graph: Graph, nodes: Mapping[str, Any]) -> list[str]:
    """Return what a server with these nodes refuses in a graph, or silently ignores."""
    found: list[str] = []
    for key, node in graph.items():
        told = nodes.get(node.class_type)
        if told is None:
            found.append(f"{key}: no node {node.class_type}")
            continue
        inputs = told["input"]
        known = {**inputs.get("required", {}), **inputs.get("optional", {})}
        missing = inputs.get("required", {}).keys() - node.inputs.keys()
        found += [f"{key}: {name} is missing" for name in sorted(missing)]
        found += [f"{key}: {name} is unknown" for name in sorted(node.inputs.keys() - known.keys())]
        found += [
            f"{key}: {why}"
            for name in node.inputs.keys() & known.keys()
            for why in _input_faults(graph, node, name, known[name], nodes)
        ]
    saves = [node for node in graph.values() if nodes.get(node.class_type, {}).get("output_node")]
    return found if saves else [*found, "nothing is saved"]


def _input_faults(
    graph: Graph, node: Node, name: str, kind: Any, nodes: Mapping[str, Any]
) -> Iterator[str]:
    value, wanted = node.inputs[name], kind[0]
    link = link_of(value)
    if link:
        outputs = nodes.get(graph[link[0]].class_type, {}).get("output", [])
        given = outputs[link[1]] if link[1] < len(outputs) else "nothing"
        if isinstance(wanted, list) or not _fits(given, wanted):
            yield f"{name} is {given}, not {wanted}"
        return
    rules = kind[1] if len(kind) > 1 else {}
    choices = wanted if isinstance(wanted, list) else rules.get("options")
    if choices is not None and wanted != "COMFY_DYNAMICCOMBO_V3":
        if value not in choices and not rules.get("image_upload"):
            yield f"{name} is {value!r}, not of {choices[:10]}"
    elif wanted == "COMFY_DYNAMICCOMBO_V3":
        if value not in {option["key"] for option in choices or ()}:
            yield f"{name} is {value!r}"
    elif not any(isinstance(value, _NUMBERS.get(each, ())) for each in wanted.split(",")):
        yield f"{name} is {value!r}, not {wanted}"
    elif isinstance(value, int | float) and not (
        rules.get("min", value) <= value <= rules.get("max", value)
    ):
        yield f"{name} is {value}, beyond {rules['min']} to {rules['max']}"


def _fits(given: str, wanted: str) -> bool:
    kinds = wanted.split(",")
    return _ANY in {given, wanted} or given in kinds or wanted.startswith("COMFY_MATCHTYPE")


def _trimmed_node(told: Mapping[str, Any]) -> dict[str, Any]:
    inputs = {
        part: {name: _trimmed_input(kind) for name, kind in told["input"].get(part, {}).items()}
        for part in ("required", "optional")
        if part in told["input"]
    }
    return {"input": inputs, "output": told["output"], "output_node": told["output_node"]}


def _trimmed_input(kind: list[Any]) -> list[Any]:
    rules = kind[1] if len(kind) > 1 else {}
    kept = {name: value for name, value in rules.items() if name in _KEPT}
    return [kind[0], kept] if kept else [kind[0]]
