"""llama.cpp's server and router, llama-cpp-python's server, and llama-swap."""

from dataclasses import replace
from typing import ClassVar
from urllib.parse import quote

from pydantic import JsonValue

from backends.common.http import Http
from backends.common.http_replies import BadStatus
from backends.common.model_server import LoadWish
from backends.common.server_replies import BUSY, ServerReply, ask, read
from backends.openai.flavours.flavour import (
    SILENT,
    AudioForm,
    EmbeddingForm,
    Flavour,
    ImageForm,
    Listed,
    Listing,
    Served,
    in_mb,
    listing,
    post_settled,
)

HEARS = AudioForm(
    translations=None,
    speech=None,
    segments=False,
    words="Transcribe audio to text. These words may occur: {}",  # replaces its own prompt
    tokens="max_tokens",
)
SAMPLERS = frozenset(
    {
        "top_k",
        "min_p",
        "typical_p",
        "repeat_penalty",
        "repeat_last_n",
        "cache_prompt",
        "reasoning_effort",
        "chat_template_kwargs",
        "grammar",
        "json_schema",
    }
)
DECODED = frozenset({"JPEG", "PNG"})  # its image library cannot read WebP


class Props(ServerReply):
    """GET /props of llama.cpp; `role` is "router" if one process serves many models.

    A router keeps at most `max_instances` models loaded; 0 means any number.
    """

    class Modalities(ServerReply):
        """What it accepts in addition to text."""

        vision: bool = False
        audio: bool = False

    default_generation_settings: JsonValue
    role: str | None = None
    max_instances: int | None = None
    build_info: str = ""
    total_slots: int | None = None
    modalities: Modalities = Modalities()


class LlamaCpp(Flavour):
    """llama.cpp started with one model, which writes text, or embeds with `--embeddings`."""

    name: ClassVar[str] = "llamacpp"
    embedding: ClassVar[EmbeddingForm] = EmbeddingForm(images=ImageForm.MEDIA)
    suffix_path: ClassVar[str | None] = "/infill"
    echoes: ClassVar[bool] = False
    extra: ClassVar[frozenset[str]] = SAMPLERS
    images: ClassVar[frozenset[str]] = DECODED
    exact: ClassVar[bool] = True
    sounds: ClassVar[AudioForm] = HEARS
    note: ClassVar[str] = (
        "This llama-server keeps its model loaded. Started without a model (router mode), it could "
        "load and unload models."
    )

    async def describe(self, http: Http) -> str | None:
        """Detect it by /props."""
        props = await ask(http, "/props", Props)
        return f"llama.cpp {props.build_info}".strip() if props and props.role != "router" else None

    async def served(self, http: Http) -> tuple[Served, ...]:
        """Return the one model. Until it is ready, the server answers 503 to every call."""
        return tuple(
            Served(
                id=entry.id,
                names=frozenset(entry.aliases or ()),
                loaded=True,
                context=entry.meta.n_ctx,
                size_mb=in_mb(entry.meta.size),
            )
            for entry in await listing(http)
        )

    async def details(self, http: Http, served: Served) -> Served:
        """Add slots, vision and hearing from /props, and test with a call whether it embeds."""
        props = read(Props, await http.get_json("/props"))
        embeds, vision = await _embeds(http), props.modalities.vision
        return replace(
            served,
            chats=not embeds,
            vision=vision,
            embeds=embeds,
            embeds_images=vision,
            hears=props.modalities.audio and not embeds,
            parallel=props.total_slots,
        )


class LlamaCppPython(Flavour):
    """llama-cpp-python's own server: one model, one answer at a time.

    A second request interrupts the first, whose answer then ends without a finish reason.
    """

    name: ClassVar[str] = "llama-cpp-python"
    embedding: ClassVar[EmbeddingForm] = EmbeddingForm(tokens=False)
    prompt_tokens: ClassVar[bool] = False
    interrupts: ClassVar[bool] = True
    sounds: ClassVar[AudioForm] = SILENT
    extra: ClassVar[frozenset[str]] = frozenset({"top_k", "min_p", "typical_p", "repeat_penalty"})
    text_parts: ClassVar[bool] = False  # its chat templates would print the list
    note: ClassVar[str] = (
        "llama-cpp-python breaks off an answer when the next request arrives. Set `parallel: 1` for "
        "this backend and let nothing else use it, or use llama-server."
    )

    async def describe(self, http: Http) -> str | None:
        """Detect it by `owned_by` in its model list."""
        listed = await ask(http, "/v1/models", Listing)
        ours = listed is not None and any(entry.owned_by == "me" for entry in listed.data)
        return "llama-cpp-python" if ours else None

    async def served(self, http: Http) -> tuple[Served, ...]:
        """Return the models it was started with; the one requested last is in memory."""
        return tuple(Served(id=entry.id, parallel=1) for entry in await listing(http))


