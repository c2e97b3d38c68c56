"""Image servers: those with OpenAI's image API, and SwarmUI.

The flavour is detected as for text servers and contains everything that differs between them.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

from pydantic import Field, SecretStr, field_validator

from backends.common.error_rules import loading
from backends.common.http import Http
from backends.common.model_names import lora_named, lora_names
from backends.common.model_server import LoadWish, ModelServer, authorization, base_of
from backends.common.options import read_options
from backends.common.server_backend import ServerBackend, reasons_kept
from backends.images.flavour import ImageFlavour, ListedPainter, able
from backends.images.image_request import ImageRequest, prepared, size_of
from backends.images.localai import LocalAi
from backends.images.replies import RULES, classified, collected
from backends.images.sdcpp import StableDiffusionCpp
from backends.images.swarmui import SwarmUi
from backends.images.vllm_omni import VllmOmni
from queueing.core.catalog import meant_or_all
from queueing.core.errors import BadModel, NotLoaded, ProblemKind, Rejected, problem
from queueing.core.ports import Fetch, Report, ServerInfo
from queueing.core.requests import Capability, Progress, Record, TextToImage, Work
from queueing.core.specs import BackendSpec, ModelSpec

IMAGE_FLAVOURS: Mapping[str, type[ImageFlavour]] = {
    flavour.name: flavour
    for flavour in (StableDiffusionCpp, LocalAi, SwarmUi, VllmOmni, ImageFlavour)
}
"""By the name in the option `flavour`, in detection order. A server that also answers the calls of
other flavours comes before them. `ImageFlavour` comes last.
"""


STRANGER = "no image server answers at this url"
CHECKED = (
    *("negative", "steps", "guidance", "sampler", "scheduler", "strength", "lora"),
    *("mask", "edit"),
)


class ImageServerOptions(Record):
    """A backend's settings.

    `flavour` is for a server that cannot be detected. `keep_metadata` leaves the server's metadata
    in the files that people receive.
    """

    token: SecretStr | None = None
    flavour: str = "auto"
    keep_metadata: bool = False

    @field_validator("flavour")
    @classmethod
    def _known(cls, name: str) -> str:
        if name != "auto" and name not in IMAGE_FLAVOURS:
            raise ValueError(f"unknown flavour; {meant_or_all(name, ('auto', *IMAGE_FLAVOURS))}")
        return name


class PainterOptions(Record):
    """A model's settings: its name on the server, and defaults for its requests."""

    model: str | None = None
    width: int | None = Field(default=None, ge=64, le=8192)
    height: int | None = Field(default=None, ge=64, le=8192)
    steps: int | None = Field(default=None, ge=1, le=200)
    guidance: float | None = Field(default=None, ge=0, le=100)
    negative: str | None = None


