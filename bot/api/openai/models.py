"""`GET /v1/models`: a model as clients read it, and what Usher knows of it besides."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

from queueing.core.status import Readiness

Modality = Literal["text", "image", "audio"]


class Architecture(BaseModel):
    """What a model takes and makes, in the words of llama-server."""

    model_config = ConfigDict(frozen=True)

    input_modalities: tuple[Modality, ...]
    output_modalities: tuple[str, ...]


class ModelExtras(BaseModel):
    """What Usher adds to a model: its own name, its abilities, its queue and its usual time."""

    model_config = ConfigDict(frozen=True)

    model: str
    capabilities: tuple[str, ...]
    resident: bool
    state: Readiness
    waiting: int
    running: int
    usually_s: float | None


class ModelRow(BaseModel):
    """A model under one of its names."""

    model_config = ConfigDict(frozen=True)

    id: str
    object: Literal["model"] = "model"
    created: int = 0  # clients sort by it; a model's age is unknown
    owned_by: str = "usher"
    architecture: Architecture
    usher: ModelExtras


class ModelRows(BaseModel):
    """All models, each under every name."""

    model_config = ConfigDict(frozen=True)

    object: Literal["list"] = "list"
    data: tuple[ModelRow, ...]


class AudioModel(BaseModel):
    """The name of a model that speaks or writes down."""

    model_config = ConfigDict(frozen=True)

    id: str


class AudioModels(BaseModel):
    """All of them."""

    model_config = ConfigDict(frozen=True)

    models: tuple[AudioModel, ...]


class Voices(BaseModel):
    """The voices that are known by name."""

    model_config = ConfigDict(frozen=True)

    voices: tuple[str, ...] = ()


class ApiHealth(BaseModel):
    """What `/health` answers."""

    model_config = ConfigDict(frozen=True)

    status: Literal["ok"] = "ok"
