"""The shared dialect as PostgreSQL takes it, and the statements that differ."""

import re
from functools import lru_cache
from itertools import count

from queueing.store.database import EngineStatements

STATEMENTS = EngineStatements(
    last_id=(
        "SELECT greatest((SELECT highest FROM deleted_jobs),"
        " coalesce((SELECT max(id) FROM jobs), 0))"
    ),
    overflow=(
        "SELECT id, model, lane, owner, bulk FROM jobs WHERE finished_at IS NULL AND seq IS NULL"
        " AND state = 'pending' ORDER BY id"
    ),
    open_after="SELECT id FROM jobs WHERE finished_at IS NULL AND id > ? ORDER BY id LIMIT ?",
    places=(
        "SELECT coalesce(json_agg(id), '[]')::text, coalesce(json_agg(seq), '[]')::text"
        " FROM (SELECT id, seq FROM jobs WHERE state = 'pending' AND model = ? AND lane = ?"
        " AND seq > ? ORDER BY seq LIMIT ?) AS places"
    ),
)

# What may contain a question mark that is no value: texts, quoted names and comments.
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*|/\*.*?\*/|\?", re.DOTALL)


@lru_cache(maxsize=1024)
def numbered(sql: str) -> str:
    """Return a statement with `$1`, `$2`, … in place of each `?` that stands for a value."""
    numbers = count(1)
    return _QUOTED.sub(
        lambda found: f"${next(numbers)}" if found.group() == "?" else found.group(), sql
    )
