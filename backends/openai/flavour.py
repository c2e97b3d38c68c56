"""What a flavour is: how one kind of text server lists, loads, unloads and says who it is.

A flavour speaks only these control calls; answering is the same everywhere. Flavours keep nothing:
what is loaded is asked, not remembered. `Generic` is the flavour that knows nothing more.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Protocol

from backends.common.http import Http
from backends.openai.replies import Listing, ask, listing

SUFFIX = re.compile(r"(:latest|:\d+|@[\w-]+|\.gguf)$")  # tag, LM Studio's instance or variant, file


@dataclass(frozen=True, kw_only=True, slots=True)
class Served:
    """A model as its server lists it.

    `names` are all names it answers to, `instances` its copies where they have names. `failed` is
    why its last load failed; `parallel` how many answers one copy writes at once, `context` how
    many tokens each may have, `size_mb` the size of its weights. None means that the server does not tell.
    """

    id: str
    names: frozenset[str] = frozenset()
    loaded: bool | None = None
    failed: str | None = None
    vision: bool | None = None
    chats: bool = True
    parallel: int | None = None
    context: int | None = None
    size_mb: int | None = None
    instances: tuple[str, ...] = ()


class ModelNames:
    """Finds a listed model by a name: exactly, else without what does not tell models apart."""

    def __init__(self, listed: Iterable[Served]) -> None:
        known = [(name, served) for served in listed for name in (served.id, *served.names)]
        self._by_name = {plain(name): served for name, served in known} | dict(known)

    def find(self, name: str) -> Served | None:
        """Return the model of that name, or None."""
        return self._by_name.get(name) or self._by_name.get(plain(name))


def plain(name: str) -> str:
    """Return a name as it is compared: no folder, no case, no suffix that means the same model."""
    return SUFFIX.sub("", name.rpartition("/")[2].casefold())


class Flavour(Protocol):
    """One kind of server. Methods raise `BackendError`s as `Http` does, `OutOfMemory` in `load`.

    `load` and `unload` only ask: the caller holds the model's lock, has looked first, and watches
    `served` until it is so.
    """

    name: ClassVar[str]
    can_unload: ClassVar[bool]
    exact: ClassVar[bool]  # its answers name the model that was asked for, so others are faults
    eager: ClassVar[bool]  # a request loads what is not loaded, and may evict for it
    chat_path: ClassVar[str]

    async def describe(self, http: Http) -> str | None:
        """Return the server's name and version, or None when it is not of this flavour."""

    async def notes(self, http: Http) -> tuple[str, ...]:
        """Return what an operator should know of it, for `usher check`."""

    async def served(self, http: Http) -> tuple[Served, ...]:
        """Return what the server has; cheap, asked often."""

    async def details(self, http: Http, served: Served) -> Served:
        """Return an entry completed by what costs a call of its own (vision)."""

    async def load(self, http: Http, served: Served, context_length: int | None) -> None:
        """Ask for a load; may return before it is done."""

    async def unload(self, http: Http, served: Served) -> None:
        """Ask for every copy to leave; may return before they have."""


class Generic:
    """Any compatible server: it lists, it answers, nothing else is known of it."""

    name: ClassVar[str] = "generic"
    can_unload: ClassVar[bool] = False
    exact: ClassVar[bool] = False
    eager: ClassVar[bool] = False
    chat_path: ClassVar[str] = "/v1/chat/completions"
    note: ClassVar[str] = (
        "This server cannot load or unload on request, and does not say what is in memory."
    )

    async def describe(self, http: Http) -> str | None:
        """Return a name for anything that lists its models."""
        return "OpenAI-compatible server" if await ask(http, "/v1/models", Listing) else None

    async def notes(self, http: Http) -> tuple[str, ...]:  # noqa: ARG002 - the protocol's signature
        """Return the one note there is, if any."""
        return (self.note,) if self.note else ()

    async def served(self, http: Http) -> tuple[Served, ...]:
        """Return the list, without knowing what is loaded."""
        return tuple(Served(id=entry.id) for entry in await listing(http))

    async def details(self, http: Http, served: Served) -> Served:  # noqa: ARG002 - the protocol's signature
        """Return the entry: nothing more can be asked."""
        return served

    async def load(self, http: Http, served: Served, context_length: int | None) -> None:
        """Do nothing: the server loads when it wants."""

    async def unload(self, http: Http, served: Served) -> None:
        """Do nothing: the server takes no such request."""
