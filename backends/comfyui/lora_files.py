"""The LoRA files of a server, and the names people use for them."""

from backends.comfyui.server import ComfyUIServer
from backends.comfyui.workflow.graph.node_types import choices_of
from backends.comfyui.workflow.graph.nodes import Asked
from backends.comfyui.workflow.loras import NO_LORA
from backends.comfyui.workflow.template import Template
from backends.common.model_names import lora_named
from queueing.core.requests import Generation


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
