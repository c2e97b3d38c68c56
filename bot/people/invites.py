"""People of the web chat whom an admin invited: known by a token each, which is stored nowhere."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from bot.people.web_people import WebPeople, WebPerson


@dataclass(frozen=True, kw_only=True, slots=True)
class Invitation:
    """A person who is in, and the link that lets them in.

    `renewed` tells that they were in before: their earlier link has ended.
    """

    person: WebPerson
    link: str
    renewed: bool


class Invites(WebPeople, Protocol):
    """The invited people of one web chat. Every change is durable when it returns."""

    def named(self, name: str) -> WebPerson | None:
        """Return who is in by that name, or else by that id ("ada" or "web:ada")."""

    def everybody(self) -> Sequence[WebPerson]:
        """Return all who are in, by name."""

    async def invite(self, name: str, now: float) -> Invitation:
        """Let a person in, or give one who is in a new link in place of the old.

        The token exists in the returned link only; nobody ever gets the id of somebody before.
        """

    async def uninvite(self, person: WebPerson) -> None:
        """Take an invitation back: the link ends, and pages that are open. Idempotent."""
