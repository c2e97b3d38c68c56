"""What OpenAI-compatible servers do each in their own way: list, load, unload, say who they are.

A flavour speaks only these control calls; answering is the same everywhere and lives in
`openai.py`. Flavours keep nothing: what is loaded is asked, not remembered.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, TypedDict
from urllib.parse import quote

from pydantic import JsonValue

from backends.http import Http, HttpFailed, HttpRefused
from backends.llm_replies import (
    Listed,
    Listing,
    OllamaModels,
    OllamaShow,
    Props,
    Running,
    Version,
    ask,
    listing,
    read,
)

MB = 1024 * 1024
SUFFIX = re.compile(r"(:latest|:\d+|@[\w-]+|\.gguf)$")  # tag, LM Studio's instance or variant, file


@dataclass(frozen=True, kw_only=True, slots=True)
class Served:
    """A model as its server lists it.

    `names` are all names it answers to, `instances` its copies where they have names. `failed` is
    why its last load failed; `parallel` how many answers one copy writes at once, `size_mb` the
    size of its weights. None means that the server does not tell.
    """

    id: str
    names: frozenset[str] = frozenset()
    loaded: bool | None = None
    failed: str | None = None
    vision: bool | None = None
    chats: bool = True
    parallel: int | None = None
    size_mb: int | None = None
    instances: tuple[str, ...] = ()


class Names:
    """Finds a listed model by a name: exactly, else without what does not tell models apart."""

    def __init__(self, listed: Iterable[Served]) -> None:
        known = [(name, served) for served in listed for name in (served.id, *served.names)]
        self._by_name = {plain(name): served for name, served in known} | dict(known)

    def find(self, name: str) -> Served | None:
        """Return the model of that name, or None."""
        return self._by_name.get(name) or self._by_name.get(plain(name))


def plain(name: str) -> str:
    """Return a name as it is compared: no folder, no case, no suffix that means the same model."""
    return SUFFIX.sub("", name.rpartition("/")[2].casefold())


class Abilities(TypedDict):
    """The part of `Served` that says what a model can do."""

    vision: bool | None
    chats: bool


class Flavour(Protocol):
    """One kind of server. Methods raise `BackendError`s as `Http` does, `OutOfMemory` in `load`.

    `load` and `unload` only ask: the caller holds the model's lock, has looked first, and watches
    `served` until it is so.
    """

    name: ClassVar[str]
    can_load: ClassVar[bool]
    can_unload: ClassVar[bool]
    exact: ClassVar[bool]  # its answers name the model that was asked for, so others are faults
    eager: ClassVar[bool]  # a request loads what is not loaded, and may evict for it
    chat_path: ClassVar[str]
    note: ClassVar[str]  # what an operator should know, for `usher check`

    async def describe(self, http: Http) -> str | None:
        """Return the server's name and version, or None when it is not of this flavour."""

    async def served(self, http: Http) -> tuple[Served, ...]:
        """Return what the server has; cheap, asked often."""

    async def details(self, http: Http, served: Served) -> Served:
        """Return an entry completed by what costs a call of its own (vision)."""

    async def load(self, http: Http, served: Served, context_length: int | None) -> None:
        """Ask for a load; may return before it is done."""

    async def unload(self, http: Http, served: Served) -> None:
        """Ask for every copy to leave; may return before they have."""


class Generic:
    """Any compatible server: it lists, it answers, nothing else is known of it."""

    name: ClassVar[str] = "generic"
    can_load: ClassVar[bool] = False
    can_unload: ClassVar[bool] = False
    exact: ClassVar[bool] = False
    eager: ClassVar[bool] = False
    chat_path: ClassVar[str] = "/v1/chat/completions"
    note: ClassVar[str] = (
        "This server cannot be told to load or unload, and does not say what is in memory."
    )

    async def describe(self, http: Http) -> str | None:
        """Return a name for anything that lists its models."""
        return "OpenAI-compatible server" if await ask(http, "/v1/models", Listing) else None

    async def served(self, http: Http) -> tuple[Served, ...]:
        """Return the list, without knowing what is loaded."""
        return tuple(Served(id=entry.id) for entry in await listing(http))

    async def details(self, http: Http, served: Served) -> Served:  # noqa: ARG002 - the protocol's signature
        """Return the entry: nothing more can be asked."""
        return served

    async def load(self, http: Http, served: Served, context_length: int | None) -> None:
        """Do nothing: the server loads when it wants."""

    async def unload(self, http: Http, served: Served) -> None:
        """Do nothing: the server cannot be told."""


