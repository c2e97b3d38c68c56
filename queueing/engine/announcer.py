"""Announcer: has the next start on each busy server noted and prepared, so that it need not wait.

What is noted decides nothing: which job starts is decided when the server is free, and a start that was
not foreseen waits until it is stored.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from queueing.core.errors import StoreError
from queueing.core.jobs import JobState
from queueing.core.storage import JobChanges
from queueing.core.world import Start, World
from queueing.engine.fleet import Fleet
from queueing.engine.job_runner import Processor
from queueing.engine.running_jobs import Slot
from queueing.planning.following import following

log = logging.getLogger(__name__)

_Seen = tuple[object, ...]


class Announcer:
    """Announces, for each server that does one thing at a time, the start that will probably follow."""

    def __init__(self, *, jobs: JobChanges, fleet: Fleet, processor: Processor) -> None:
        self._jobs = jobs
        self._fleet = fleet
        self._processor = processor
        self._seen: dict[str, _Seen] = {}  # by backend: what runs there, and who would be next
        self._next: dict[str, int] = {}  # by backend: the job that was announced last

    async def look(
        self, world: World, take: Callable[[], Awaitable[World]], work: asyncio.TaskGroup
    ) -> None:
        """Announce where something has changed since the last look; `take` takes a new snapshot.

        Raises `StoreError`.
        """
        busy = self._busy()
        seen = {name: self._looked_at(world, name, slot) for name, slot in busy.items()}
        changed = [name for name in busy if seen[name] != self._seen.get(name)]
        self._seen = seen
        self._next = {name: self._next[name] for name in busy if name in self._next}
        for name in changed:
            self._next.pop(name, None)
        starts = following(await take(), changed, frozenset(self._next.values())) if changed else ()
        for start in starts:
            if not start.job.suspect:
                self._next[start.backend] = start.job.id
                work.create_task(self._announce(start), name=f"announcing job {start.job.id}")

    def _busy(self) -> dict[str, Slot]:
        """Return the one running job of each server that runs one at a time, the first to end first."""
        backends = self._fleet.catalog.backends
        slots = [
            slot
            for slot in self._fleet.jobs.slots.values()
            if backends[slot.backend].serial
            and slot.job.state is JobState.PROCESSING
            and not slot.job.suspect
        ]
        return {slot.backend: slot for slot in sorted(slots, key=lambda slot: slot.ends_at)}

    def _looked_at(self, world: World, backend: str, slot: Slot) -> _Seen:
        """Return what decides who is next on a backend, as far as a look at the lines shows."""
        heads = (
            (head.id, head.version)
            for model in world.models.values()
            if backend in model.backends
            for line in model.waiting
            for head in line.heads[:1]
        )
        return (slot.job.id, *heads)

    async def _announce(self, start: Start) -> None:
        try:
            self._processor.prepare(start)
            await self._jobs.announce(start.job, start.backend)
        except StoreError as error:  # then it waits until its start is stored
            log.debug("job %d is not announced: %s", start.job.id, error)
        except Exception:
            log.exception("job %d: not announced because of a bug", start.job.id)
