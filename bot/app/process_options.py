"""What one process of an installation does, beside what the configuration says for all of them."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessOptions:
    """The posts a process applies for, None for every one of the configuration, and its API."""

    posts: frozenset[str] | None = None
    serves_api: bool = True


EVERYTHING = ProcessOptions()