class Images(ServerBackend):
    """An image server; see `queueing.core.ports.Backend` for the contract."""

    rules = RULES
    noun = "an image server"
    settings = PainterOptions
    ports: ClassVar[tuple[int, ...]] = (
        7801,  # SwarmUI
        8091,  # vLLM-Omni
    )
    parallel: ClassVar[int] = 1

    capabilities = frozenset(
        {Capability.TEXT_TO_IMAGE, Capability.IMAGE_TO_IMAGE, Capability.IMAGE_EDIT}
    )

    def __init__(self, spec: BackendSpec) -> None:
        options = read_options(ImageServerOptions, spec.options, f"backends.{spec.name}")
        self._name = spec.name
        self._keep_metadata = options.keep_metadata
        self._http = Http(
            base_of(spec.url), headers=_token_headers(spec.name, options.token), proxy=spec.proxy
        )
        names = IMAGE_FLAVOURS if options.flavour == "auto" else (options.flavour,)
        flavours = [IMAGE_FLAVOURS[name]() for name in names]
        self._server: ModelServer[ImageFlavour, ListedPainter] = ModelServer(
            self._http, spec.name, flavours, stranger=STRANGER
        )

    @property
    def unloads_together(self) -> bool:
        """Whether unloading one model unloads all models of the server."""
        flavour = self._server.flavour
        return flavour is not None and flavour.frees_all

    def options(self, model: ModelSpec) -> frozenset[str] | None:  # noqa: ARG002 - the port's signature
        """Return the fields the server takes; before detection, those of all possible flavours."""
        return frozenset[str]().union(*(each.takes for each in self._server.possible()))

    def usual(self, model: ModelSpec) -> Mapping[str, float]:
        """Return the width, height and steps of its settings."""
        own = _options(model)
        named = {"width": own.width, "height": own.height, "steps": own.steps}
        return {name: value for name, value in named.items() if value is not None}

    async def probe(self) -> ServerInfo:
        """Identify the server, which may have changed since the last call."""
        with classified():
            flavour, description = await self._server.recognise()
            total_mb, free_mb = await flavour.memory(self._http) or (None, None)
        return ServerInfo(
            description=description,
            flavour=flavour.name,
            total_mb=total_mb,
            free_mb=free_mb,
            notes=flavour.notes(),
        )

    async def verify(self, model: ModelSpec) -> None:
        """Check that the server lists the model and that the model creates images."""
        self.check(model)
        with classified():
            served = await self._server.find(model)
        if served.draws is False:
            raise BadModel(f"models.{model.name}.model: {served.id} cannot create images")

    async def discover(self, known: Sequence[ModelSpec] = ()) -> tuple[ModelSpec, ...]:
        """Return every other model of the server that may create images, with a name to type."""
        with classified():
            flavour = await self._server.known()
            listed = await self._server.listed()
        offered = [served for served in listed.all if served.draws is not False]
        return tuple(
            ModelSpec(
                name=name,
                backends=(self._name,),
                capabilities=able(served.id, flavour),
                options={"model": served.id},
            )
            for name, served in listed.further(offered, known)
        )

    async def loras(self, model: ModelSpec) -> tuple[str, ...]:  # noqa: ARG002 - the port's signature
        """Return the names of the server's LoRAs."""
        with classified():
            flavour = await self._server.known()
            return lora_names(await flavour.loras(self._http))

    async def load(self, model: ModelSpec) -> None:
        """Load a model unless it is in memory; concurrent calls share one load."""
        with loading(), classified():
            await self._server.load(model, LoadWish())

    async def run(self, model: ModelSpec, work: Work, report: Report) -> Fetch:
        """Create images. Cancelling stops the work if the server can stop it."""
        with reasons_kept(), classified():
            flavour = await self._server.known()
            served = await self._server.find(model)
            request = _with_defaults(self._name, flavour, _options(model), work)
            if flavour.eager and served.loaded is False:
                # The request would load it without the scheduler's knowledge, or twice.
                raise NotLoaded(f"{served.id} is not in memory")
            order = await self._order(flavour, served, request, model, work)
            images = await flavour.draw(self._http, order, report)
        report(Progress(fraction=1.0))
        keep = self._keep_metadata
        return partial(collected, self._http, images, model.name, keep_metadata=keep)

    async def _order(
        self,
        flavour: ImageFlavour,
        served: ListedPainter,
        request: TextToImage,
        model: ModelSpec,
        work: Work,
    ) -> ImageRequest:
        paths = await flavour.loras(self._http) if request.lora else ()
        loras = tuple((lora_named(lora.name, paths), lora.weight) for lora in request.lora)
        sent = await asyncio.to_thread(prepared, request, work.files)
        own = _options(model)
        usual = (own.width, own.height) if own.width and own.height else None
        shape = sent.size if flavour.shapes else None
        limits = (model.timeouts.first_s, model.timeouts.idle_s, model.timeouts.total_s)
        return ImageRequest(
            model=served.id,
            request=request,
            size=size_of(request, None if sent.images and not shape else usual, shape),
            loras=loras,
            images=sent.images,
            mask=sent.mask,
            clear_mask=sent.clear_mask,
            # The job runner's own timeouts are tighter; this one detects a peer that vanished.
            silence_s=max((limit for limit in limits if limit is not None), default=None),
        )


def _with_defaults(
    server: str, flavour: ImageFlavour, own: PainterOptions, work: Work
) -> TextToImage:
    """Return the request with the model's defaults. Raises `Rejected` for unsupported fields."""
    request = work.request
    if not isinstance(request, TextToImage) or request.upscale:
        raise Rejected(f"{server} cannot do {request.kind}")
    for word in CHECKED:
        if word not in flavour.takes and not _unset(getattr(request, word)):
            raise _refused(ProblemKind.TAKES_NO, field=word)
    if request.edit and not work.files:
        raise _refused(ProblemKind.NEEDS_START)
    defaults = {"steps": own.steps, "guidance": own.guidance, "negative": own.negative}
    missing = {
        word: value
        for word, value in defaults.items()
        if value is not None and word in flavour.takes and getattr(request, word) is None
    }
    return request.model_copy(update=missing)


def _unset(value: object) -> bool:
    return value is None or value is False or value in {"", ()}


def _refused(what: ProblemKind, **values: str) -> Rejected:
    why = problem(what, **values)
    return Rejected(f"the image server: {why}", problem=why)


def _options(model: ModelSpec) -> PainterOptions:
    return read_options(PainterOptions, model.options, f"models.{model.name}")


def _token_headers(backend: str, token: SecretStr | None) -> dict[str, str]:
    """Return the headers for a token: a bearer token, and a cookie for SwarmUI."""
    headers = authorization(backend, token, without=' ;,"')
    return (
        headers
        if token is None
        else headers | {"Cookie": f"swarm_token={token.get_secret_value()}"}
    )
