"""Reads leases and what their holders published, even before this process opens the database."""

import time
from collections.abc import Sequence

from psycopg import errors

from queueing.core.leases import Leader, LeaderInfo, ServerLook
from queueing.store.postgres.connection import Plain
from queueing.store.postgres.schema import is_known

_HELD = (
    "SELECT name, holder, address, roles.epoch,"
    " (until - extract(epoch FROM clock_timestamp()))::float8, about, secret"
    " FROM roles JOIN lease_secrets USING (name)"
    " WHERE lease_secrets.epoch = roles.epoch AND holder <> ''"
    " AND until > extract(epoch FROM clock_timestamp()) ORDER BY name"
)
_OPEN = "SELECT model, count(*) FROM jobs WHERE finished_at IS NULL GROUP BY model ORDER BY model"


def introductions(plain: Plain) -> Sequence[LeaderInfo]:
    """Return the held roles by name, with what their holders published."""
    return [
        LeaderInfo(
            role=Leader(name=name, holder=holder, address=address, epoch=epoch, left_s=left_s),
            about=about,
            secret=bytes(secret),
        )
        for name, holder, address, epoch, left_s, about, secret in plain.execute(_HELD).fetchall()
    ]


def look(plain: Plain) -> ServerLook:
    """Return the held roles and the number of open jobs of each model.

    Raises `StoreError` as `is_known` does.
    """
    off_s = clock_off_s(plain)
    if not is_known(plain):
        return ServerLook(off_s=off_s)
    try:
        counts: dict[str, int] = dict(plain.execute(_OPEN).fetchall())
        return ServerLook(held=introductions(plain), open_jobs=counts, off_s=off_s)
    except (errors.UndefinedColumn, errors.UndefinedTable):
        # The tables are of a much newer version, which is rejected when the database is opened.
        return ServerLook(off_s=off_s)


def clock_off_s(plain: Plain) -> float:
    """Return how far the server's clock is ahead of this machine's, ignoring network delays."""
    before = time.time()
    row = plain.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
    middle = (before + time.time()) / 2
    return 0.0 if row is None else float(row[0]) - middle
