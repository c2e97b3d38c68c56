"""llama-swap: starts and stops other servers; a request for a model may stop another."""

from typing import ClassVar
from urllib.parse import quote

from backends.common.http import Http
from backends.common.model_server import LoadWish
from backends.common.replies import ServerReply, ask, read
from backends.openai.flavours.flavour import Flavour, Served
from backends.openai.flavours.llamacpp import DECODED, SAMPLERS
from backends.openai.flavours.replies import listing, post_settled


class Running(ServerReply):
    """GET /running of llama-swap."""

    class Process(ServerReply):
        """One upstream; its command is never shown because it holds paths."""

        model: str
        state: str

    running: tuple[Process, ...]


class LlamaSwap(Flavour):
    """llama-swap: starts and stops other servers; a request for a model may stop another."""

    name: ClassVar[str] = "llamaswap"
    suffix_path: ClassVar[str | None] = "/infill"
    extra: ClassVar[frozenset[str]] = SAMPLERS
    pictures: ClassVar[frozenset[str]] = DECODED
    eager: ClassVar[bool] = True
    can_unload: ClassVar[bool] = True
    note: ClassVar[str] = (
        "llama-swap stops a model by itself when another one starts, unless its `groups` or `matrix` "
        "let them live together; give it a host of its own."
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
        """Start its server by a call that passes through; returns when it is up."""
        await http.get_json(f"/upstream/{quote(served.id)}/v1/models", timeout_s=3600.0)

    async def unload(self, http: Http, served: Served) -> None:
        """Stop its server."""
        await post_settled(http, f"/api/models/unload/{quote(served.id)}", None, "not found")
