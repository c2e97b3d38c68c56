"""speaches (once faster-whisper-server): recordings and voices, loaded and unloaded on command."""

from typing import ClassVar
from urllib.parse import quote

from backends.common.http import Http
from backends.common.http_replies import HttpRefused
from backends.common.model_server import LoadWish
from backends.common.replies import ServerReply, ask, read
from backends.openai.flavours.flavour import Flavour, Served
from backends.openai.flavours.form import AudioForm
from backends.openai.flavours.replies import post_settled
from queueing.core.errors import Unavailable

HEARS, SPEAKS = "automatic-speech-recognition", "text-to-speech"
IN_USE = 409


class RunningNames(ServerReply):
    """GET /api/ps of speaches; Ollama's has objects instead of names."""

    models: tuple[str, ...]


class SpeachesVoice(ServerReply):
    """A voice of a model that speaks."""

    name: str = ""
    id: str = ""


class Installed(ServerReply):
    """An entry of /v1/models of speaches; models that speak list their voices."""

    id: str
    task: str
    voices: tuple[SpeachesVoice, ...] = ()


class InstalledModels(ServerReply):
    """GET /v1/models of speaches."""

    data: tuple[Installed, ...]


class Speaches(Flavour):
    """speaches, which drops an idle model by itself after a while (`stt_model_ttl`)."""

    name: ClassVar[str] = "speaches"
    can_unload: ClassVar[bool] = True
    eager: ClassVar[bool] = True
    sounds: ClassVar[AudioForm] = AudioForm(silence=True)
    note: ClassVar[str] = (
        "speaches drops a model after 300 s without a request, unless its settings `stt_model_ttl`"
        " and `tts_model_ttl` are -1."
    )

    async def describe(self, http: Http) -> str | None:
        """Detect it by the names in /api/ps and the tasks in /v1/models."""
        if not await ask(http, "/api/ps", RunningNames):
            return None
        installed = await ask(http, "/v1/models", InstalledModels)
        return None if installed is None else f"speaches, {len(installed.data)} models installed"

    async def served(self, http: Http) -> tuple[Served, ...]:
        """Return the installed models that hear or speak, marking those in memory."""
        running = read(RunningNames, await http.get_json("/api/ps")).models
        installed = read(InstalledModels, await http.get_json("/v1/models")).data
        return tuple(
            Served(
                id=model.id,
                loaded=model.id in running,
                chats=False,
                hears=model.task == HEARS,
                speaks=model.task == SPEAKS,
                voices=tuple(voice.id or voice.name for voice in model.voices),
            )
            for model in installed
            if model.task in {HEARS, SPEAKS}
        )

    async def load(self, http: Http, served: Served, wish: LoadWish) -> None:  # noqa: ARG002 - has no context
        """Load the model; returns when it is usable."""
        await post_settled(http, f"/api/ps/{quote(served.id)}", None, "already loaded")

    async def unload(self, http: Http, served: Served) -> None:
        """Unload the model. One in use would stay in memory and yet be gone from the list."""
        try:
            await http.delete(f"/api/ps/{quote(served.id)}")
        except HttpRefused as error:
            if error.status == IN_USE:
                raise Unavailable(f"{served.id} is in use by another program") from error
            if "not loaded" not in error.body:
                raise
