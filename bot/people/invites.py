"""People whom an admin has invited to the web chat. Only hashes of their tokens are stored.

The page reads from memory, which is refreshed from the database to see other processes' changes.
Commands read the database.
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
    """An invited person, and the link that signs them in.

    With `renewed`, the person had been invited before, and the earlier link stops working.
    """

    person: WebPerson
    link: str
    renewed: bool


class Invites:
    """The invited people of one web chat. Create it with `read`.

    `page` is the page's public URL.
    """

    def __init__(self, database: Database, page: str, known: Mapping[bytes, WebPerson]) -> None:
        self._database = database
        self._page = page
        self._known = known
        # Refreshes are numbered, so that a slow one cannot undo a later change.
        self._asked = 0
        self._applied = 0

    @classmethod
    async def read(cls, database: Database, page: str) -> "Invites":
        """Load the people invited so far. Raises `StoreError`."""
        return cls(database, page, await database.read(_invited))

    async def look(self) -> None:
        """Refresh the invitations from the database, to see other processes' changes.

        Keeps the known ones if that fails.
        """
        if self._database.alone:
            return
        try:
            await self._read()
        except StoreError as error:
            log.debug("cannot read the invitations: %s", error)

    def by_token(self, token: str) -> WebPerson | None:
        """Return the person with this token."""
        # Looked up by digest, so that the lookup's duration reveals nothing about the token.
        return self._known.get(_digest(token))

    def by_id(self, person: str) -> WebPerson | None:
        """Return the person with this id, or None if they are not invited."""
        return next((each for each in self._known.values() if each.id == person), None)

    async def named(self, name: str) -> WebPerson | None:
        """Return the invited person with this name, or else with this id ("ada" or "web:ada").

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
        """Invite a person, or replace the link of an invited person.

        Only the returned link contains the token. Ids are never reused. Durable on return. Raises
        `StoreError`.
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
        self._apply({**self._without(person), digest: person})
        return Invitation(person=person, link=f"{self._page}?token={token}", renewed=renewed)

    async def uninvite(self, person: WebPerson) -> None:
        """Withdraw an invitation. Its link and its open pages stop working. Idempotent."""
        await self._database.execute(sql.UNINVITE, (person.id,))
        self._apply(self._without(person))

    async def _read(self) -> Iterable[WebPerson]:
        """Return the invited people. Raises `StoreError`."""
        self._asked += 1
        asked = self._asked
        known = await self._database.read(_invited)
        if asked > self._applied:
            self._applied, self._known = asked, known
        return known.values()

    def _apply(self, known: Mapping[bytes, WebPerson]) -> None:
        """Apply a change by this process.

        Refreshes in progress may be older, so they are discarded.
        """
        self._asked += 1
        self._applied, self._known = self._asked, known

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
    # Salt and a slow hash are unnecessary: the token is 24 random bytes and in no dictionary.
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def _free_id(connection: Connection, name: str) -> str:
    """Derive an id from a name. Returns one that no person has or has ever had."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    stem = re.sub(r"[^a-z0-9]+", "-", plain)[:_ID_MOST].strip("-") or "guest"
    taken = {row[0] for row in connection.execute(sql.WEB_IDS)} | _TAKEN
    number, found = 1, stem
    while found in taken:
        number += 1
        found = f"{stem}-{number}"
    return found
