"""stable-diffusion.cpp's server (`sd-server`): one model per process, loaded for its lifetime.

Based on leejet/stable-diffusion.cpp at 97d29908 (2026-08): `examples/server/api.md`,
`routes_sdcpp.cpp`, `routes_openai.cpp`, `async_jobs.cpp`.

Its OpenAI calls support no seed, steps or LoRA, read settings from people's prompts
(`<sd_cpp_extra_args>`), and continue after the client has disconnected. This module therefore uses
its own calls: it posts a job, polls it, and cancels it while it waits there; a running job cannot
be stopped. None of its calls reads `<lora:...>` in a prompt; LoRAs are a separate field, by path. A
default guidance of 1 means a distilled model, whose guidance is in another field. White in a mask
is painted. It does not report steps.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import ClassVar
from urllib.parse import quote

from pydantic import JsonValue

from backends.common.http import Http
from backends.common.http_replies import JSON_LIMIT
from backends.common.server_replies import ServerReply, ask, read
from backends.images.flavour import MIRRORED, ImageFlavour, ListedPainter
from backends.images.image_request import ImageRequest
from backends.images.replies import DrawnImage, classify, within_bounds
from queueing.core.concurrency import undisturbed
from queueing.core.errors import BackendError
from queueing.core.ports import Report
from queueing.core.requests import Progress

LOOK_S, LOOK_MOST_S = 0.05, 1.0  # poll interval: the server sends no notifications
CANCEL_S = 5.0


class SdGuidance(ServerReply):
    """A model's default guidance."""

    txt_cfg: float | None = None


class SdSampling(ServerReply):
    """The default sampling settings."""

    guidance: SdGuidance = SdGuidance()


class SdDefaults(ServerReply):
    """The server's defaults for images."""

    sample_params: SdSampling = SdSampling()


class SdModel(ServerReply):
    """The model a process was started with."""

    name: str = ""
    stem: str = ""


class SdLora(ServerReply):
    """A LoRA in the server's folder."""

    path: str


class SdCapabilities(ServerReply):
    """GET /sdcpp/v1/capabilities."""

    model: SdModel
    supported_modes: tuple[str, ...] = ("img_gen",)
    defaults: SdDefaults = SdDefaults()
    loras: tuple[SdLora, ...] = ()


class SdImage(ServerReply):
    """An image of a finished job."""

    b64_json: str


class SdImages(ServerReply):
    """The result of a finished job."""

    images: tuple[SdImage, ...] = ()


class SdJob(ServerReply):
    """GET /sdcpp/v1/jobs/{id}, and the response to a posted job."""

    id: str
    status: str
    queue_position: int = 0
    result: SdImages | None = None


