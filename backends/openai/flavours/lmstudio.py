"""LM Studio, which loads and unloads on command (0.4) or only on request (0.3).

This module contains LM Studio's control calls. There are two traps: loading a loaded model creates
a second copy, and errors arrive with status 200.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from backends.common.http import Http
from backends.common.model_server import LoadWish
from backends.common.server_replies import ServerReply, ask, read
from backends.openai.flavours.errors import NOT_ON_REQUEST, classified
from backends.openai.flavours.flavour import (
    SILENT,
    AudioForm,
    Chunk,
    EmbeddingForm,
    Flavour,
    Listing,
    Served,
    in_mb,
)
from queueing.core.errors import BadModel, NotLoaded, UnreadableAnswer

if TYPE_CHECKING:
    from pydantic import JsonValue

EXTRA = frozenset({"top_k", "min_p", "repeat_penalty", "reasoning_effort"})
JIT_OFF = (
    "LM Studio does not load models on request: switch on 'Just-in-time model loading' in its "
    "developer settings, or load them there"
)
API_LOAD_PARALLEL = 4  # an API load always gets four slots


# ---------------------------------------------------------------- what LM Studio answers


class Instance(ServerReply):
    """A copy in memory; `parallel` is the number of answers it writes at once."""

    class Settings(ServerReply):
        """The settings it was loaded with."""

        context_length: int | None = None
        parallel: int | None = None

    id: str
    config: Settings = Settings()


class Downloaded(ServerReply):
    """An entry of /api/v1/models; loaded if and only if it has instances."""

    class Abilities(ServerReply):
        """What it accepts in addition to text."""

        vision: bool = False

    type: str
    key: str
    size_bytes: int | None = None
    loaded_instances: tuple[Instance, ...] = ()
    capabilities: Abilities | None = None
    variants: tuple[str, ...] | None = None


class Library(ServerReply):
    """GET /api/v1/models."""

    models: tuple[Downloaded, ...]


class OldEntry(ServerReply):
    """An entry of /api/v0/models; vision models have the type "vlm"."""

    id: str
    type: str
    state: str
    loaded_context_length: int | None = None


class OldLibrary(ServerReply):
    """GET /api/v0/models."""

    data: tuple[OldEntry, ...]


class LoadedAs(ServerReply):
    """POST /api/v1/models/load."""

    instance_id: str


# ---------------------------------------------------------------- the two generations


class _LMStudioFlavour(Flavour):
    """What both generations have in common."""

    embedding: ClassVar[EmbeddingForm] = EmbeddingForm(tokens=False)
    suffix_path: ClassVar[str | None] = None
    prompt_tokens: ClassVar[bool] = False
    echoes: ClassVar[bool] = False
    extra: ClassVar[frozenset[str]] = EXTRA
    json_object: ClassVar[bool] = False
    sounds: ClassVar[AudioForm] = SILENT
    exact: ClassVar[bool] = True
    eager: ClassVar[bool] = True
    cuts: ClassVar[bool] = True  # the middle of a question, or sends an empty answer


class LMStudio4(_LMStudioFlavour):
    """LM Studio 0.4 and newer, through its REST API v1."""

    name: ClassVar[str] = "lmstudio"
    can_unload: ClassVar[bool] = True
    note: ClassVar[str] = ""

    async def describe(self, http: Http) -> str | None:
        """Detect it by its API v1 model list; no HTTP answer contains the exact version."""
        return "LM Studio (0.4 or newer)" if await ask(http, "/api/v1/models", Library) else None

    async def served(self, http: Http) -> tuple[Served, ...]:
        """Return all downloaded models."""
        library = read(Library, await http.get_json("/api/v1/models"))
        return tuple(_served(entry) for entry in library.models)

    async def load(self, http: Http, served: Served, wish: LoadWish) -> None:
        """Load a copy and return when it is usable.

        If another program has loaded the model during this load, this copy is unloaded again,
        because two copies take twice the memory.
        """
        body: dict[str, JsonValue] = {"model": served.id}
        if wish.context_length is not None:
            body["context_length"] = wish.context_length
        ours = read(LoadedAs, await http.post_json("/api/v1/models/load", body, timeout_s=None))
        now = next((each for each in await self.served(http) if each.id == served.id), served)
        if len(now.instances) > 1 and ours.instance_id in now.instances:
            await self.unload(http, replace(now, instances=(ours.instance_id,)))

    async def unload(self, http: Http, served: Served) -> None:
        """Unload every copy by its instance name; the model's name does not work."""
        for instance in served.instances:
            read(LoadedAs, await http.post_json("/api/v1/models/unload", {"instance_id": instance}))


