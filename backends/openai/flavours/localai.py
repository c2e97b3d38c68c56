"""LocalAI: models of every kind behind one address, loaded by requests and unloaded on command.

It also answers the calls that identify Ollama and vLLM (/api/version, /version), so it is detected
first.
"""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from backends.common.http import Http
from backends.common.localai import LocalAiAbility, LocalAiCalls, abilities, in_memory
from backends.common.server_replies import ServerReply, ask
from backends.openai.flavours.flavour import AudioForm, Flavour, Served, listing


class LocalAiRoutes(ServerReply):
    """GET /.well-known/localai.json: the calls of newer versions."""

    class Groups(ServerReply):
        """The calls by purpose."""

        monitoring: Mapping[str, str] = Field(default_factory=dict)

    endpoint_groups: Groups = Groups()


class LocalAiServer(LocalAiCalls, Flavour):
    """LocalAI, which may also unload models by itself (its watchdog)."""

    sounds: ClassVar[AudioForm] = AudioForm(
        translations=None,
        translate="translate",
        always={"diarize": "false"},  # speaker detection is on by default
    )
    note: ClassVar[str] = (
        "LocalAI unloads models by itself if its watchdog or --max-active-backends is on. Leave both"
        " off so that only Usher decides what stays loaded."
    )

    async def served(self, http: Http) -> tuple[Served, ...]:
        """Return the installed models, and which are in memory if the version loads on command."""
        running = await in_memory(http) if await _loads_on_command(http) else None
        told = await abilities(http)
        entries = (
            told if told is not None else [LocalAiAbility(id=e.id) for e in await listing(http)]
        )
        return tuple(
            _served(entry, None if running is None else entry.id in running) for entry in entries
        )


async def _loads_on_command(http: Http) -> bool:
    """Return whether this version can load a model on command, not only with a request."""
    calls = await ask(http, "/.well-known/localai.json", LocalAiRoutes)
    return calls is not None and "backend_load" in calls.endpoint_groups.monitoring


def _served(entry: LocalAiAbility, running: bool | None) -> Served:
    able = entry.capabilities
    if not able:  # a loose file without metadata
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
