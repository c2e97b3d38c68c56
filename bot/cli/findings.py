"""What `usher check` finds: the rows of its table."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """A row of the table; `works` is None for information, or if it could not be tried."""

    what: str
    name: str
    works: bool | None
    text: str


def told(what: str, name: str, text: str) -> Finding:
    """Return a row that informs."""
    return Finding(what=what, name=name, works=None, text=text)