class LMStudio3(_LMStudioFlavour):
    """LM Studio 0.3.6 to 0.3.x: lists models through REST API v0, loads only on a request."""

    name: ClassVar[str] = "lmstudio-0.3"
    note: ClassVar[str] = (
        "LM Studio older than 0.4 cannot unload over HTTP: a model stays until LM Studio's idle timer "
        "ends (see idle_unload_s), and other models on that GPU wait until then. Turn off 'Only keep "
        "last JIT loaded model' there, because it breaks off answers; or update to 0.4."
    )

    def __init__(self, idle_unload_s: int | None = None) -> None:
        self._expiry: dict[str, JsonValue] = {} if idle_unload_s is None else {"ttl": idle_unload_s}

    async def describe(self, http: Http) -> str | None:
        """Detect it by its API v0 model list, whose entries have a state."""
        return "LM Studio 0.3" if await ask(http, "/api/v0/models", OldLibrary) else None

    async def notes(self, http: Http) -> tuple[str, ...]:
        """Return what it costs, and whether it loads nothing: then /v1/models lists less."""
        listed = await ask(http, "/v1/models", Listing)
        if listed is None:
            return (self.note,)
        offered = {entry.id for entry in listed.data}
        absent = {each.id for each in await self.served(http) if not each.loaded}
        return (self.note,) if absent <= offered else (self.note, f"{JIT_OFF}.")

    async def served(self, http: Http) -> tuple[Served, ...]:
        """Return all downloaded models; 0.3 answers one request at a time."""
        library = read(OldLibrary, await http.get_json("/api/v0/models"))
        return tuple(
            Served(
                id=entry.id,
                loaded=entry.state == "loaded",
                vision=entry.type == "vlm",
                chats=entry.type != "embeddings",
                embeds=entry.type == "embeddings",
                parallel=1,
                context=entry.loaded_context_length,
            )
            for entry in library.data
        )

    async def load(self, http: Http, served: Served, wish: LoadWish) -> None:  # noqa: ARG002 - set in the app
        """Load with the smallest possible request; the caller's lock prevents a concurrent load.

        Raises `BadModel` if it loads nothing on request, which only its owner can change.
        """
        try:
            with classified():
                await self._first_request(http, served)
        except NotLoaded as error:
            if error.problem != NOT_ON_REQUEST:
                raise
            raise BadModel(f"{JIT_OFF} ({error})", problem=NOT_ON_REQUEST) from error

    async def _first_request(self, http: Http, served: Served) -> None:
        body: dict[str, JsonValue] = {"model": served.id, **self._expiry}
        if served.embeds:
            body["input"] = "hi"
            read(ServerReply, await http.post_json(self.embedding.path, body, timeout_s=None))
            return
        body |= {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
        answer = read(Chunk, await http.post_json(self.chat_path, body, timeout_s=None))
        if not answer.choices:
            raise UnreadableAnswer(
                f"LM Studio sent an empty answer to the first request to {served.id}"
            )


def _served(entry: Downloaded) -> Served:
    instances = tuple(instance.id for instance in entry.loaded_instances)
    settings = [instance.config for instance in entry.loaded_instances]
    slots = [each.parallel for each in settings if each.parallel]
    contexts = [each.context_length for each in settings if each.context_length]
    return Served(
        id=entry.key,
        names=frozenset((*instances, *(entry.variants or ()))),
        loaded=bool(instances),
        vision=bool(entry.capabilities and entry.capabilities.vision),
        chats=entry.type == "llm",
        embeds=entry.type == "embedding",
        parallel=min(slots, default=API_LOAD_PARALLEL),
        context=min(contexts, default=None),
        size_mb=in_mb(entry.size_bytes),
        instances=instances,
    )
