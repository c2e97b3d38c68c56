"""KoboldCpp: one model per process, loaded for the process's lifetime."""

from dataclasses import replace
from typing import ClassVar

from backends.common.http import Http
from backends.common.server_replies import ServerReply, ask
from backends.openai.flavours.flavour import Flavour, Served, listing


class KoboldVersion(ServerReply):
    """GET /api/extra/version, which TabbyAPI also answers."""

    result: str
    version: str
    vision: bool = False


class KoboldContext(ServerReply):
    """GET /api/extra/true_max_context_length."""

    value: int


class KoboldCpp(Flavour):
    """KoboldCpp, which also answers the calls that identify Ollama."""

    name: ClassVar[str] = "koboldcpp"
    suffix_path: ClassVar[str | None] = None
    prompt_tokens: ClassVar[bool] = False
    echoes: ClassVar[bool] = False
    cuts: ClassVar[bool] = True
    note: ClassVar[str] = (
        "KoboldCpp keeps its model loaded, so its memory is never free for other models. Its context"
        " length is set at its start (--contextsize). Usher refuses longer questions, which KoboldCpp"
        " would cut."
    )

    async def describe(self, http: Http) -> str | None:
        """Detect it by /api/extra/version and its context length."""
        answer = await _version(http)
        return f"KoboldCpp {answer.version}" if answer and await _context(http) else None

    async def served(self, http: Http) -> tuple[Served, ...]:
        """Return the loaded model, which is listed before those of its router mode."""
        context = await _context(http)
        return tuple(
            Served(id=entry.id, loaded=True, context=context) for entry in (await listing(http))[:1]
        )

    async def details(self, http: Http, served: Served) -> Served:
        """Add whether the model has vision."""
        answer = await _version(http)
        return replace(served, vision=answer.vision) if answer else served


async def _version(http: Http) -> KoboldVersion | None:
    answer = await ask(http, "/api/extra/version", KoboldVersion)
    return answer if answer and answer.result == "KoboldCpp" else None


async def _context(http: Http) -> int | None:
    told = await ask(http, "/api/extra/true_max_context_length", KoboldContext)
    return told.value if told else None
