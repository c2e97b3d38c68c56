"""Finds out whose status message no longer shows where its job stands.

Looks at the moved lines as a whole, at most once a second, so that a long line costs one question
and wakes only the chats whose text really changes. It never sends.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable

from bot.cards import Card
from bot.platforms.base import Content
from queueing.errors import StoreError
from queueing.jobqueue import JobQueue
from queueing.jobs import JobState
from queueing.reports import Standing

log = logging.getLogger(__name__)

_REST_S = 1.0


class Lookout:
    """Compares what waiting jobs' messages show with what is true.

    `cards` are all there are, `draw` returns what a card should show, and `stale` is told of every
    card that shows something else.
    """

    def __init__(
        self,
        *,
        queue: JobQueue,
        cards: Collection[Card],
        draw: Callable[[Card, Standing], Content],
        stale: Callable[[Card], None],
    ) -> None:
        self._queue = queue
        self._cards = cards
        self._draw = draw
        self._stale = stale
        self._models: set[str] = set()
        self._moved = asyncio.Event()

    def moved(self, models: Iterable[str]) -> None:
        """Look at these models' lines soon. Never blocks."""
        self._models.update(models)
        self._moved.set()

    async def run(self) -> None:
        """Look whenever lines moved, until cancelled."""
        while True:
            await self._moved.wait()
            self._moved.clear()
            models, self._models = self._models, set()
            try:
                await self._look([card for card in self._cards if _waits(card, models)])
            except StoreError as error:
                log.warning("places in line cannot be read: %s", error)
                self.moved(models)
            except Exception:
                log.exception("places in line cannot be shown")
            await asyncio.sleep(_REST_S)

    async def _look(self, cards: Collection[Card]) -> None:
        standings = await self._queue.standings([card.job for card in cards])
        for card in cards:
            standing = standings.get(card.job.id)
            if standing is None or standing.job.version < card.job.version:
                continue  # it went on while the places were read: another event tells
            if standing.job.state is not JobState.PENDING:
                continue
            card.job = standing.job  # nothing else tells that it has left the back row
            card.stand(standing)
            if card.shown is not None and self._draw(card, standing) != card.shown:
                card.moved = True
                self._stale(card)


def _waits(card: Card, models: Collection[str]) -> bool:
    job = card.job
    return job.model in models and job.state is JobState.PENDING and not card.muted
