"""Which flavour of server answers at an address: each is asked whether it knows its own."""

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from backends.common.http import Http
from queueing.core.errors import Unavailable


class TokenRefused(Unavailable):
    """The server refuses this call without another token; jobs wait until an admin fixes it."""


class Describes(Protocol):
    """A flavour of server."""

    async def describe(self, http: Http) -> str | None:
        """Return the server's name and version, None if it is of another flavour."""


Kind = TypeVar("Kind", bound=Describes)


class Recognition(Generic[Kind]):
    """Finds the flavour of one server, and remembers it. Methods raise `BackendError`s.

    `flavours` are in the order in which they are asked; `stranger` is what is reported of a server
    that is none of them.
    """

    def __init__(self, http: Http, flavours: Sequence[Kind], *, stranger: str) -> None:
        self.flavour: Kind | None = None
        self._http = http
        self._flavours = tuple(flavours)
        self._stranger = stranger

    async def recognise(self) -> tuple[Kind, str]:
        """Detect the flavour, trying the known one first; return it and the server's description."""
        known = () if self.flavour is None else (self.flavour,)
        verdict = Unavailable(self._stranger)
        for flavour in (*known, *self._flavours):
            try:
                description = await flavour.describe(self._http)
            except TokenRefused as error:  # some gateways refuse unknown paths this way
                verdict = error
                continue
            if description:
                self.flavour = flavour
                return flavour, description
        raise verdict

    def possible(self) -> tuple[Kind, ...]:
        """Return the flavour; all of them until the server has been identified."""
        return self._flavours if self.flavour is None else (self.flavour,)
