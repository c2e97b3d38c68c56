"""LocalAI: models of every kind behind one address, loaded by requests and unloaded on command.

It answers like Ollama and like vLLM as well (/api/version, /version), so it is recognised first.
"""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from backends.common.http import Http
from backends.common.http_answers import HttpFailed, HttpRefused
from backends.common.model_server import LoadWish
from backends.common.replies import ServerReply, ask, read
from backends.openai.audio.form import AudioForm
from backends.openai.flavour import Flavour, Served
from backends.openai.replies import listing

GONE = {404, 500}  # to an unload of what is not in memory; older versions with a fault


class LocalAiMemory(ServerReply):
    """GET /system: the engines, and the models in memory."""

    class InMemory(ServerReply):
        """A model in memory."""

        id: str

    backends: tuple[str, ...] | None
    loaded_models: tuple[InMemory, ...] | None


class LocalAiRelease(ServerReply):
    """GET /version of LocalAI."""

    version: str = ""


class LocalAiCalls(ServerReply):
    """GET /.well-known/localai.json: what newer versions can be asked."""

    class Groups(ServerReply):
        """The calls by what they are for."""

        monitoring: Mapping[str, str] = Field(default_factory=dict)

    endpoint_groups: Groups = Groups()


class LocalAiAbility(ServerReply):
    """An entry of /v1/models/capabilities, which newer versions have."""

    id: str
    capabilities: tuple[str, ...] | None = None


class LocalAiAbilities(ServerReply):
    """GET /v1/models/capabilities."""

    data: tuple[LocalAiAbility, ...]


class LocalAiServer(Flavour):
    """LocalAI, which may also drop models by itself (its watchdog)."""

    name: ClassVar[str] = "localai"
    eager: ClassVar[bool] = True
    can_unload: ClassVar[bool] = True
    sounds: ClassVar[AudioForm] = AudioForm(
        translations=None,
        translate="translate",
        always={"diarize": "false"},  # it distinguishes speakers unless it is told not to
    )
    note: ClassVar[str] = (
        "LocalAI drops models by itself if its watchdog or --max-active-backends is on; leave both"
        " off, so that only Usher decides what stays."
    )

    async def describe(self, http: Http) -> str | None:
        """Detect it by /system."""
        if not await ask(http, "/system", LocalAiMemory):
            return None
        told = await ask(http, "/version", LocalAiRelease)
        return f"LocalAI {told.version if told else ''}".strip()

    async def served(self, http: Http) -> tuple[Served, ...]:
        """Return the installed models; versions that load on command tell which are in memory."""
        running = await _running(http)
        told = await ask(http, "/v1/models/capabilities", LocalAiAbilities)
        entries = (
            told.data if told else [LocalAiAbility(id=each.id) for each in await listing(http)]
        )
        return tuple(
            _served(entry, None if running is None else entry.id in running) for entry in entries
        )

    async def load(self, http: Http, served: Served, wish: LoadWish) -> None:  # noqa: ARG002 - set in its configuration
        """Load the model; returns when it is usable. Only called where the state is known."""
        await http.post_json("/backend/load", {"model": served.id}, timeout_s=None)

    async def unload(self, http: Http, served: Served) -> None:
        """Unload the model."""
        try:
            await http.post_json("/backend/shutdown", {"model": served.id}, timeout_s=60.0)
        except (HttpRefused, HttpFailed) as error:
            if error.status not in GONE or "not" not in error.body:
                raise


async def _running(http: Http) -> frozenset[str] | None:
    """Return what is in memory; None for versions that load a model only with its first request."""
    calls = await ask(http, "/.well-known/localai.json", LocalAiCalls)
    if calls is None or "backend_load" not in calls.endpoint_groups.monitoring:
        return None
    system = read(LocalAiMemory, await http.get_json("/system"))
    return frozenset(model.id for model in system.loaded_models or ())


def _served(entry: LocalAiAbility, running: bool | None) -> Served:
    able = entry.capabilities
    if not able:  # a loose file, of which nothing is known
        return Served(id=entry.id, loaded=running)
    return Served(
        id=entry.id,
        loaded=running,
        chats="chat" in able or "completion" in able,
        vision="vision" in able,
        embeds="embeddings" in able,
        hears="transcript" in able,
        speaks="tts" in able,
    )
