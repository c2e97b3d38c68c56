"""`GET /v1/models`: models in OpenAI's format, with fields that Usher adds."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

from queueing.core.status import Readiness

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
