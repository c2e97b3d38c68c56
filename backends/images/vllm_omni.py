"""vLLM-Omni: one model per process, loaded for the process's lifetime.

Based on vllm-project/vllm-omni: `vllm_omni/entrypoints/openai/api_server.py` at 005fd8ea,
`protocol/images.py` and `docs/serving/image_edit_api.md` at 00a3619b (2026).

In addition to OpenAI's fields it takes a negative prompt, steps, guidance up to 20 and a seed.
`image[]` in a form contains the images of an edit. An edit without a size has the size of its first
image, however large that is. Only some models support a mask and a strength, and the others ignore
them silently, so both are rejected here. It sends images only as `b64_json`, and lists no LoRAs.
"""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import JsonValue

from backends.common.http import Http
from backends.common.server_replies import ServerReply, ask
from backends.images.flavour import MIRRORED, ImageFlavour, ListedPainter
from backends.images.image_request import ImageRequest
from backends.images.replies import NameListing, listing


class OmniVersion(ServerReply):
    """GET /version."""

    version: str


class VllmOmni(ImageFlavour):
    """vLLM-Omni."""

    name: ClassVar[str] = "vllm-omni"
    takes: ClassVar[frozenset[str]] = MIRRORED | {"negative", "steps", "guidance", "seed"}
    shapes: ClassVar[bool] = True
    seeds: ClassVar[int] = 2**32

    async def describe(self, http: Http) -> str | None:
        """Detect it by /version, which other servers have too, and by the owner of its models."""
        answer = await ask(http, "/version", OmniVersion)
        listed = await ask(http, "/v1/models", NameListing) if answer else None
        if answer is None or listed is None:
            return None
        owned = any("vllm" in (entry.owned_by or "") for entry in listed.data)
        return f"vLLM-Omni {answer.version}" if owned else None

    async def served(self, http: Http) -> tuple[ListedPainter, ...]:
        """Return the listed models; all of them are loaded."""
        return tuple(ListedPainter(id=name, loaded=True) for name in await listing(http))

    def own_fields(self, order: ImageRequest) -> Mapping[str, JsonValue]:
        """Return its diffusion parameters."""
        request = order.request
        found: dict[str, JsonValue] = {
            "seed": request.seed % self.seeds,
            "negative_prompt": request.negative,
            "num_inference_steps": request.steps,
            "guidance_scale": request.guidance,
        }
        return {key: value for key, value in found.items() if value is not None}
