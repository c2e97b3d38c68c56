"""The database of an installation and the store of jobs in it."""

from queueing.store.connection import Connection, Value
from queueing.store.jobs.job_store import SqliteStore
from queueing.store.jobs.results import ResultFiles
from queueing.store.sqlite.database import Database, open_database
from queueing.store.sqlite.ownership import is_owned
from queueing.store.sqlite.schema import MigrationSet

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
