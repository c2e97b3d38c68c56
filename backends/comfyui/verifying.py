"""Checks the templates of a model against one server, before any request uses them."""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager

from pydantic import JsonValue

from backends.comfyui.server import ComfyUIServer, server_options
from backends.comfyui.workflow.graph.node_types import (
    NumberRange,
    common,
    input_of,
    inputs_of,
    limits_in,
)
from backends.comfyui.workflow.offered_nodes import doubts, faults_in, input_files
from backends.comfyui.workflow.template import Template
from backends.common.http import Http
from queueing.core.errors import BadModel
from queueing.core.specs import BackendSpec

FAULTS_SHOWN = 8  # of one model


@asynccontextmanager
async def opened(spec: BackendSpec) -> AsyncIterator[ComfyUIServer]:
    """Yield the client of a server, for workflows that belong to no model yet."""
    http = Http(spec.url, headers=server_options(spec).headers, proxy=spec.proxy)
    try:
        yield ComfyUIServer(http)
    finally:
        await http.aclose()


async def described(server: ComfyUIServer, kinds: Collection[str]) -> dict[str, JsonValue]:
    """Return the server's descriptions of node types, without those that it lacks."""
    found: dict[str, JsonValue] = {}
    for kind in sorted(set(kinds)):
        offered = await server.node_type(kind)
        found |= offered if isinstance(offered, dict) else {}
    return found


async def verify(server: ComfyUIServer, workflows: Sequence[Template]) -> list[str]:
    """Return notes about what cannot be checked. Raises `BadModel` for what the server refuses."""
    faults, notes = list[str](), list[str]()
    for workflow in workflows:
        offered = await described(server, {node.class_type for node in workflow.nodes.values()})
        faults += [fault async for fault in _faults(server, workflow, offered)]
        notes += doubts(workflow, offered)
    if faults:
        raise BadModel(in_one_line(faults))
    return notes


def in_one_line(faults: Sequence[str]) -> str:
    """Return the first faults as sentences, and how many more there are."""
    left = len(faults) - FAULTS_SHOWN
    more = [f"{left} more"] if left > 0 else []
    return ". ".join([*faults[:FAULTS_SHOWN], *more])


async def _faults(
    server: ComfyUIServer, workflow: Template, offered: JsonValue
) -> AsyncIterator[str]:
    """Yield everything that the server would refuse."""
    for key in workflow.nodes:
        for fault in faults_in(workflow, key, offered):
            yield fault
    for file in input_files(workflow, offered):
        if not await server.has_file(file.filename, file.subfolder, file.type):
            yield f"{file.where}: the server has no file {file} for it"
    places = inputs_of(workflow.nodes, "seed")
    seeds = common(limits_in(input_of(offered, *each)) or NumberRange() for each in places)
    if seeds.least > seeds.most:
        yield f"{workflow.name}: no seed is valid for all nodes that take it"
