"""Where the database is: in a file beside the configuration, or on a PostgreSQL server."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import parse_qs, unquote, urlsplit

from pydantic import BeforeValidator, SecretStr, ValidationInfo, WithJsonSchema

from bot.config.values import beside

_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_WANTED = "must be a file, or an address such as postgresql://user:password@host/database"


@dataclass(frozen=True, kw_only=True, slots=True)
class DatabaseServer:
    """A database on a server; `sign` stands for it beside the configuration, as a file would."""

    url: SecretStr
    sign: Path

    @property
    def name(self) -> str:
        """What it may be called where others read along."""
        return shown(self.url.get_secret_value())

    def secrets(self) -> frozenset[str]:
        """Return the passwords in the address, however they are written."""
        return passwords(self.url.get_secret_value())


def is_address(text: str) -> bool:
    """Return whether a text names a database by an address, and not by a file."""
    return _ADDRESS.match(text) is not None


def shown(address: str) -> str:
    """Return what an address may be called where others read along: its host and its path."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return "a database"
    return f"{parts.hostname or 'this machine'}{parts.path}"


def passwords(address: str) -> frozenset[str]:
    """Return the passwords in an address, however they are written."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return frozenset()
    given = [parts.password or ""]
    for name, values in parse_qs(parts.query).items():
        if "password" in name:
            given += values
    return frozenset({*given, *map(unquote, given)} - {""})


def _read(value: object, info: ValidationInfo) -> object:
    if isinstance(value, DatabaseServer | Path) or not isinstance(value, str):
        return value
    if not _ADDRESS.match(value):
        return beside(Path(value), info)
    try:
        parts = urlsplit(value)
        parts.port  # noqa: B018  raises ValueError for a port out of range
    except ValueError:
        raise ValueError(_WANTED) from None  # its own text could repeat the password
    if parts.scheme not in {"postgresql", "postgres"}:
        raise ValueError(_WANTED)
    return DatabaseServer(url=SecretStr(value), sign=beside(Path("usher.postgresql"), info))


DatabasePlace = Annotated[
    Path | DatabaseServer, BeforeValidator(_read), WithJsonSchema({"type": "string"})
]
