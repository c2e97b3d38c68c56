"""People of the web chat invited by an admin: each known by a token that is stored nowhere."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from bot.people.web_people import WebPeople, WebPerson


@dataclass(frozen=True, kw_only=True, slots=True)
class Invitation:
    """An invited person, and the link that lets them in.

    `renewed` says that they were invited before: their earlier link has ended.
    """

    person: WebPerson
    link: str
    renewed: bool


class Invites(WebPeople, Protocol):
    """The invited people of one web chat. Every change is durable when it returns."""

    async def named(self, name: str) -> WebPerson | None:
        """Return the invited person of that name, otherwise of that id ("ada" or "web:ada")."""

    async def everybody(self) -> Sequence[WebPerson]:
        """Return all invited people, by name."""

    async def invite(self, name: str, now: float) -> Invitation:
        """Invite a person, or replace the link of an invited one.

        The token exists in the returned link only; an id is never given to a second person.
        """

    async def uninvite(self, person: WebPerson) -> None:
        """Withdraw an invitation: the link ends, and so do open pages. Idempotent."""
