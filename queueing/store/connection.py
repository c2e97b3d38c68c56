"""What changes and queries work on: the little of a database engine that the application uses.

SQL is written in the dialect that SQLite and PostgreSQL share, with `?` for a value.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Value = str | int | float | bytes | None
"""What a parameter can be. Truth is stored as 0 or 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineStatements:
    """The few statements that every engine has its own words for."""

    last_id: str
    """The highest number that any job ever had, 0 before the first."""

    back_rows: str
    """(id, model, lane, owner) of the jobs in back rows, by id, without reading those that ended."""

    open_after: str
    """Numbers of open jobs after a number, at most so many, by id; reads none that ended."""

    places: str
    """Ids and places in the line of a model and lane after a place, at most so many, in order.

    One row of two JSON arrays: thousands of rows would each wait for the other threads' turn.
    """


class Cursor(Protocol):
    """The rows of a statement, each a tuple."""

    @property
    def rowcount(self) -> int:
        """How many rows a change has touched."""

    def fetchone(self) -> Any:
        """Return the next row, or None."""

    def fetchall(self) -> list[Any]:
        """Return the rows that are left; none for a statement that returns no rows."""

    def __iter__(self) -> Iterator[Any]:
        """Yield the rows that are left."""


class Connection(Protocol):
    """A connection inside the transaction of whoever lends it; a borrower neither commits nor keeps it."""

    @property
    def statements(self) -> EngineStatements:
        """The statements in this engine's words."""

    def execute(self, sql: str, parameters: Sequence[Value] = (), /) -> Cursor:
        """Run a statement."""

    def executemany(self, sql: str, parameters: Iterable[Sequence[Value]], /) -> Cursor:
        """Run a statement that returns no rows, once for each."""

    def piece(self, table: str, key: Mapping[str, Value], start: int, length: int) -> bytes | None:
        """Return up to `length` bytes from `start` of the column `data` of the row with this key.

        Large files need not be in memory to be sent. None where there is no such row.
        """
