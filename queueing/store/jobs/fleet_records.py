"""Stores what the queue knows apart from its jobs: pauses, learned times, model sizes, copies."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial
from operator import attrgetter

from queueing.core.status import Pauses
from queueing.forecast.calibration import Score
from queueing.forecast.durations import LearnedDuration
from queueing.store.jobs import queries
from queueing.store.sql.database import Connection, Database

_LEARNED = tuple(each.name for each in fields(LearnedDuration))


class FleetRecords:
    """Reads and writes the pauses of admins and what is known about models."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def paused(self) -> Pauses:
        """Return what is paused."""
        return await self._database.read(_paused)

    async def note_paused(self, paused: Pauses) -> None:
        """Replace all pauses."""
        await self._database.write(partial(_note_paused, paused=paused))

    async def learned(self) -> list[LearnedDuration]:
        """Return all learned durations."""
        rows = await self._database.rows(queries.LEARNED)
        return [LearnedDuration(**dict(zip(_LEARNED, row, strict=True))) for row in rows]

    async def learn(self, learned: Sequence[LearnedDuration]) -> None:
        """Insert or replace learned durations."""
        rows = [attrgetter(*_LEARNED)(each) for each in learned]
        await self._database.executemany(queries.LEARN, rows)

    async def scores(self) -> list[Score]:
        """Return the latest scores of estimates."""
        return [
            Score(category=category, slot=slot, number=number, value=value)
            for category, slot, number, value in await self._database.rows(queries.SCORES)
        ]

    async def note_scores(self, scores: Sequence[Score]) -> None:
        """Store scores of estimates."""
        rows = [(each.category, each.slot, each.number, each.value) for each in scores]
        await self._database.executemany(queries.NOTE_SCORE, rows)

    async def sizes(self) -> Mapping[str, int]:
        """Return the measured memory of models, in MB."""
        return dict(await self._database.rows(queries.SIZES))

    async def note_sizes(self, sizes: Mapping[str, int]) -> None:
        """Insert or replace the measured memory of these models, in MB."""
        await self._database.executemany(queries.NOTE_SIZE, list(sizes.items()))

    async def residency(self) -> list[tuple[str, str, bool]]:
        """Return the stored copies as (model, backend, pinned)."""
        rows = await self._database.rows(queries.RESIDENCY)
        return [(model, backend, bool(pinned)) for model, backend, pinned in rows]

    async def note_residency(self, copies: Sequence[tuple[str, str, str, str, bool]]) -> None:
        """Replace all stored copies: (host, backend, model, residency, pinned)."""
        await self._database.write(partial(_note_residency, copies=copies))


def _paused(connection: Connection) -> Pauses:
    rows = connection.execute(queries.PAUSES).fetchall()
    return Pauses(
        everything=any(kind == "everything" for kind, _ in rows),
        models=frozenset(name for kind, name in rows if kind == "model"),
        hosts=frozenset(name for kind, name in rows if kind == "host"),
        awake=dict(connection.execute(queries.AWAKE).fetchall()),
    )


def _note_paused(connection: Connection, paused: Pauses) -> None:
    rows = [("everything", "")] if paused.everything else []
    rows += [("model", name) for name in sorted(paused.models)]
    rows += [("host", name) for name in sorted(paused.hosts)]
    connection.execute(queries.FORGET_PAUSES)
    connection.executemany(queries.NOTE_PAUSE, rows)
    connection.execute(queries.FORGET_AWAKE)
    connection.executemany(queries.NOTE_AWAKE, sorted(paused.awake.items()))


def _note_residency(
    connection: Connection, copies: Sequence[tuple[str, str, str, str, bool]]
) -> None:
    connection.execute(queries.FORGET_RESIDENCY)
    connection.executemany(queries.NOTE_RESIDENCY, copies)
