"""The ends of programs' jobs while the database is away, in virtual time."""

import asyncio
from typing import Any, cast

from bot.api.jobs.webhook_calls import AGAIN_S, HookSettings, JobEndings
from bot.core.origin import Origin
from queueing.core.errors import StoreError
from queueing.core.jobs import Job, JobState
from tests.fakes.clock import VirtualClock
from tests.simulation.loop import in_virtual_time


def ended_job() -> Job:
    origin = Origin(
        platform="api", chat="", group=False, user="api:1", user_name="", language="en", key="k"
    )
    made = Job.__new__(Job)
    values = {"id": 7, "state": JobState.COMPLETED, "reply_to": origin.model_dump_json()}
    for name, value in (values | {"acknowledged": False, "finished_at": 1.0}).items():
        object.__setattr__(made, name, value)
    return made


class Away:
    """Deliveries with a database that is away."""

    def __init__(self) -> None:
        self.tries = 0
        self.there = False

    async def to_tell(self, after: int, limit: int) -> list[Job]:
        return [ended_job()]

    async def unacknowledged(self, owner: str | None = None) -> list[Job]:
        return []

    async def acknowledge(self, job: Job) -> None:
        self.tries += 1
        if not self.there:
            raise StoreError("away")


def endings(deliveries: Away) -> JobEndings:
    jobs = cast("Any", None)  # no webhook is called
    return JobEndings(HookSettings(), deliveries=deliveries, jobs=jobs, clock=VirtualClock())


@in_virtual_time
async def test_an_end_is_acknowledged_once_the_database_is_back() -> None:
    """Every job of a program would be kept for good."""
    away = Away()
    running = asyncio.create_task(endings(away).run())
    await asyncio.sleep(2 * AGAIN_S)
    assert away.tries == 2
    away.there = True
    await asyncio.sleep(10 * AGAIN_S)
    assert away.tries == 3
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()


@in_virtual_time
async def test_a_stop_while_the_database_is_away_is_a_stop() -> None:
    """The process would log a bug, and restart what it should end."""
    running = asyncio.create_task(endings(Away()).run())
    await asyncio.sleep(AGAIN_S / 2)
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()
