"""Ollama, through its own calls for everything but the answers."""

from dataclasses import replace
from typing import ClassVar, TypedDict

from pydantic import JsonValue

from backends.common.http import Http
from backends.common.model_server import LoadWish
from backends.common.server_replies import ServerReply, ask, read
from backends.openai.flavours.flavour import KEPT, SILENT, AudioForm, EmbeddingForm, Flavour, Served
from backends.openai.flavours.replies import in_mb

UNLOADED = 0  # seconds of Ollama's `keep_alive`


class OllamaVersion(ServerReply):
    """GET /api/version; llama-swap answers there too, and adds `build_date`."""

    version: str
    build_date: str | None = None


class OllamaModel(ServerReply):
    """An entry of /api/tags, or of /api/ps, which reports the context; sizes in bytes.

    There `size` is all that the model takes, and `size_vram` what of it is on the GPU.
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
    """The part of `Served` that says what a model can do."""

    vision: bool | None
    chats: bool
    embeds: bool | None


class Ollama(Flavour):
    """Ollama, through its own calls for everything but the answers."""

    name: ClassVar[str] = "ollama"
    embedding: ClassVar[EmbeddingForm] = EmbeddingForm(path="/api/embed", own=True, tokens=False)
    prompt_tokens: ClassVar[bool] = False
    echoes: ClassVar[bool] = False
    extra: ClassVar[frozenset[str]] = frozenset({"reasoning_effort"})
    sounds: ClassVar[AudioForm] = SILENT
    eager: ClassVar[bool] = True
    can_unload: ClassVar[bool] = True
    exact: ClassVar[bool] = True
    note: ClassVar[str] = (
        "Ollama's context length is set on its side (OLLAMA_CONTEXT_LENGTH or a Modelfile), not here."
    )

    async def describe(self, http: Http) -> str | None:
        """Detect it by /api/version; llama-swap answers there too, with a build date."""
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
        """Return models that were deleted while they were in memory, which they still are."""
        tags = read(OllamaModels, await http.get_json("/api/tags")).models
        names = {model.name for model in tags}
        return tuple(
            Served(id=model.name, loaded=True, taken_mb=_taken_mb(model))
            for model in await _resident(http)
            if model.name not in names
        )

    async def details(self, http: Http, served: Served) -> Served:
        """Add vision, and whether it writes at all, from /api/show."""
        able = read(
            OllamaShow, await http.post_json("/api/show", {"model": served.id})
        ).capabilities
        told = _abilities(able)
        return replace(served, vision="vision" in able, chats=told["chats"], embeds=told["embeds"])

    async def load(self, http: Http, served: Served, wish: LoadWish) -> None:
        """Load for as long as Ollama's own settings keep it, without expiry if it is to be `kept`.

        Returns when done. Requests on /v1 leave `keep_alive` alone.
        """
        able = served if served.embeds is not None else await self.details(http, served)
        path = "/api/generate" if able.chats else self.embedding.path  # refused by the other one
        await http.post_json(path, _keep(served, KEPT if wish.kept else None), timeout_s=None)

    async def unload(self, http: Http, served: Served) -> None:
        """Unload the model."""
        await http.post_json("/api/generate", _keep(served, UNLOADED), timeout_s=60.0)


async def _resident(http: Http) -> tuple[OllamaModel, ...]:
    return read(OllamaModels, await http.get_json("/api/ps")).models


def _taken_mb(model: OllamaModel) -> int | None:
    """Return what a model takes of the GPU, or of the machine where nothing of it is on one."""
    return in_mb(model.size_vram or model.size)


def _abilities(able: tuple[str, ...]) -> OllamaAbilities:
    """Read Ollama's capabilities; versions that report none serve models that write."""
    if not able:
        return {"vision": None, "chats": True, "embeds": None}
    embeds = "embedding" in able
    return {"vision": "vision" in able, "chats": "completion" in able, "embeds": embeds}


def _keep(served: Served, seconds: int | None) -> JsonValue:
    """Return an Ollama request without a prompt: it only loads or unloads."""
    lasting = {} if seconds is None else {"keep_alive": seconds}
    return {"model": served.id, "stream": False, **lasting}
