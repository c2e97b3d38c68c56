"""`Invites`: people of the web chat invited by an admin, in the jobs' database.

A token is stored hashed; lookups are answered from memory.
"""

import hashlib
import re
import secrets
import unicodedata
from collections.abc import Mapping

from bot.people import sql
from bot.people.invites import Invitation
from bot.people.web_people import LOCAL, WebPerson
from queueing.store import Connection, Database

_TOKEN_BYTES = 24
_ID_MOST = 24  # characters
_TAKEN = frozenset({LOCAL.id})


class StoredInvites:
    """`Invites` in the jobs' database; create it with `read`.

    `page` is the page's address as people reach it.
    """

    def __init__(self, database: Database, page: str, known: Mapping[bytes, WebPerson]) -> None:
        self._database = database
        self._page = page
        self._known = dict(known)

    @classmethod
    async def read(cls, database: Database, page: str) -> "StoredInvites":
        """Return the people invited so far. Raises `StoreError`."""

        def query(connection: Connection) -> dict[bytes, WebPerson]:
            rows = connection.execute(sql.INVITED)
            return {digest: WebPerson(id=each, name=name) for digest, each, name in rows}

        return cls(database, page, await database.read(query))

    def by_token(self, token: str) -> WebPerson | None:
        """Return the person with that token."""
        # Looked up by digest, so the time a lookup takes reveals nothing about the token.
        return self._known.get(_digest(token))

    def by_id(self, person: str) -> WebPerson | None:
        """Return the person of that id, None if they are not invited (any more)."""
        return next((each for each in self._known.values() if each.id == person), None)

    def named(self, name: str) -> WebPerson | None:
        """Return the invited person of that name, otherwise of that id ("ada" or "web:ada")."""
        return self._by_name(name) or self.by_id(name.removeprefix("web:").casefold())

    def everybody(self) -> list[WebPerson]:
        """Return all invited people, by name."""
        return sorted(self._known.values(), key=lambda person: (person.name.casefold(), person.id))

    async def invite(self, name: str, now: float) -> Invitation:
        """Invite a person, or replace the link of an invited one.

        The token exists in the returned link only. Durable when it returns; raises `StoreError`.
        """
        before = self._by_name(name)
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        digest = _digest(token)

        def change(connection: Connection) -> WebPerson:
            person = before or WebPerson(id=_free_id(connection, name), name=name)
            connection.execute(sql.INVITE, (person.id, person.name, digest, now))
            return person

        person = await self._database.write(change)
        self._forget(person)
        self._known[digest] = person
        link = f"{self._page}?token={token}"
        return Invitation(person=person, link=link, renewed=before is not None)

    async def uninvite(self, person: WebPerson) -> None:
        """Withdraw an invitation: the link ends, and so do open pages. Idempotent."""

        def change(connection: Connection) -> None:
            connection.execute(sql.UNINVITE, (person.id,))

        await self._database.write(change)
        self._forget(person)

    def _by_name(self, name: str) -> WebPerson | None:
        wanted = name.casefold()
        return next((each for each in self.everybody() if each.name.casefold() == wanted), None)

    def _forget(self, person: WebPerson) -> None:
        self._known = {digest: each for digest, each in self._known.items() if each.id != person.id}


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
