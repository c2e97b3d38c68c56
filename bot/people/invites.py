"""People of the web chat invited by an admin: each known by a token that is stored hashed only.

The page asks from memory, which learns what other processes change by looking; commands read the
database.
"""

import hashlib
import logging
import re
import secrets
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bot.people import sql
from bot.people.web_people import LOCAL, WebPerson
from queueing.core.errors import StoreError
from queueing.store.sql.database import Connection, Database

log = logging.getLogger(__name__)

_TOKEN_BYTES = 24
_ID_MOST = 24  # characters
_TAKEN = frozenset({LOCAL.id})


@dataclass(frozen=True, kw_only=True, slots=True)
class Invitation:
    """An invited person, and the link that lets them in.

    `renewed` says that they were invited before: their earlier link has ended.
    """

    person: WebPerson
    link: str
    renewed: bool


class Invites:
    """The invited people of one web chat; create it with `read`.

    `page` is the page's address as people reach it.
    """

    def __init__(self, database: Database, page: str, known: Mapping[bytes, WebPerson]) -> None:
        self._database = database
        self._page = page
        self._known = known
        self._asked = 0  # each look has a number, so that a slow one does not undo a later change
        self._told = 0

    @classmethod
    async def read(cls, database: Database, page: str) -> "Invites":
        """Return the people invited so far. Raises `StoreError`."""
        return cls(database, page, await database.read(_invited))

    async def look(self) -> None:
        """Learn whom other processes have invited and uninvited; nothing while that is unknown."""
        if self._database.alone:
            return
        try:
            await self._read()
        except StoreError as error:
            log.debug("who is invited cannot be read: %s", error)

    def by_token(self, token: str) -> WebPerson | None:
        """Return the person with that token."""
        # Looked up by digest, so the time a lookup takes reveals nothing about the token.
        return self._known.get(_digest(token))

    def by_id(self, person: str) -> WebPerson | None:
        """Return the person of that id, None if they are not invited (any more)."""
        return next((each for each in self._known.values() if each.id == person), None)

    async def named(self, name: str) -> WebPerson | None:
        """Return the invited person of that name, otherwise of that id ("ada" or "web:ada").

        Raises `StoreError`.
        """
        people = await self.everybody()
        wanted = name.removeprefix("web:").casefold()
        by_id = (each for each in people if each.id == wanted)
        return _by_name(people, name) or next(by_id, None)

    async def everybody(self) -> list[WebPerson]:
        """Return all invited people, by name. Raises `StoreError`."""
        return _by_names(await self._read())

    async def invite(self, name: str, now: float) -> Invitation:
        """Invite a person, or replace the link of an invited one.

        The token exists in the returned link only; an id is never given to a second person. Durable
        when it returns; raises `StoreError`.
        """
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        digest = _digest(token)

        def change(connection: Connection) -> tuple[WebPerson, bool]:
            connection.execute(connection.statements.turn, (sql.INVITING,))
            before = _by_name(_by_names(_invited(connection).values()), name)
            if before is not None:
                connection.execute(sql.RENEW_INVITATION, (digest, before.id))
                return before, True
            person = WebPerson(id=_free_id(connection, name), name=name)
            connection.execute(sql.INVITE, (person.id, person.name, digest, now))
            return person, False

        person, renewed = await self._database.write(change)
        self._tell({**self._without(person), digest: person})
        return Invitation(person=person, link=f"{self._page}?token={token}", renewed=renewed)

    async def uninvite(self, person: WebPerson) -> None:
        """Withdraw an invitation: the link ends, and so do open pages. Idempotent."""

        def change(connection: Connection) -> None:
            connection.execute(sql.UNINVITE, (person.id,))

        await self._database.write(change)
        self._tell(self._without(person))

    async def _read(self) -> Iterable[WebPerson]:
        """Return who is invited now. Raises `StoreError`."""
        self._asked += 1
        asked = self._asked
        known = await self._database.read(_invited)
        if asked > self._told:
            self._told, self._known = asked, known
        return known.values()

    def _tell(self, known: Mapping[bytes, WebPerson]) -> None:
        """Remember a change of this process; what was asked before does not know of it."""
        self._asked += 1
        self._told, self._known = self._asked, known

    def _without(self, person: WebPerson) -> Mapping[bytes, WebPerson]:
        return {digest: each for digest, each in self._known.items() if each.id != person.id}


def _invited(connection: Connection) -> Mapping[bytes, WebPerson]:
    rows = connection.execute(sql.INVITED)
    return {digest: WebPerson(id=each, name=name) for digest, each, name in rows}


def _by_names(people: Iterable[WebPerson]) -> list[WebPerson]:
    return sorted(people, key=lambda person: (person.name.casefold(), person.id))


def _by_name(people: Iterable[WebPerson], name: str) -> WebPerson | None:
    wanted = name.casefold()
    return next((each for each in people if each.name.casefold() == wanted), None)


def _digest(token: str) -> bytes:
    # No salt and no slow hash: the token is 24 random bytes, nothing a dictionary contains.
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def _free_id(connection: Connection, name: str) -> str:
    """Return an id made from a name that no person has or ever had."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    stem = re.sub(r"[^a-z0-9]+", "-", plain)[:_ID_MOST].strip("-") or "guest"
    taken = {row[0] for row in connection.execute(sql.WEB_IDS)} | _TAKEN
    number, found = 1, stem
    while found in taken:
        number += 1
        found = f"{stem}-{number}"
    return found
