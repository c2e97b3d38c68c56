"""Many changes of one form as one statement: their values come as a table.

Sent one by one, each costs the session and the server several times what its row does.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import count

from queueing.store.postgres.dialect import replaced
from queueing.store.sql.database import Value


@lru_cache(maxsize=256)
def together(sql: str, kinds: tuple[str, ...]) -> str:
    """Return an UPDATE that does one of single rows for many; it returns which runs changed a row.

    The parameters are `columns`, the runs are numbered from 1.
    """
    numbers = count(1)
    change, where, condition = replaced(sql, lambda: f"given.v{next(numbers)}").partition(" WHERE ")
    arrays = ", ".join(f"${number}::{kind}[]" for number, kind in enumerate(kinds, 1))
    names = ", ".join(f"v{number}" for number in range(1, len(kinds) + 1))
    values = f"unnest({arrays}) WITH ORDINALITY AS given ({names}, run)"
    return f"{change} FROM {values}{where}{condition} RETURNING given.run"


def columns(kinds: Sequence[str], rows: Sequence[Sequence[Value]]) -> list[str]:
    """Return the values of each column as PostgreSQL writes an array."""
    return [
        f"{{{','.join(map(_WRITTEN[kind], column))}}}"
        for kind, column in zip(kinds, zip(*rows, strict=True), strict=True)
    ]


def _number(value: Value) -> str:
    return "NULL" if value is None else str(int(value))


def _moment(value: Value) -> str:
    return "NULL" if value is None else repr(value)


def _text(value: Value) -> str:
    if value is None:
        return "NULL"
    escaped = str(value).replace("\\", r"\\").replace('"', r"\"")
    return f'"{escaped}"'


_WRITTEN: Mapping[str, Callable[[Value], str]] = {
    "bigint": _number,
    "double precision": _moment,
    "text": _text,
}
