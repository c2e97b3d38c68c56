"""`GET /v1/models`: the models, in the format that every client reads."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from aiohttp import web
from pydantic import BaseModel, ConfigDict

from bot.api.calls.bodies import json_response
from bot.api.calls.callers import Caller
from bot.api.calls.errors import refused
from bot.core.asker import Asker
from bot.core.queue import QueueStatus
from bot.core.refusals import refusal_of
from bot.people.api_keys import PLATFORM
from bot.requests.admission import AdmissionService
from queueing.core.catalog import Catalog
from queueing.core.errors import UnknownModel
from queueing.core.requests import Capability
from queueing.core.snapshot import Residency
from queueing.core.specs import ModelSpec
from queueing.core.status import ModelStatus, Readiness

Modality = Literal["text", "image", "audio"]


class Architecture(BaseModel):
    """A model's inputs and outputs, in llama-server's format."""

    model_config = ConfigDict(frozen=True)

    input_modalities: tuple[Modality, ...]
    output_modalities: tuple[str, ...]


class ModelExtras(BaseModel):
    """Fields that Usher adds: the main name, capabilities, queue and usual time of the model."""

    model_config = ConfigDict(frozen=True)

    model: str
    capabilities: tuple[str, ...]
    resident: bool
    state: Readiness
    waiting: int
    running: int
    usually_s: float | None


class ModelRow(BaseModel):
    """A model, listed under one of its names."""

    model_config = ConfigDict(frozen=True)

    id: str
    object: Literal["model"] = "model"
    created: int = 0  # clients sort by it, but the model's age is unknown
    owned_by: str = "usher"
    architecture: Architecture
    usher: ModelExtras


class ModelRows(BaseModel):
    """All models. Each is listed once under each of its names."""

    model_config = ConfigDict(frozen=True)

    object: Literal["list"] = "list"
    data: tuple[ModelRow, ...]


class AudioModel(BaseModel):
    """The name of a model that speaks or transcribes."""

    model_config = ConfigDict(frozen=True)

    id: str


class AudioModels(BaseModel):
    """All models that speak or transcribe."""

    model_config = ConfigDict(frozen=True)

    models: tuple[AudioModel, ...]


class Voices(BaseModel):
    """The known voices."""

    model_config = ConfigDict(frozen=True)

    voices: tuple[str, ...] = ()


class ApiHealth(BaseModel):
    """The response of `/health`."""

    model_config = ConfigDict(frozen=True)

    status: Literal["ok"] = "ok"


_TAKES_AND_MAKES: Mapping[Capability, tuple[tuple[Modality, ...], str]] = {
    Capability.TEXT_TO_IMAGE: (("text",), "image"),
    Capability.IMAGE_TO_IMAGE: (("text", "image"), "image"),
    Capability.IMAGE_EDIT: (("text", "image"), "image"),
    Capability.UPSCALE: (("image",), "image"),
    Capability.TEXT_TO_TEXT: (("text",), "text"),
    Capability.VISION: (("text", "image"), "text"),
    Capability.TEXT_TO_VIDEO: (("text",), "video"),
    Capability.IMAGE_TO_VIDEO: (("text", "image"), "video"),
    Capability.TEXT_TO_AUDIO: (("text",), "audio"),
    Capability.TEXT_TO_SPEECH: (("text",), "audio"),
    Capability.SPEECH_TO_TEXT: (("audio",), "text"),
    Capability.EMBEDDING: (("text",), "embeddings"),
    Capability.IMAGE_EMBEDDING: (("text", "image"), "embeddings"),
}
AUDIO = (Capability.TEXT_TO_SPEECH, Capability.SPEECH_TO_TEXT)
_MODALITIES: tuple[Modality, ...] = ("text", "image", "audio")


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelsRoute:
    """Serves the list of models from memory, without querying servers."""

    admission: AdmissionService
    status: QueueStatus

    async def all(self, _request: web.Request, caller: Caller) -> web.Response:
        """Return every model that the caller may use, under each of its names."""
        return json_response(ModelRows(data=self._rows(self._of(caller.asker))))

    async def audio(self, _request: web.Request) -> web.Response:
        """Return the models that speak or transcribe. Open WebUI requests them without a key.

        Lists only the models that people without roles may use.
        """
        catalog = self._of(Asker(user="", rooms=(PLATFORM,)))
        names = (name for able in AUDIO for name in catalog.able(able))
        return json_response(AudioModels(models=tuple(AudioModel(id=name) for name in names)))

    async def voices(self, _request: web.Request) -> web.Response:
        """Return no voices: a model uses its default unless a call names another."""
        return json_response(Voices())

    async def health(self, _request: web.Request) -> web.Response:
        """Report that the API is up, for health checks."""
        return json_response(ApiHealth())

    async def one(self, request: web.Request, caller: Caller) -> web.Response:
        """Return one model. Raises `ApiError`."""
        name, catalog = request.match_info["name"], self._of(caller.asker)
        try:
            spec = catalog.named(name)
        except UnknownModel as unknown:
            raise refused(refusal_of(unknown, tuple(catalog.models)), 0.0) from None
        statuses = self.status.snapshot().models
        return json_response(_row(name, spec, next(s for s in statuses if s.name == spec.name)))

    def _of(self, asker: Asker) -> Catalog:
        return self.admission.of(asker).catalog

    def _rows(self, catalog: Catalog) -> tuple[ModelRow, ...]:
        statuses = {status.name: status for status in self.status.snapshot().models}
        return tuple(
            _row(name, spec, statuses[spec.name])
            for spec in catalog.models.values()
            for name in (spec.name, *spec.aliases)
        )


def _row(name: str, spec: ModelSpec, status: ModelStatus) -> ModelRow:
    known = [_TAKES_AND_MAKES[able] for able in spec.capabilities]
    taken = {each for takes, _ in known for each in takes}
    return ModelRow(
        id=name,
        architecture=Architecture(
            input_modalities=tuple(each for each in _MODALITIES if each in taken),
            output_modalities=tuple(sorted({makes for _, makes in known})),
        ),
        usher=ModelExtras(
            model=spec.name,
            capabilities=tuple(sorted(str(able) for able in spec.capabilities)),
            resident=any(copy.residency is Residency.READY for copy in status.copies),
            state=status.readiness,
            waiting=status.waiting,
            running=status.running,
            usually_s=None if status.service_s is None else round(status.service_s, 1),
        ),
    )
