"""The database of an installation and the store of jobs in it."""

from queueing.store.connection import Connection, Value
from queueing.store.database import Database, open_database
from queueing.store.ownership import is_owned
from queueing.store.results import ResultFiles
from queueing.store.schema import MigrationSet
from queueing.store.sqlite import SqliteStore

__all__ = [
    "Connection",
    "Database",
    "MigrationSet",
    "ResultFiles",
    "SqliteStore",
    "Value",
    "is_owned",
    "open_database",
]
