"""What backends of servers with flavours do alike, texts and images."""

from collections.abc import Sequence
from typing import Any, ClassVar

from backends.common.error_rules import ErrorRule, answers_judged
from backends.common.http import Http
from backends.common.model_server import ModelServer, served_name
from queueing.core.ports import Backend
from queueing.core.specs import ModelSpec


class ServerBackend(Backend):
    """A backend whose models are listed, loaded and unloaded by a `ModelServer`."""

    needs_url: ClassVar[bool] = True
    serial: ClassVar[bool] = False
    max_models: ClassVar[int | None] = None
    offloads: ClassVar[bool] = False
    rules: ClassVar[Sequence[ErrorRule]]  # what its servers report

    _http: Http
    _server: ModelServer[Any, Any]

    @property
    def can_unload(self) -> bool:
        """Whether the server unloads models when it is asked to; False until it is identified."""
        return self._server.can_unload

    def own_name(self, model: ModelSpec) -> str:
        """Return the option `model`, otherwise the name."""
        return served_name(model)

    async def gone(self) -> None:
        """Return when an idle connection breaks and the next is refused."""
        await self._http.gone()

    async def loaded(self, models: Sequence[ModelSpec]) -> frozenset[str] | None:
        """Return which models are in memory; None if the server does not report it."""
        with answers_judged(self.rules):
            return await self._server.loaded(models)

    async def unload(self, model: ModelSpec) -> None:
        """Unload every copy of a model; return when none is left."""
        with answers_judged(self.rules):
            await self._server.unload(model)

    async def aclose(self) -> None:
        """Close the connections. Idempotent."""
        await self._http.aclose()
