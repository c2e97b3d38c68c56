"""Kokoro-FastAPI: one model with many voices, listed under four names."""

from dataclasses import replace
from typing import ClassVar

from backends.common.http import Http
from backends.common.http_replies import HttpRefused
from backends.common.replies import ServerReply, ask
from backends.openai.flavours.flavour import Flavour, Served
from backends.openai.flavours.form import AudioForm
from backends.openai.flavours.replies import Listing, listing
from queueing.core.errors import Rejected
from queueing.core.problems import What, problem

OWNER = "kokoro"
MODEL = "kokoro"
NOT_ALLOWED = 403


class VoiceNames(ServerReply):
    """GET /v1/audio/voices of Kokoro-FastAPI; plain names before 0.3."""

    voices: tuple[str | dict[str, str], ...]


class Kokoro(Flavour):
    """Kokoro-FastAPI, which loads its model at the first request after an unload."""

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
        " ALLOW_DEV_UNLOAD=true, and does not say what is in memory."
    )

    async def describe(self, http: Http) -> str | None:
        """Detect it by the owner it reports."""
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
        """Unload the model. Raises `Rejected` if its operator has not allowed that."""
        try:
            await http.post_json("/dev/unload")
        except HttpRefused as error:
            if error.status != NOT_ALLOWED:
                raise
            raise Rejected("unloading is not allowed there", problem=problem(What.STAYS)) from error


async def _voices(http: Http) -> tuple[str, ...]:
    known = await ask(http, "/v1/audio/voices", VoiceNames)
    told = known.voices if known else ()
    return tuple(voice if isinstance(voice, str) else voice.get("id", "") for voice in told)
