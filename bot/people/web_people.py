"""People who may use the web chat. Each is identified by a token, never by a typed name."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

_LEAST_KINDS = 6  # different characters; a random hexadecimal token of 16 has ten

_LEAST_LEFT = 8  # characters in addition to the words that every attacker tries

_WORDS = re.compile(
    "pass(word|wort)?|geheim|secret|token|usher|admin|owner|change-?me|welcome|willkommen|letmein"
    "|hallo|hello|test|demo|local|example|beispiel|qwert[yz]|asdf|master|default|discord|telegram"
    "|web|chat|bot|please|bitte|the|my|mein",
    re.IGNORECASE,
)


def is_weak(token: str) -> bool:
    """Return whether a long token is guessable: by repetition, sequences or common words."""
    repeated = (token + token).find(token, 1) < len(token)
    steps = [abs(ord(after) - ord(before)) for before, after in pairwise(token)]
    in_a_row = sum(step <= 1 for step in steps) > len(steps) / 2
    left = re.sub(r"[\W_]|19\d\d|20\d\d|1234\d*", "", _WORDS.sub("", token))
    few = len(set(token.casefold())) < _LEAST_KINDS
    return repeated or in_a_row or few or len(left) < _LEAST_LEFT


LEAST_TOKEN = 16  # characters; a shorter one could be guessed


@dataclass(frozen=True, kw_only=True, slots=True)
class WebPerson:
    """A person of the web chat. `id` is also the name of their chat; their user is "web:<id>"."""

    id: str
    name: str


LOCAL = WebPerson(id="local", name="You")


class WebPeople(Protocol):
    """Knows the people of the web chat. Reads from memory. The people may change at any time."""

    async def look(self) -> None:
        """Refresh from other processes' changes. Called repeatedly."""

    def by_token(self, token: str) -> WebPerson | None:
        """Return the person with this token. An almost right token takes as long as a wrong one."""

    def by_id(self, person: str) -> WebPerson | None:
        """Return the person with this id, or None if there is none."""


class FixedPeople:
    """The people in the configuration, each with a token. Raises `ValueError` for a weak token."""

    def __init__(self, tokens: Mapping[str, WebPerson]) -> None:
        for token, person in tokens.items():
            if len(token) < LEAST_TOKEN:
                raise ValueError(
                    f"the web chat token of {person.id} is shorter than {LEAST_TOKEN} characters"
                )
        # Looked up by digest, so that the lookup's duration reveals nothing about the token.
        self._by_digest = {_digest(token): person for token, person in tokens.items()}
        self._by_id = {person.id: person for person in tokens.values()}

    async def look(self) -> None:
        """Do nothing: the configuration does not change."""

    def by_token(self, token: str) -> WebPerson | None:
        """Return the person with this token."""
        return self._by_digest.get(_digest(token))

    def by_id(self, person: str) -> WebPerson | None:
        """Return the person with this id."""
        return self._by_id.get(person)


class CombinedPeople:
    """Combines several `WebPeople`."""

    def __init__(self, *kinds: WebPeople) -> None:
        self._kinds = kinds

    async def look(self) -> None:
        """Refresh all of them."""
        for kind in self._kinds:
            await kind.look()

    def by_token(self, token: str) -> WebPerson | None:
        """Return the person with this token."""
        return next(filter(None, (kind.by_token(token) for kind in self._kinds)), None)

    def by_id(self, person: str) -> WebPerson | None:
        """Return the person with this id."""
        return next(filter(None, (kind.by_id(person) for kind in self._kinds)), None)


class OnlyLocal:
    """Treats every visitor of a loopback address as the same person, without a token."""

    async def look(self) -> None:
        """Do nothing: the only person never changes."""

    def by_token(self, token: str) -> WebPerson | None:  # noqa: ARG002 - the protocol's
        """Return the local person, whatever the token."""
        return LOCAL

    def by_id(self, person: str) -> WebPerson | None:
        """Return the local person under their id."""
        return LOCAL if person == LOCAL.id else None


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
