"""The database of an installation and its store of jobs."""

from queueing.store.database import ChangeKind, Connection, Database, MigrationSet, Value
from queueing.store.engines import is_postgres, open_database, open_posts
from queueing.store.jobs.job_store import JobStore
from queueing.store.jobs.results import StoredFiles
from queueing.store.sqlite.ownership import is_owned

__all__ = [
    "ChangeKind",
    "Connection",
    "Database",
    "JobStore",
    "MigrationSet",
    "StoredFiles",
    "Value",
    "is_owned",
    "is_postgres",
    "open_database",
    "open_posts",
]
