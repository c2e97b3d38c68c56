"""Which version of a schema a database has: forward only, the same for every engine.

Each set of migrations counts its own version in `meta`, so the bot's tables live beside the queue's
without either knowing the other's numbers.
"""

from collections.abc import Callable, Sequence
from uuid import UUID, uuid4

from queueing.core.errors import StoreError
from queueing.store.database import Connection

_NOTE_VERSION = (
    "INSERT INTO meta (key, value) VALUES (?, ?)"
    " ON CONFLICT (key) DO UPDATE SET value = excluded.value"
)
_FIRST_ID = "INSERT INTO meta (key, value) VALUES ('database_id', ?) ON CONFLICT (key) DO NOTHING"
_VALUE = "SELECT value FROM meta WHERE key = ?"


def bring_forward(
    connection: Connection,
    name: str,
    files: Sequence[tuple[int, str]],
    run: Callable[[str], None],
) -> None:
    """Run the missing scripts of a set, inside the caller's transaction.

    Raises `StoreError` for a newer schema.
    """
    key = f"schema:{name}"
    row = connection.execute(_VALUE, (key,)).fetchone()
    version = int(row[0]) if row else 0
    if version > len(files):
        raise StoreError(
            f"the database was written by a newer Usher ({name} schema {version}, this"
            f" version knows {len(files)}): install that version again, or restore the backup made"
            " before it"
        )
    for number, script in files[version:]:
        run(script)
        connection.execute(_NOTE_VERSION, (key, str(number)))


def identify(connection: Connection) -> UUID:
    """Return the database's id, made at the first call."""
    connection.execute(_FIRST_ID, (str(uuid4()),))
    (database_id,) = connection.execute(_VALUE, ("database_id",)).fetchone()
    return UUID(database_id)
