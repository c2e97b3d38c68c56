"""Speech-only servers: speaches, Kokoro-FastAPI and whisper.cpp."""

import re
from dataclasses import replace
from typing import ClassVar
from urllib.parse import quote

from backends.common.http import Http
from backends.common.http_replies import HttpRefused
from backends.common.model_server import LoadWish
from backends.common.server_replies import ServerReply, ask, read
from backends.openai.flavours.flavour import (
    AudioForm,
    Flavour,
    Listing,
    Served,
    listing,
    post_settled,
)
from queueing.core.errors import ProblemKind, Rejected, Unavailable, UnreadableAnswer, problem

OWNER = "kokoro"
MODEL = "kokoro"
NOT_ALLOWED = 403


class VoiceNames(ServerReply):
    """GET /v1/audio/voices of Kokoro-FastAPI; before 0.3 the voices are plain names."""

    voices: tuple[str | dict[str, str], ...]


class Kokoro(Flavour):
    """Kokoro-FastAPI, which loads its model again at the first request after an unload."""

    name: ClassVar[str] = "kokoro"
    can_unload: ClassVar[bool] = True
    sounds: ClassVar[AudioForm] = AudioForm(
        transcriptions=None,
        translations=None,
        spoken={"stream": False},
        voice="af_heart",
        mixes=True,
    )
    note: ClassVar[str] = (
        "Kokoro-FastAPI frees its memory on request only if it was started with"
        " ALLOW_DEV_UNLOAD=true, and does not report what is in memory."
    )

    async def describe(self, http: Http) -> str | None:
        """Detect it by `owned_by` in its model list."""
        listed = await ask(http, "/v1/models", Listing)
        if listed is None or not any(entry.owned_by == OWNER for entry in listed.data):
            return None
        return f"Kokoro-FastAPI, {len(await _voices(http))} voices"

    async def served(self, http: Http) -> tuple[Served, ...]:
        """Return its one model."""
        names = frozenset(entry.id for entry in await listing(http))
        return (Served(id=MODEL, names=names, chats=False, hears=False, speaks=True),)

    async def details(self, http: Http, served: Served) -> Served:
        """Add the voices."""
        return replace(served, voices=await _voices(http))

    async def unload(self, http: Http, served: Served) -> None:  # noqa: ARG002 - there is only one
        """Unload the model. Raises `Rejected` if the server does not allow that."""
        try:
            await http.post_json("/dev/unload")
        except HttpRefused as error:
            if error.status != NOT_ALLOWED:
                raise
            raise Rejected(
                "the server does not allow unloading", problem=problem(ProblemKind.STAYS)
            ) from error


async def _voices(http: Http) -> tuple[str, ...]:
    known = await ask(http, "/v1/audio/voices", VoiceNames)
    told = known.voices if known else ()
    return tuple(voice if isinstance(voice, str) else voice.get("id", "") for voice in told)


HEARS, SPEAKS = "automatic-speech-recognition", "text-to-speech"
IN_USE = 409


class RunningNames(ServerReply):
    """GET /api/ps of speaches; Ollama's contains objects instead of names."""

    models: tuple[str, ...]


class SpeachesVoice(ServerReply):
    """A voice of a speech model."""

    name: str = ""
    id: str = ""


class Installed(ServerReply):
    """An entry of /v1/models of speaches; speech models list their voices."""

    id: str
    task: str
    voices: tuple[SpeachesVoice, ...] = ()


class InstalledModels(ServerReply):
    """GET /v1/models of speaches."""

    data: tuple[Installed, ...]


class Speaches(Flavour):
    """speaches, which unloads an idle model by itself after a while (`stt_model_ttl`)."""

    name: ClassVar[str] = "speaches"
    can_unload: ClassVar[bool] = True
    eager: ClassVar[bool] = True
    sounds: ClassVar[AudioForm] = AudioForm(silence=True)
    note: ClassVar[str] = (
        "speaches unloads a model after 300 s without a request, unless its settings `stt_model_ttl`"
        " and `tts_model_ttl` are -1."
    )

    async def describe(self, http: Http) -> str | None:
        """Detect it by the names in /api/ps and the tasks in /v1/models."""
        if not await ask(http, "/api/ps", RunningNames):
            return None
        installed = await ask(http, "/v1/models", InstalledModels)
        return None if installed is None else f"speaches, {len(installed.data)} models installed"

    async def served(self, http: Http) -> tuple[Served, ...]:
        """Return the installed models that transcribe or speak, marking those in memory."""
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
        """Load the model and return when it is usable."""
        await post_settled(http, f"/api/ps/{quote(served.id)}", None, "already loaded")

    async def unload(self, http: Http, served: Served) -> None:
        """Unload the model.

        Raises `Unavailable` if it is in use, because it would stay in memory without being listed.
        """
        try:
            await http.delete(f"/api/ps/{quote(served.id)}")
        except HttpRefused as error:
            if error.status == IN_USE:
                raise Unavailable(f"{served.id} is in use by another program") from error
            if "not loaded" not in error.body:
                raise


PAGE_LIMIT = 64 * 1024
TITLE = "Whisper.cpp Server"
_PATH = re.compile(r"<h2>\s*(/[^\s<]*)\s*</h2>")


class WhisperCpp(Flavour):
    """whisper.cpp's `whisper-server`; its page contains the path of its only call."""

    name: ClassVar[str] = "whispercpp"
    nameless: ClassVar[bool] = True
    sounds: ClassVar[AudioForm] = AudioForm(
        transcriptions="/inference",
        translations=None,
        speech=None,
        # Word times cut segments at 60 characters. Language probabilities take a second pass over
        # the recording. Without a language it assumes English.
        always={"token_timestamps": "false", "no_language_probabilities": "true"},
        any_language="auto",
        translate="translate",
        silence=True,
    )
    note: ClassVar[str] = (
        "whisper.cpp keeps its model loaded and transcribes one recording at a time:"
        " set `parallel: 1` for its model."
    )

    async def describe(self, http: Http) -> str | None:
        """Detect it by its page."""
        path = await _path(http)
        return None if path is None else f"whisper.cpp, transcribing at {path}"

    async def served(self, http: Http) -> tuple[Served, ...]:
        """Return its one model, which has no name."""
        if await _path(http) is None:
            raise Unavailable("the server's page is no longer whisper.cpp's")
        return (
            Served(id="whisper", loaded=True, chats=False, hears=True, speaks=False, parallel=1),
        )

    async def audio(self, http: Http) -> AudioForm:
        """Return its speech calls with the path set by `--inference-path`."""
        return replace(self.sounds, transcriptions=await _path(http) or self.sounds.transcriptions)


async def _path(http: Http) -> str | None:
    """Return its call's path relative to the server's address; None for any other server."""
    try:
        page, _ = await http.get_bytes("/", limit=PAGE_LIMIT)
    except (
        HttpRefused,
        Unavailable,
        UnreadableAnswer,
    ):  # other calls report the cause
        return None
    text = page.decode(errors="replace")
    found = _PATH.search(text)
    if TITLE not in text or found is None:
        return None
    return found[1].removeprefix(http.prefix)
