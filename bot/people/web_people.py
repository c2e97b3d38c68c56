"""The people who may use the web chat, each known by a token, never by a name they type."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

_LEAST_KINDS = 6  # different characters; sixteen random ones of a hexadecimal token have ten

_LEAST_LEFT = 8  # characters beside words that every guesser tries

_WORDS = re.compile(
    "pass(word|wort)?|geheim|secret|token|usher|admin|owner|change-?me|welcome|willkommen|letmein"
    "|hallo|hello|test|demo|local|example|beispiel|qwert[yz]|asdf|master|default|discord|telegram"
    "|web|chat|bot|please|bitte|the|my|mein",
    re.IGNORECASE,
)


def is_weak(token: str) -> bool:
    """Return whether a long token could still be guessed: repeated, sequential, or words."""
    repeated = (token + token).find(token, 1) < len(token)
    steps = [abs(ord(after) - ord(before)) for before, after in pairwise(token)]
    in_a_row = sum(step <= 1 for step in steps) > len(steps) / 2
    left = re.sub(r"[\W_]|19\d\d|20\d\d|1234\d*", "", _WORDS.sub("", token))
    few = len(set(token.casefold())) < _LEAST_KINDS
    return repeated or in_a_row or few or len(left) < _LEAST_LEFT


LEAST_TOKEN = 16  # characters; a shorter one could be guessed


@dataclass(frozen=True, kw_only=True, slots=True)
class WebPerson:
    """A person of the web chat; `id` is also the name of their chat, and "web:<id>" their user."""

    id: str
    name: str


LOCAL = WebPerson(id="local", name="You")


class WebPeople(Protocol):
    """Knows the people of the web chat. Answers from memory and may change at any time."""

    async def look(self) -> None:
        """Learn what other processes have changed; called again and again."""

    def by_token(self, token: str) -> WebPerson | None:
        """Return the person with that token; takes no longer for a nearly right one."""

    def by_id(self, person: str) -> WebPerson | None:
        """Return the person of that id, None if no one is (or is any longer) known by it."""


class FixedPeople:
    """WebPeople known from the configuration: a token for each. Raises `ValueError` for a weak one."""

    def __init__(self, tokens: Mapping[str, WebPerson]) -> None:
        for token, person in tokens.items():
            if len(token) < LEAST_TOKEN:
                raise ValueError(
                    f"the web chat's token of {person.id} is shorter than {LEAST_TOKEN} characters"
                )
        # Looked up by digest, so the time a lookup takes reveals nothing about the token.
        self._by_digest = {_digest(token): person for token, person in tokens.items()}
        self._by_id = {person.id: person for person in tokens.values()}

    async def look(self) -> None:
        """Do nothing: the configuration stays as it was read."""

    def by_token(self, token: str) -> WebPerson | None:
        """Return the person with that token."""
        return self._by_digest.get(_digest(token))

    def by_id(self, person: str) -> WebPerson | None:
        """Return the person of that id."""
        return self._by_id.get(person)


class CombinedPeople:
    """WebPeople of several kinds, each known as their own kind knows them."""

    def __init__(self, *kinds: WebPeople) -> None:
        self._kinds = kinds

    async def look(self) -> None:
        """Have every kind learn."""
        for kind in self._kinds:
            await kind.look()

    def by_token(self, token: str) -> WebPerson | None:
        """Return the person with that token."""
        return next(filter(None, (kind.by_token(token) for kind in self._kinds)), None)

    def by_id(self, person: str) -> WebPerson | None:
        """Return the person of that id."""
        return next(filter(None, (kind.by_id(person) for kind in self._kinds)), None)


class OnlyLocal:
    """Every visitor of a loopback address without a token is one and the same person."""

    async def look(self) -> None:
        """Do nothing: there is only one."""

    def by_token(self, token: str) -> WebPerson | None:  # noqa: ARG002 - the protocol's
        """Return the local person, whatever the token."""
        return LOCAL

    def by_id(self, person: str) -> WebPerson | None:
        """Return the local person under their id."""
        return LOCAL if person == LOCAL.id else None


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
