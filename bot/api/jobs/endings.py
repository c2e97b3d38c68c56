"""Sees programs' jobs to their end: calls the webhook of those that have one, then acknowledges.

An ended job stays unacknowledged until its webhook was called, so that no crash loses the call; once
acknowledged, retention may delete it. Of several processes that serve the API, the one that holds
the queue does so for all: so each webhook is called once, and after a failover by the next holder.
"""

import asyncio
import logging
from collections.abc import Collection

from bot.api.jobs.webhook_calls import HookCalls, HookSettings, OwedCall
from bot.api.runs.runs import api_origin
from bot.core.deliveries import Deliveries
from bot.core.queue import JobReader
from queueing.core.concurrency import TaskGroup, together
from queueing.core.errors import StoreError
from queueing.core.events import Erased, Event, JobChanged
from queueing.core.jobs import Job
from queueing.core.ports import Clock

log = logging.getLogger(__name__)

TOGETHER_S = 1.0
"""How long ended jobs are gathered, to be acknowledged in one transaction."""
AGAIN_S = 30.0


class JobEndings:
    """Acknowledges the ends of programs' jobs. `on_event` listens to the queue."""

    def __init__(
        self, hooks: HookSettings, *, deliveries: Deliveries, jobs: JobReader, clock: Clock
    ) -> None:
        self._hooks = hooks
        self._deliveries = deliveries
        self._jobs = jobs
        self._clock = clock
        self._ended: dict[int, Job] = {}
        self._news = asyncio.Event()
        self._told: set[int] = set()

    def on_event(self, event: Event) -> None:
        """Record an event of the queue; never blocks."""
        match event:
            case JobChanged(job=job) if job.state.final and not job.acknowledged:
                self._note(job)
            case Erased(job_ids=job_ids):
                for job_id in job_ids:
                    self._ended.pop(job_id, None)

    async def run(self) -> None:
        """Serve until cancelled; begins with what an earlier run left."""
        calls = HookCalls(self._hooks, jobs=self._jobs, clock=self._clock, settled=self._settle)
        owed: set[int] = set()
        async with TaskGroup() as tasks:
            tasks.create_task(calls.run())
            for job in await self._left():
                self._note(job)
            while True:
                await self._news.wait()
                self._news.clear()
                for job in [job for job in self._ended.values() if job.id not in owed]:
                    owed.add(job.id)
                    origin = api_origin(job)
                    if origin is None or origin.hook is None:
                        self._told.add(job.id)
                    else:
                        ended_at = job.finished_at or 0.0
                        calls.owe(OwedCall(job_id=job.id, ended_at=ended_at, hook=origin.hook))
                await asyncio.sleep(TOGETHER_S)
                owed -= await self._acknowledge()

    async def _left(self) -> Collection[Job]:
        while True:
            try:
                return [job for job in await self._deliveries.to_tell(0, 0) if job.state.final]
            except StoreError as error:
                log.warning("ended jobs of an earlier run cannot be read: %s", error)
                await asyncio.sleep(AGAIN_S)

    def _note(self, job: Job) -> None:
        if api_origin(job) is not None:
            self._ended[job.id] = job
            self._news.set()

    def _settle(self, job_id: int) -> None:
        self._told.add(job_id)
        self._news.set()

    async def _acknowledge(self) -> set[int]:
        """Acknowledge what was told; return the numbers of jobs that are done with."""
        told = {number for number in self._told if number in self._ended}
        jobs = [self._ended[number] for number in told]
        try:
            await together(*map(self._deliveries.acknowledge, jobs))  # at once: one transaction
        except StoreError as error:
            log.warning("the ends of jobs cannot be acknowledged: %s", error)
            self._news.set()
            await asyncio.sleep(AGAIN_S)
            told = set()
        for number in told:
            self._ended.pop(number, None)
        gone = {number for number in self._told if number not in self._ended}
        self._told -= told | gone
        return told | gone