class LlamaCppRouter(Flavour):
    """llama.cpp started without a model: it starts a process for each model on demand.

    Never call its /props?model=X, which loads X (observed with build 0c1e570).
    """

    name: ClassVar[str] = "llamacpp-router"
    embedding: ClassVar[EmbeddingForm] = EmbeddingForm(
        path="/v1/embeddings?autoload=false", images=ImageForm.MEDIA
    )
    extra: ClassVar[frozenset[str]] = SAMPLERS
    images: ClassVar[frozenset[str]] = DECODED
    can_unload: ClassVar[bool] = True
    stops_loads: ClassVar[bool] = True
    exact: ClassVar[bool] = True
    chat_path: ClassVar[str] = "/v1/chat/completions?autoload=false"  # Usher plans the loads
    text_path: ClassVar[str] = "/v1/completions?autoload=false"
    suffix_path: ClassVar[str | None] = "/infill?autoload=false"
    echoes: ClassVar[bool] = False
    sounds: ClassVar[AudioForm] = replace(
        HEARS, transcriptions="/v1/audio/transcriptions?autoload=false"
    )
    note: ClassVar[str] = (
        "This router unloads models by itself above --models-max (default 4). Start it with "
        "--models-max 0 so that only Usher decides what stays loaded."
    )

    async def describe(self, http: Http) -> str | None:
        """Detect it by its role in /props."""
        props = await ask(http, "/props", Props)
        return f"llama.cpp router {props.build_info}" if props and props.role == "router" else None

    async def notes(self, http: Http) -> tuple[str, ...]:
        """Return a note for the operator, unless the router was started as the note recommends."""
        props = await ask(http, "/props", Props)
        return () if props and props.max_instances == 0 else await super().notes(http)

    async def served(self, http: Http) -> tuple[Served, ...]:
        """Return all models with their state; "sleeping" ones wake on a request."""
        return tuple(
            Served(
                id=entry.id,
                names=frozenset(entry.aliases or ()),
                loaded=_router_loaded(entry),
                failed=_router_failure(entry),
                vision="image" in entry.architecture.input_modalities
                if entry.architecture
                else False,
                hears="audio" in entry.architecture.input_modalities
                if entry.architecture
                else False,
                context=entry.meta.n_ctx,
                size_mb=in_mb(entry.meta.size),
            )
            for entry in await listing(http)
        )

    async def load(self, http: Http, served: Served, wish: LoadWish) -> None:  # noqa: ARG002 - set in its presets
        """Request the load; the server answers at once."""
        await post_settled(http, "/models/load", {"model": served.id}, "already")

    async def unload(self, http: Http, served: Served) -> None:
        """Request the unload; the server answers at once."""
        await post_settled(http, "/models/unload", {"model": served.id}, "not running")


async def _embeds(http: Http) -> bool:
    """Return whether a llama.cpp server was started for embeddings, so that it cannot chat."""
    try:
        await http.post_json(Flavour.embedding.path, {"input": "a"})
    except BadStatus as error:
        if error.status in BUSY:
            raise
        return False
    return True


def _router_loaded(entry: Listed) -> bool:
    return entry.status is not None and entry.status.value in {"loaded", "sleeping"}


def _router_failure(entry: Listed) -> str | None:
    status = entry.status
    if status is None or not status.failed:
        return None
    return f"its process ended with exit code {status.exit_code}; see llama-server's log"


class Running(ServerReply):
    """GET /running of llama-swap."""

    class Process(ServerReply):
        """One upstream; its command is never shown because it contains paths."""

        model: str
        state: str

    running: tuple[Process, ...]


class LlamaSwap(Flavour):
    """llama-swap: starts and stops other servers; a request for a model may stop another one."""

    name: ClassVar[str] = "llamaswap"
    suffix_path: ClassVar[str | None] = "/infill"
    extra: ClassVar[frozenset[str]] = SAMPLERS
    images: ClassVar[frozenset[str]] = DECODED
    eager: ClassVar[bool] = True
    can_unload: ClassVar[bool] = True
    note: ClassVar[str] = (
        "llama-swap stops a model by itself when another one starts, unless its `groups` or `matrix` "
        "let them run together. Give it a separate host."
    )

    async def describe(self, http: Http) -> str | None:
        """Detect it by /running."""
        return "llama-swap" if await ask(http, "/running", Running) else None

    async def served(self, http: Http) -> tuple[Served, ...]:
        """Return the configured models, marking those that are ready."""
        states = {p.model: p.state for p in read(Running, await http.get_json("/running")).running}
        return tuple(
            Served(id=entry.id, loaded=states.get(entry.id) == "ready")
            for entry in await listing(http)
        )

    async def load(self, http: Http, served: Served, wish: LoadWish) -> None:  # noqa: ARG002 - set in its configuration
        """Start the model's server with a proxied call; returns when it is up."""
        await http.get_json(f"/upstream/{quote(served.id)}/v1/models", timeout_s=3600.0)

    async def unload(self, http: Http, served: Served) -> None:
        """Stop the model's server."""
        await post_settled(http, f"/api/models/unload/{quote(served.id)}", None, "not found")
