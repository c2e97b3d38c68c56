"""The shared dialect as PostgreSQL takes it, and the statements that differ."""

import re
from collections.abc import Callable
from functools import lru_cache
from itertools import count

from queueing.store.sql.database import EngineStatements

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
    columns=(
        "SELECT tables.relname::text, columns.attname::text, EXISTS (SELECT 1 FROM pg_index"
        " WHERE indrelid = tables.oid AND indisprimary AND columns.attnum = ANY (indkey))"
        " FROM pg_class AS tables JOIN pg_attribute AS columns ON columns.attrelid = tables.oid"
        " WHERE tables.relnamespace = to_regnamespace(current_schema()) AND tables.relkind = 'r'"
        " AND tables.relname NOT IN ('deleted_jobs', 'posts', 'post_secrets')"
        " AND columns.attnum > 0 AND NOT columns.attisdropped"
        " ORDER BY tables.relname, columns.attnum"
    ),
    note_last_id=("UPDATE deleted_jobs SET highest = ?",),
    settle_numbers="""
DO $$
DECLARE
    numbered record;
BEGIN
    FOR numbered IN SELECT table_name, column_name FROM information_schema.columns
        WHERE table_schema = current_schema() AND is_identity = 'YES'
    LOOP
        EXECUTE format(
            'SELECT setval(pg_get_serial_sequence(%L, %L), greatest(max(%I), 1), count(*) > 0) FROM %I',
            quote_ident(numbered.table_name), numbered.column_name, numbered.column_name,
            numbered.table_name
        );
    END LOOP;
END $$
""",
    turn=("SELECT pg_advisory_xact_lock(1431521365, hashtext(current_schema() || ' ' || ?::text))"),
)

# What may contain a question mark that is no value: texts, quoted names and comments.
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*|/\*.*?\*/|\?", re.DOTALL)


@lru_cache(maxsize=1024)
def numbered(sql: str) -> str:
    """Return a statement with `$1`, `$2`, … in place of each `?` that stands for a value."""
    numbers = count(1)
    return replaced(sql, lambda: f"${next(numbers)}")


def replaced(sql: str, following: Callable[[], str]) -> str:
    """Return a statement with the following text in place of each `?` that stands for a value."""
    return _QUOTED.sub(lambda found: following() if found.group() == "?" else found.group(), sql)
