"""Stores what the queue knows apart from its jobs: pauses, learned times, model sizes, copies."""

from collections.abc import Mapping, Sequence
from functools import partial

from queueing.core.status import Pauses
from queueing.forecast.calibration import Score
from queueing.forecast.durations import LearnedDuration
from queueing.store.jobs import queries
from queueing.store.sql.database import Connection, Database


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
        return await self._database.read(_learned)

    async def learn(self, learned: Sequence[LearnedDuration]) -> None:
        """Insert or replace learned durations."""
        await self._database.write(partial(_learn, learned=learned))

    async def scores(self) -> list[Score]:
        """Return the latest scores of estimates."""
        return await self._database.read(_scores)

    async def note_scores(self, scores: Sequence[Score]) -> None:
        """Store scores of estimates."""
        await self._database.write(partial(_note_scores, scores=scores))

    async def sizes(self) -> Mapping[str, int]:
        """Return the measured memory of models, in MB."""
        return await self._database.read(_sizes)

    async def note_sizes(self, sizes: Mapping[str, int]) -> None:
        """Insert or replace the measured memory of these models, in MB."""
        await self._database.write(partial(_note_sizes, sizes=sizes))

    async def residency(self) -> list[tuple[str, str, bool]]:
        """Return the stored copies as (model, backend, pinned)."""
        return await self._database.read(_residency)

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


def _learned(connection: Connection) -> list[LearnedDuration]:
    return [
        LearnedDuration(
            kind=kind,
            model=model,
            host=host,
            size=size,
            samples=samples,
            median_s=median_s,
            spread_s=spread_s,
        )
        for kind, model, host, size, samples, median_s, spread_s in connection.execute(
            queries.LEARNED
        )
    ]


def _learn(connection: Connection, learned: Sequence[LearnedDuration]) -> None:
    connection.executemany(
        queries.LEARN,
        [
            (one.kind, one.model, one.host, one.size, one.samples, one.median_s, one.spread_s)
            for one in learned
        ],
    )


def _scores(connection: Connection) -> list[Score]:
    return [
        Score(category=category, slot=slot, number=number, value=value)
        for category, slot, number, value in connection.execute(queries.SCORES)
    ]


def _note_scores(connection: Connection, scores: Sequence[Score]) -> None:
    rows = [(each.category, each.slot, each.number, each.value) for each in scores]
    connection.executemany(queries.NOTE_SCORE, rows)


def _sizes(connection: Connection) -> Mapping[str, int]:
    return dict(connection.execute(queries.SIZES).fetchall())


def _note_sizes(connection: Connection, sizes: Mapping[str, int]) -> None:
    connection.executemany(queries.NOTE_SIZE, sizes.items())


def _residency(connection: Connection) -> list[tuple[str, str, bool]]:
    rows = connection.execute(queries.RESIDENCY)
    return [(model, backend, bool(pinned)) for model, backend, pinned in rows]


def _note_residency(
    connection: Connection, copies: Sequence[tuple[str, str, str, str, bool]]
) -> None:
    connection.execute(queries.FORGET_RESIDENCY)
    connection.executemany(queries.NOTE_RESIDENCY, copies)