class VLlm(Generic):
    """vLLM: one model a process, there from its start to its end."""

    name: ClassVar[str] = "vllm"
    exact: ClassVar[bool] = True
    note: ClassVar[str] = (
        "vLLM keeps its model as long as it runs: its memory is never free for other models."
    )

    async def describe(self, http: Http) -> str | None:
        """Know it by /version."""
        answer = await ask(http, "/version", Version)
        return f"vLLM {answer.version}" if answer else None

    async def served(self, http: Http) -> tuple[Served, ...]:
        """Return the list; all of it is loaded."""
        return tuple(Served(id=entry.id, loaded=True) for entry in await listing(http))


class LlamaCpp(Generic):
    """llama.cpp with one model, given at its start."""

    name: ClassVar[str] = "llamacpp"
    exact: ClassVar[bool] = True
    note: ClassVar[str] = (
        "This llama-server keeps its model as long as it runs; started without a model it could "
        "load and unload (router mode)."
    )

    async def describe(self, http: Http) -> str | None:
        """Know it by /props."""
        props = await ask(http, "/props", Props)
        return f"llama.cpp {props.build_info}".strip() if props and props.role != "router" else None

    async def served(self, http: Http) -> tuple[Served, ...]:
        """Return the one model; it lists it before it is ready."""
        ready = await _healthy(http)
        return tuple(
            Served(
                id=entry.id,
                names=frozenset(entry.aliases or ()),
                loaded=ready,
                size_mb=_mb(entry.meta.size if entry.meta else None),
            )
            for entry in await listing(http)
        )

    async def details(self, http: Http, served: Served) -> Served:
        """Add slots and vision from /props."""
        props = read(Props, await http.get_json("/props"))
        return replace(served, vision=props.modalities.vision, parallel=props.total_slots)


class LlamaCppPython(Generic):
    """llama-cpp-python's own server: one model, one answer at a time.

    A second request cuts the first one off, which then ends without a reason.
    """

    name: ClassVar[str] = "llama-cpp-python"
    note: ClassVar[str] = (
        "llama-cpp-python cuts an answer off when the next request comes: set `parallel: 1` for "
        "this backend, and let nobody else use it; or use llama-server."
    )

    async def describe(self, http: Http) -> str | None:
        """Know it by the owner it names."""
        listed = await ask(http, "/v1/models", Listing)
        ours = listed is not None and any(entry.owned_by == "me" for entry in listed.data)
        return "llama-cpp-python" if ours else None

    async def served(self, http: Http) -> tuple[Served, ...]:
        """Return what it was started with; the model asked last is in memory."""
        return tuple(Served(id=entry.id, parallel=1) for entry in await listing(http))


class LlamaCppRouter(Generic):
    """llama.cpp without a model of its own: it starts a process for each model on demand.

    Its /props?model=X loads X (seen with build 0c1e570), so that is never asked.
    """

    name: ClassVar[str] = "llamacpp-router"
    can_load: ClassVar[bool] = True
    can_unload: ClassVar[bool] = True
    exact: ClassVar[bool] = True
    chat_path: ClassVar[str] = (
        "/v1/chat/completions?autoload=false"  # loads are the queue's to plan
    )
    note: ClassVar[str] = ""

    async def describe(self, http: Http) -> str | None:
        """Know it by its role in /props."""
        props = await ask(http, "/props", Props)
        return f"llama.cpp router {props.build_info}" if props and props.role == "router" else None

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
                size_mb=_mb(entry.meta.size if entry.meta else None),
            )
            for entry in await listing(http)
        )

    async def load(self, http: Http, served: Served, context_length: int | None) -> None:  # noqa: ARG002 - set in its presets
        """Ask for the load, which answers at once."""
        await _tolerant_post(http, "/models/load", {"model": served.id}, "already")

    async def unload(self, http: Http, served: Served) -> None:
        """Ask for the unload, which answers at once too."""
        await _tolerant_post(http, "/models/unload", {"model": served.id}, "not running")


