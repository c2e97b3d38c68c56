"""What is known of people: their own and admins' settings for them, and the port for both."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

HOUR_S = 3600.0
NO_LIMIT = -1
"""In `Person.per_hour` and `Person.gpu_per_day`: without a limit, regardless of the role."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Person:
    """One person; None for what is not set. Moments are UNIX seconds.

    `image_model` to `style` and `edit_model` to `transcribe_model` are their own defaults,
    `ask_model_at` is when `ask_model` was set; with `aloud` 1, answers to their recordings are read
    aloud as well.
    `lane`, `max_open`, `per_hour` and `gpu_per_day` (seconds) override their role's.
    `banned_until` is None for a ban without end.
    """

    user: str
    language: str | None = None
    image_model: str | None = None
    ask_model: str | None = None
    size: str | None = None
    style: str | None = None
    lane: str | None = None
    max_open: int | None = None
    per_hour: int | None = None
    banned_at: float | None = None
    banned_until: float | None = None
    ban_reason: str | None = None
    ask_model_at: float | None = None
    edit_model: str | None = None
    film_model: str | None = None
    music_model: str | None = None
    speak_model: str | None = None
    transcribe_model: str | None = None
    aloud: int | None = None
    gpu_per_day: int | None = None

    def is_banned(self, now: float) -> bool:
        """Return whether a ban holds at that moment."""
        return self.banned_at is not None and (self.banned_until is None or now < self.banned_until)


LanguageTold = Callable[[str, str | None], None]
"""Called when a person chooses a language, or (None) leaves it to their chats."""


class KnownPeople(Protocol):
    """Lists people for an operator."""

    async def known(self, users: Sequence[str]) -> Sequence[Person]:
        """Return these people, then those whom an admin has banned or given other limits."""


class People(Protocol):
    """Reads and writes what is known of people. Every write is durable when it returns."""

    async def get(self, user: str) -> Person:
        """Return a person; one without any settings when nothing is known.

        A person behind a service is banned as long as the service is, or longer by their own ban.
        """

    async def change(self, user: str, **changes: str | float | None) -> Person:
        """Set some of a person's fields and return the person as they are now."""

    async def forget(self, user: str) -> None:
        """Delete a person's own settings; what admins set for them stays."""

    def telling(self, hearer: LanguageTold) -> AbstractContextManager[None]:
        """Notify a listener of each change of a language, once it is durable, until the block ends."""
