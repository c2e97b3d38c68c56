"""The database of an installation and the store of jobs in it."""

from queueing.store.database import Database, open_database
from queueing.store.ownership import is_owned
from queueing.store.pieces import bytes_of
from queueing.store.results import ResultFiles
from queueing.store.schema import MigrationSet
from queueing.store.sqlite import SqliteStore

__all__ = [
    "Database",
    "MigrationSet",
    "ResultFiles",
    "SqliteStore",
    "bytes_of",
    "is_owned",
    "open_database",
]