class Ollama(Generic):
    """Ollama, through its own calls for everything but the answers."""

    name: ClassVar[str] = "ollama"
    eager: ClassVar[bool] = True
    can_load: ClassVar[bool] = True
    can_unload: ClassVar[bool] = True
    exact: ClassVar[bool] = True
    note: ClassVar[str] = (
        "Ollama's context length is set on its side (OLLAMA_CONTEXT_LENGTH or a Modelfile); longer "
        "conversations are cut there without a word."
    )

    async def describe(self, http: Http) -> str | None:
        """Know it by /api/version; llama-swap answers there too, with a build date."""
        answer = await ask(http, "/api/version", Version)
        return f"Ollama {answer.version}" if answer and answer.build_date is None else None

    async def served(self, http: Http) -> tuple[Served, ...]:
        """Return what is downloaded, marked by what is in memory."""
        tags = read(OllamaModels, await http.get_json("/api/tags")).models
        loaded = {m.name for m in read(OllamaModels, await http.get_json("/api/ps")).models}
        return tuple(
            Served(
                id=model.name,
                names=frozenset({model.model}) - {""},
                loaded=model.name in loaded,
                size_mb=_mb(model.size),
                **_abilities(model.capabilities),
            )
            for model in tags
        )

    async def details(self, http: Http, served: Served) -> Served:
        """Add vision, and whether it writes at all, from /api/show."""
        able = read(
            OllamaShow, await http.post_json("/api/show", {"model": served.id})
        ).capabilities
        # Old versions tell no capabilities; what they serve writes.
        return replace(served, vision="vision" in able, chats=not able or "completion" in able)

    async def load(self, http: Http, served: Served, context_length: int | None) -> None:  # noqa: ARG002 - /v1 requests would undo it
        """Load for good; answers when it is done. Requests on /v1 leave `keep_alive` as it is."""
        await http.post_json("/api/generate", _keep(served, -1), timeout_s=None)

    async def unload(self, http: Http, served: Served) -> None:
        """End the stay."""
        await http.post_json("/api/generate", _keep(served, 0), timeout_s=60.0)


class LlamaSwap(Generic):
    """llama-swap: starts and stops other servers; asking for a model may stop another."""

    name: ClassVar[str] = "llamaswap"
    eager: ClassVar[bool] = True
    can_load: ClassVar[bool] = True
    can_unload: ClassVar[bool] = True
    note: ClassVar[str] = (
        "llama-swap stops a model by itself when another one starts, unless its `matrix` lets them "
        "live together; give it a host of its own."
    )

    async def describe(self, http: Http) -> str | None:
        """Know it by /running."""
        return "llama-swap" if await ask(http, "/running", Running) else None

    async def served(self, http: Http) -> tuple[Served, ...]:
        """Return the configured models, marked by which are ready."""
        states = {p.model: p.state for p in read(Running, await http.get_json("/running")).running}
        return tuple(
            Served(id=entry.id, loaded=states.get(entry.id) == "ready")
            for entry in await listing(http)
        )

    async def load(self, http: Http, served: Served, context_length: int | None) -> None:  # noqa: ARG002 - set in its configuration
        """Start its server by a call that passes through; answers when it is up."""
        await http.get_json(f"/upstream/{quote(served.id)}/v1/models", timeout_s=3600.0)

    async def unload(self, http: Http, served: Served) -> None:
        """Stop its server."""
        await _tolerant_post(http, f"/api/models/unload/{quote(served.id)}", None, "not found")


FLAVOURS: Mapping[str, type[Flavour]] = {
    flavour.name: flavour
    for flavour in (
        LlamaSwap,
        Ollama,
        LlamaCppRouter,
        LlamaCpp,
        VLlm,
        LlamaCppPython,
        Generic,
    )
}
"""By the name of the option `flavour`, in the order they are tried: each is known by a call that
those before it do not have; `Generic` is what is left."""


def _router_loaded(entry: Listed) -> bool:
    return entry.status is not None and entry.status.value in {"loaded", "sleeping"}


def _router_failure(entry: Listed) -> str | None:
    status = entry.status
    if status is None or not status.failed:
        return None
    return f"its process ended with exit code {status.exit_code}"


async def _healthy(http: Http) -> bool:
    """Return whether llama.cpp has its model ready: /health answers 503 until then."""
    try:
        await http.get_json("/health")
    except HttpFailed:
        return False
    return True


async def _tolerant_post(http: Http, path: str, body: JsonValue, settled: str) -> None:
    """POST and ignore the answer; a refusal with `settled` in it means that it is so already."""
    try:
        async with http.stream_lines(path, body, read_s=60.0):  # llama-swap answers no JSON
            pass
    except HttpRefused as error:
        if settled not in error.body:
            raise


def _abilities(able: tuple[str, ...]) -> Abilities:
    """Read Ollama's capabilities; versions that tell none serve models that write."""
    if not able:
        return {"vision": None, "chats": True}
    return {"vision": "vision" in able, "chats": "completion" in able}


def _keep(served: Served, seconds: int) -> JsonValue:
    """Return an Ollama request without a prompt: it only loads (-1: for good) or unloads (0)."""
    return {"model": served.id, "keep_alive": seconds, "stream": False}


def _mb(size: int | None) -> int | None:
    return None if size is None else round(size / MB)
