"""The people who may use the web chat, and the token each is known by; never by a name they type."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

LEAST_TOKEN = 16  # characters; a shorter one could be guessed


@dataclass(frozen=True, kw_only=True, slots=True)
class Person:
    """A person of the web chat; `id` is also the name of their chat, and "web:<id>" their user."""

    id: str
    name: str


LOCAL = Person(id="local", name="You")


class People(Protocol):
    """Knows the people of the web chat. Answers from memory and may change at any time."""

    def by_token(self, token: str) -> Person | None:
        """Return whose token that is; takes no longer for a nearly right one."""

    def by_id(self, person: str) -> Person | None:
        """Return the person of that id, None if nobody is (or is no longer) known by it."""


class FixedPeople:
    """People known from the configuration: a token for each. Raises `ValueError` for a weak one."""

    def __init__(self, tokens: Mapping[str, Person]) -> None:
        for token, person in tokens.items():
            if len(token) < LEAST_TOKEN:
                raise ValueError(
                    f"the web chat's token of {person.id} is shorter than {LEAST_TOKEN} characters"
                )
        # Looked up by digest, so the time a lookup takes tells nothing about the token.
        self._by_digest = {_digest(token): person for token, person in tokens.items()}
        self._by_id = {person.id: person for person in tokens.values()}

    def by_token(self, token: str) -> Person | None:
        """Return whose token that is."""
        return self._by_digest.get(_digest(token))

    def by_id(self, person: str) -> Person | None:
        """Return the person of that id."""
        return self._by_id.get(person)


class Together:
    """People of several kinds, each known as their own kind knows them."""

    def __init__(self, *kinds: People) -> None:
        self._kinds = kinds

    def by_token(self, token: str) -> Person | None:
        """Return whose token that is."""
        return next(filter(None, (kind.by_token(token) for kind in self._kinds)), None)

    def by_id(self, person: str) -> Person | None:
        """Return the person of that id."""
        return next(filter(None, (kind.by_id(person) for kind in self._kinds)), None)


class OnlyLocal:
    """Everybody who reaches a loopback address without a token is one and the same person."""

    def by_token(self, token: str) -> Person | None:  # noqa: ARG002 - the protocol's
        """Return the local person, whatever the token."""
        return LOCAL

    def by_id(self, person: str) -> Person | None:
        """Return the local person under their id."""
        return LOCAL if person == LOCAL.id else None


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
