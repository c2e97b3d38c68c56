"""Base class of the backends for text and image servers, which detect their server's flavour.

If a server rejects a request, its message is kept for the program that sent the request.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

from pydantic import JsonValue

from backends.common.error_rules import ErrorRule, answers_judged
from backends.common.http import Http
from backends.common.model_server import ModelServer, served_name
from backends.common.options import read_options
from queueing.core.errors import SAID, BadModel, Rejected
from queueing.core.ports import Backend
from queueing.core.requests import Capability, Record
from queueing.core.specs import ModelSpec

SAID_LIMIT = 300  # characters
_SECRETS = re.compile(
    r"(?:(?<![a-z0-9+.-])[a-z0-9+.-]++://|data:)\S*"  # addresses
    r"|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b|\[[0-9a-f]*:[0-9a-f:.]*\](?::\d+)?"
    r"|(?<![a-z0-9.-])(?=[0-9.-]*[a-z])[a-z0-9.-]++:\d{2,5}\b"  # host and port
    r"|(?<![\w/\\])(?:[a-z]:|~|\.{1,2})?(?:[/\\][\w.@+-]+){2,}[/\\]?"  # file paths
    r"|\b(?:sk|hf|ush|ghp|key)[-_][\w-]{8,}",
    re.IGNORECASE | re.ASCII,
)
_MESSAGE_KEYS = ("message", "detail", "error", "msg")


@contextmanager
def reasons_kept() -> Iterator[None]:
    """Add the server's message to a `Rejected` error raised inside the block."""
    try:
        yield
    except Rejected as error:
        cause = error.__cause__
        answer = error.answer or getattr(cause, "answer", None) or getattr(cause, "body", None)
        if error.problem is not None and (said := reason_in(answer)):
            values = {**error.problem.values, SAID: said}
            error.problem = error.problem.model_copy(update={"values": values})
        raise


def reason_in(body: JsonValue) -> str:
    """Return an error's message without addresses, file paths and tokens; "" if it has none."""
    if isinstance(body, str):
        with suppress(ValueError, RecursionError):
            body = json.loads(body)
    for _ in range(3):  # errors may be nested
        if isinstance(body, dict):
            body = next((body[name] for name in _MESSAGE_KEYS if body.get(name)), "")
    said = body if isinstance(body, str) and "<html" not in body.casefold() else ""
    words = "".join(sign if sign.isprintable() else " " for sign in said).split()
    return _SECRETS.sub("…", " ".join(words))[:SAID_LIMIT]


class ServerBackend(Backend):
    """A backend whose models are listed, loaded and unloaded by a `ModelServer`."""

    needs_url: ClassVar[bool] = True
    serial: ClassVar[bool] = False
    max_models: ClassVar[int | None] = None
    offloads: ClassVar[bool] = False
    capabilities: frozenset[Capability]
    rules: ClassVar[Sequence[ErrorRule]]  # rules for its servers' errors
    noun: ClassVar[str]  # "a text server"
    settings: ClassVar[type[Record]]  # of a model

    _http: Http
    _server: ModelServer[Any, Any]

    @property
    def can_unload(self) -> bool:
        """Whether the server unloads models on request; False until it is identified."""
        return self._server.can_unload

    @property
    def stops_loads(self) -> bool:
        """Whether the server stops a load that is cancelled; False until it is identified."""
        return self._server.stops_loads

    def check(self, model: ModelSpec) -> None:
        """Raise `BadModel` for unknown options and unsupported capabilities."""
        read_options(self.settings, model.options, f"models.{model.name}")
        if beyond := model.capabilities - self.capabilities:
            unable = ", ".join(sorted(beyond))
            raise BadModel(f"models.{model.name}.capabilities: {self.noun} cannot do {unable}")

    def own_name(self, model: ModelSpec) -> str:
        """Return the model's option `model`, or else its name."""
        return served_name(model)

    async def gone(self) -> None:
        """Wait until an idle connection breaks and a new one is refused."""
        await self._http.gone()

    async def loaded(self, models: Sequence[ModelSpec]) -> frozenset[str] | None:
        """Return which models are in memory; None if the server does not report it."""
        with answers_judged(self.rules):
            return await self._server.loaded(models)

    async def unload(self, model: ModelSpec) -> None:
        """Unload every copy of a model and wait until none is left."""
        with answers_judged(self.rules):
            await self._server.unload(model)

    async def aclose(self) -> None:
        """Close the connections. Idempotent."""
        await self._http.aclose()
