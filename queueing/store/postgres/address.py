"""An address of a database, and what of it may be shown."""

from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict

from queueing.core.errors import StoreError

_USUAL: dict[str, str | int] = {
    "connect_timeout": 3,
    # A cut cable or a server that vanished is noticed within some seconds, in both directions.
    "keepalives_idle": 3,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 8000,
    "application_name": "usher",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """What a session is made with; `shown` is the address without its secrets."""

    options: dict[str, str | int] = field(repr=False)
    shown: str


def read_address(url: str) -> Address:
    """Read `postgresql://user:password@host:port/database?option=…`; raises `StoreError`.

    What the address leaves out comes from libpq's own variables and files (PGPASSWORD, pgpass).
    """
    shown = _shown(url)
    try:
        given = conninfo_to_dict(url)
    except psycopg.Error:  # its text may repeat a part of the password
        raise StoreError(
            f"{shown}: this is no address of a PostgreSQL database; write"
            " postgresql://user:password@host/database"
        ) from None
    options = {name: value for name, value in given.items() if value is not None}
    return Address(options={**_USUAL, **options}, shown=shown)


def _shown(url: str) -> str:
    """Return the address with neither password nor options, which may hold one, too."""
    try:
        parts = urlsplit(url)
        user = f"{unquote(parts.username)}@" if parts.username else ""
    except ValueError:
        return "postgresql://…"
    return f"postgresql://{user}{parts.netloc.rpartition('@')[2]}{parts.path}"
