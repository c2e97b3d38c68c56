"""LocalAI's control API: detection, models in memory, capabilities, load and unload.

Based on mudler/LocalAI at 82c191af (2026-08). `/backend/load` and `/backend/shutdown` return once
the change is complete.
"""

from typing import ClassVar

from backends.common.http import Http
from backends.common.http_replies import BadStatus, HttpRefused
from backends.common.model_server import LoadWish, ServedModel
from backends.common.server_replies import ServerReply, ask, read
from queueing.core.errors import BadModel

GONE = {404, 500}  # for unloading a model that is not loaded; older versions send 500


class LocalAiMemory(ServerReply):
    """GET /system: the models in memory."""

    class InMemory(ServerReply):
        """A model in memory."""

        id: str

    loaded_models: tuple[InMemory, ...] | None


class LocalAiRelease(ServerReply):
    """GET /version."""

    version: str = ""


class LocalAiAbility(ServerReply):
    """An entry of /v1/models/capabilities, which newer versions have."""

    id: str
    capabilities: tuple[str, ...] | None = None


class LocalAiAbilities(ServerReply):
    """GET /v1/models/capabilities."""

    data: tuple[LocalAiAbility, ...]


class LocalAiCalls:
    """The LocalAI calls shared by the text and image flavours."""

    name: ClassVar[str] = "localai"
    can_unload: ClassVar[bool] = True
    eager: ClassVar[bool] = True

    async def describe(self, http: Http) -> str | None:
        """Detect LocalAI by its /system call; return its name and version, or None."""
        if not await ask(http, "/system", LocalAiMemory):
            return None
        told = await ask(http, "/version", LocalAiRelease)
        return f"LocalAI {told.version if told else ''}".strip()

    async def load(self, http: Http, served: ServedModel, wish: LoadWish) -> None:  # noqa: ARG002 - set in its configuration
        """Load the model and return when it is usable."""
        try:
            await http.post_json("/backend/load", {"model": served.id}, timeout_s=None)
        except HttpRefused as error:
            if error.status not in {404, 405} or served.id in error.body:
                raise
            raise BadModel("this LocalAI is too old to have /backend/load") from error

    async def unload(self, http: Http, served: ServedModel) -> None:
        """Unload the model."""
        try:
            await http.post_json("/backend/shutdown", {"model": served.id}, timeout_s=60.0)
        except BadStatus as error:
            if error.status not in GONE or "not" not in error.body:
                raise


async def in_memory(http: Http) -> frozenset[str]:
    """Return the names of the models in memory."""
    system = read(LocalAiMemory, await http.get_json("/system"))
    return frozenset(model.id for model in system.loaded_models or ())


async def abilities(http: Http) -> tuple[LocalAiAbility, ...] | None:
    """Return the server's models with their capabilities; None for versions without that call."""
    told = await ask(http, "/v1/models/capabilities", LocalAiAbilities)
    return told.data if told else None
