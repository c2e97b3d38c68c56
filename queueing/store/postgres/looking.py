"""Reads what other processes wrote about the posts, also before this one has opened the database."""

from collections.abc import Sequence

from psycopg import errors

from queueing.core.posts import Introduction, PostHolder, ServerLook
from queueing.store.postgres.connection import Plain
from queueing.store.postgres.schema import is_known

_HELD = (
    "SELECT name, holder, address, posts.epoch,"
    " (until - extract(epoch FROM clock_timestamp()))::float8, about, secret"
    " FROM posts JOIN post_secrets USING (name)"
    " WHERE post_secrets.epoch = posts.epoch AND holder <> ''"
    " AND until > extract(epoch FROM clock_timestamp()) ORDER BY name"
)
_OPEN = "SELECT model, count(*) FROM jobs WHERE finished_at IS NULL GROUP BY model ORDER BY model"


def introductions(plain: Plain) -> Sequence[Introduction]:
    """Return the posts that are held now, by name, with what their holders told."""
    return [
        Introduction(
            post=PostHolder(name=name, holder=holder, address=address, epoch=epoch, left_s=left_s),
            about=about,
            secret=bytes(secret),
        )
        for name, holder, address, epoch, left_s, about, secret in plain.execute(_HELD).fetchall()
    ]


def look(plain: Plain) -> ServerLook:
    """Return who holds which post, and the number of open jobs of each model.

    Raises `StoreError` as `is_known` does.
    """
    if not is_known(plain):
        return ServerLook()
    try:
        counts: dict[str, int] = dict(plain.execute(_OPEN).fetchall())
        return ServerLook(held=introductions(plain), open_jobs=counts)
    except (errors.UndefinedColumn, errors.UndefinedTable):
        return ServerLook()  # a much newer version's, which is refused when the tables are opened