class StableDiffusionCpp(ImageFlavour):
    """stable-diffusion.cpp's server."""

    name: ClassVar[str] = "sdcpp"
    takes: ClassVar[frozenset[str]] = MIRRORED | {
        *("negative", "steps", "guidance", "seed", "strength", "mask", "lora")
    }
    starts: ClassVar[bool] = True
    shapes: ClassVar[bool] = True

    def notes(self) -> tuple[str, ...]:
        """Return notes: the server can neither unload its model nor stop a running job."""
        return (
            *super().notes(),
            "It cannot stop an image in progress: a cancelled one is completed.",
        )

    async def describe(self, http: Http) -> str | None:
        """Detect it by its capabilities call, which old versions lack."""
        answer = await ask(http, "/sdcpp/v1/capabilities", SdCapabilities)
        return "stable-diffusion.cpp" if answer else None

    async def served(self, http: Http) -> tuple[ListedPainter, ...]:
        """Return the one model, which is loaded."""
        told = await _capabilities(http)
        model = told.model
        names = frozenset({model.name, model.stem, "sd-cpp-local"})
        draws = "img_gen" in told.supported_modes
        return (
            ListedPainter(id=model.stem or "sd-cpp-local", names=names, loaded=True, draws=draws),
        )

    async def loras(self, http: Http) -> tuple[str, ...]:
        """Return the paths of the LoRAs in its folder."""
        return tuple(lora.path for lora in (await _capabilities(http)).loras)

    async def draw(self, http: Http, order: ImageRequest, report: Report) -> Sequence[DrawnImage]:
        """Post a job and poll it until it has ended."""
        told = await _capabilities(http)
        path = await _posted(http, self._body(order, told))
        try:
            job = await _ended(http, path, report)
        except asyncio.CancelledError:
            await _cancel(http, path)
            raise
        images = job.result.images if job.result else ()
        return within_bounds([DrawnImage(base64=image.b64_json) for image in images])

    def _body(self, order: ImageRequest, told: SdCapabilities) -> dict[str, JsonValue]:
        request = order.request
        body: dict[str, JsonValue] = {
            "prompt": request.prompt,
            "batch_count": request.count,
            "seed": request.seed % self.seeds,
            "sample_params": dict(_sampling(order, told)),
            "lora": [{"path": path, "multiplier": weight} for path, weight in order.loras],
            "embed_image_metadata": False,
            **_images(order),
        }
        if request.negative is not None:
            body["negative_prompt"] = request.negative
        if order.size:
            body["width"], body["height"] = order.size
        return body


async def _capabilities(http: Http) -> SdCapabilities:
    return read(SdCapabilities, await http.get_json("/sdcpp/v1/capabilities"))


async def _posted(http: Http, body: JsonValue) -> str:
    """Post a job and return its path. If the call is cancelled, the job is cancelled too."""
    posting = asyncio.create_task(http.post_json("/sdcpp/v1/img_gen", body))
    try:
        return _path(await undisturbed(posting))
    except asyncio.CancelledError:
        with suppress(BackendError):
            await _cancel(http, _path(await posting))
        raise


def _path(answer: JsonValue) -> str:
    return f"/sdcpp/v1/jobs/{quote(read(SdJob, answer).id, safe='')}"


async def _ended(http: Http, path: str, report: Report) -> SdJob:
    """Poll a job until it is completed, reporting its position in the server's queue."""
    pause_s, ahead = LOOK_S, 0
    while True:
        answer = await http.get_json(path, limit=JSON_LIMIT)
        status = answer.get("status") if isinstance(answer, dict) else None
        if status in {"failed", "cancelled"}:
            raise classify(200, answer)
        job = read(SdJob, answer)
        if job.status == "completed":
            return job
        if job.queue_position != ahead:
            ahead = job.queue_position
            report(Progress(ahead=ahead))
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 1.5, LOOK_MOST_S)


async def _cancel(http: Http, path: str) -> None:
    """Remove a job from the server's queue; a running one continues."""
    with suppress(BackendError):
        await http.post_json(f"{path}/cancel", {}, timeout_s=CANCEL_S)


def _sampling(order: ImageRequest, told: SdCapabilities) -> Mapping[str, JsonValue]:
    request = order.request
    params: dict[str, JsonValue] = {}
    if request.steps is not None:
        params["sample_steps"] = request.steps
    if request.guidance is not None:
        distilled = told.defaults.sample_params.guidance.txt_cfg == 1
        field = "distilled_guidance" if distilled else "txt_cfg"
        params["guidance"] = {field: request.guidance}
    return params


def _images(order: ImageRequest) -> Mapping[str, JsonValue]:
    images: list[JsonValue] = [image.base64 for image in order.images]
    if not images:
        return {}
    if not order.request.edit:
        strength = order.request.strength
        start: dict[str, JsonValue] = {"init_image": images[0]}
        return start if strength is None else start | {"strength": strength}
    if order.mask is None:
        return {"ref_images": images}
    mask = order.mask.base64
    return {"ref_images": images, "init_image": images[0], "mask_image": mask, "strength": 1.0}
