"""The samplers, schedulers and LoRAs of a server, and the names people use for them."""

import re
from collections.abc import Awaitable, Callable, Sequence

from pydantic import JsonValue

from backends.comfyui.server import ComfyUIServer
from backends.comfyui.workflow.graph.node_types import choices_of, inputs_of
from backends.comfyui.workflow.graph.nodes import Asked
from backends.comfyui.workflow.loras import NO_LORA
from backends.comfyui.workflow.template import Template
from backends.common.model_names import lora_named, one_like
from queueing.core.catalog import near
from queueing.core.errors import ProblemKind, Rejected, problem
from queueing.core.requests import CHOICE_MOST, Generation

CHOSEN = ("sampler", "scheduler")
_LISTED = 10
_NEAR = 3


async def with_choices(
    describe: Callable[[str], Awaitable[JsonValue]], request: Asked, workflow: Template
) -> Asked:
    """Return a request with the server's names in place of the names that people use.

    `describe` returns the server's description of a node type. Raises `Rejected` for an unknown
    name.
    """
    found: dict[str, str] = {}
    for word in CHOSEN if isinstance(request, Generation) else ():
        asked = getattr(request, word)
        for class_type, name in inputs_of(workflow.nodes, word) if asked is not None else ():
            choices = choices_of(await describe(class_type), class_type, name)
            if choices:
                found[word] = chosen(word, asked, choices)
    return request.model_copy(update=found)


def chosen(field: str, asked: str, choices: Sequence[str]) -> str:
    """Return the choice that a name means: "Euler a" is `euler_ancestral`. Raises `Rejected`."""
    if (meant := one_like(asked, choices, _plain)) is not None:
        return meant
    there = ", ".join(near(_plain(asked), choices, most=_NEAR) or choices[:_LISTED])
    why = problem(ProblemKind.OTHER_CHOICES, field=field, name=asked[:CHOICE_MOST], there=there)
    raise Rejected(f"the server has no {field} {asked!r}", problem=why)


def _plain(name: str) -> str:
    """Return a name in the form in which different programs' spellings are equal."""
    words = re.sub(r"\ba$", "ancestral", name.casefold().replace("++", "pp").strip())
    return re.sub(r"[^a-z0-9]", "", words)


async def lora_files(server: ComfyUIServer, workflow: Template) -> tuple[str, ...]:
    """Return the files that a template's LoRA loader can load.

    A loader with rows lists no LoRAs, so all those of the server count.
    """
    class_type, name = workflow.lora_loader or ("", "")
    offered = choices_of(await server.node_type(class_type), class_type, name)
    listed = offered or await server.model_files("loras")
    return tuple(file for file in listed if file != NO_LORA)


async def with_lora_files(server: ComfyUIServer, request: Asked, workflow: Template) -> Asked:
    """Return a request with the server's file names in place of the names that people use.

    Raises `Rejected` for an unknown or ambiguous name.
    """
    if not isinstance(request, Generation) or not request.lora or not workflow.lora_loader:
        return request
    files = await lora_files(server, workflow)
    named = [
        lora.model_copy(update={"name": lora_named(lora.name, files)}) for lora in request.lora
    ]
    return request.model_copy(update={"lora": tuple(named)})
