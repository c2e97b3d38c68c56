"""Ollama, through its own API except for answers."""

from dataclasses import replace
from typing import ClassVar, TypedDict

from pydantic import JsonValue

from backends.common.http import Http
from backends.common.model_server import LoadWish
from backends.common.server_replies import ServerReply, ask, read
from backends.openai.flavours.flavour import (
    KEPT,
    SILENT,
    AudioForm,
    EmbeddingForm,
    Flavour,
    Served,
    in_mb,
)

UNLOADED = 0  # seconds; the value of `keep_alive` that unloads a model


class OllamaVersion(ServerReply):
    """GET /api/version; llama-swap also answers it and adds `build_date`."""

    version: str
    build_date: str | None = None


class OllamaModel(ServerReply):
    """An entry of /api/tags, or of /api/ps, which also reports the context; sizes in bytes.

    In /api/ps, `size` is the model's whole memory and `size_vram` its part on the GPU.
    """

    name: str
    model: str = ""
    size: int | None = None
    size_vram: int | None = None
    capabilities: tuple[str, ...] = ()
    context_length: int | None = None


class OllamaModels(ServerReply):
    """GET /api/tags and /api/ps."""

    models: tuple[OllamaModel, ...]


class OllamaShow(ServerReply):
    """POST /api/show."""

    capabilities: tuple[str, ...] = ()


class OllamaAbilities(TypedDict):
    """The fields of `Served` for a model's capabilities."""

    vision: bool | None
    chats: bool
    embeds: bool | None


class Ollama(Flavour):
    """Ollama, through its own API except for answers."""

    name: ClassVar[str] = "ollama"
    embedding: ClassVar[EmbeddingForm] = EmbeddingForm(path="/api/embed", own=True, tokens=False)
    prompt_tokens: ClassVar[bool] = False
    echoes: ClassVar[bool] = False
    extra: ClassVar[frozenset[str]] = frozenset({"reasoning_effort"})
    sounds: ClassVar[AudioForm] = SILENT
    eager: ClassVar[bool] = True
    can_unload: ClassVar[bool] = True
    stops_loads: ClassVar[bool] = True
    exact: ClassVar[bool] = True
    cuts: ClassVar[bool] = True
    note: ClassVar[str] = (
        "Ollama's context length is set in Ollama (OLLAMA_CONTEXT_LENGTH or a Modelfile), not here."
        " Usher refuses longer questions, which Ollama would cut."
    )

    async def describe(self, http: Http) -> str | None:
        """Detect it by /api/version; llama-swap also answers that, with a build date."""
        answer = await ask(http, "/api/version", OllamaVersion)
        return f"Ollama {answer.version}" if answer and answer.build_date is None else None

    async def served(self, http: Http) -> tuple[Served, ...]:
        """Return the downloaded models, marking those in memory."""
        tags = read(OllamaModels, await http.get_json("/api/tags")).models
        loaded = {model.name: model for model in await _resident(http)}
        return tuple(
            Served(
                id=model.name,
                names=frozenset({model.model}) - {""},
                loaded=model.name in loaded,
                context=loaded[model.name].context_length if model.name in loaded else None,
                size_mb=in_mb(model.size),
                taken_mb=_taken_mb(loaded[model.name]) if model.name in loaded else None,
                **_abilities(model.capabilities),
            )
            for model in tags
        )

    async def unlisted(self, http: Http) -> tuple[Served, ...]:
        """Return models that were deleted while loaded and are still in memory."""
        tags = read(OllamaModels, await http.get_json("/api/tags")).models
        names = {model.name for model in tags}
        return tuple(
            Served(id=model.name, loaded=True, taken_mb=_taken_mb(model))
            for model in await _resident(http)
            if model.name not in names
        )

    async def details(self, http: Http, served: Served) -> Served:
        """Add from /api/show whether it has vision, chats and embeds."""
        able = read(
            OllamaShow, await http.post_json("/api/show", {"model": served.id})
        ).capabilities
        told = _abilities(able)
        return replace(served, vision="vision" in able, chats=told["chats"], embeds=told["embeds"])

    async def load(self, http: Http, served: Served, wish: LoadWish) -> None:
        """Load the model, and return once it is loaded.

        It stays as long as Ollama's settings say, or without expiry if `kept`. Requests on /v1 do
        not change `keep_alive`.
        """
        able = served if served.embeds is not None else await self.details(http, served)
        path = "/api/generate" if able.chats else self.embedding.path  # each refuses the other
        await http.post_json(path, _keep(served, KEPT if wish.kept else None), timeout_s=None)

    async def unload(self, http: Http, served: Served) -> None:
        """Unload the model."""
        await http.post_json("/api/generate", _keep(served, UNLOADED), timeout_s=60.0)


async def _resident(http: Http) -> tuple[OllamaModel, ...]:
    return read(OllamaModels, await http.get_json("/api/ps")).models


def _taken_mb(model: OllamaModel) -> int | None:
    """Return a model's memory on the GPU, or in main memory if none of it is on a GPU."""
    return in_mb(model.size_vram or model.size)


def _abilities(able: tuple[str, ...]) -> OllamaAbilities:
    """Read Ollama's capabilities; in versions that report none, every model chats."""
    if not able:
        return {"vision": None, "chats": True, "embeds": None}
    embeds = "embedding" in able
    return {"vision": "vision" in able, "chats": "completion" in able, "embeds": embeds}


def _keep(served: Served, seconds: int | None) -> JsonValue:
    """Return an Ollama request without a prompt, which only loads or unloads."""
    lasting = {} if seconds is None else {"keep_alive": seconds}
    return {"model": served.id, "stream": False, **lasting}
