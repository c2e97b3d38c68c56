"""The buckets agree with the jobs that ended, whatever happens in between, over random histories.

The model is a plain list of all jobs that ever ended: the stored values must be exactly their sum.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from bot.app.setup import MIGRATIONS
from bot.core.live_settings import LiveSettings
from bot.monitoring.buckets import (
    GRAINS,
    BucketKey,
    EndedJob,
    ModelBucket,
    beginning,
    ended_job,
    tallied,
)
from bot.monitoring.history import History, HistoryBatch
from bot.monitoring.recorder import Recorder
from queueing.core.errors import ProblemKind, StoreError, problem
from queueing.core.events import JobChanged, Stopping
from queueing.core.jobs import Job, JobEvent, NewJob, SubmitLimits
from queueing.core.requests import Output, TextToImage
from queueing.core.status import Estimate
from queueing.service.shown_estimates import Promises
from queueing.store.engines import open_database
from queueing.store.jobs.job_store import JobStore
from queueing.store.sql.database import Database
from tests.fakes.clock import START

T = TypeVar("T")
DAY_S = 86400.0
EVER = 10 * 365 * DAY_S


class FailingHistory(History):
    """A history whose database may be away, before or after it has written."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.away: str | None = None

    async def add(self, batch: HistoryBatch) -> None:
        if self.away == "before":
            raise StoreError("away")
        await super().add(batch)
        if self.away == "after":  # the answer of the commit is lost
            raise StoreError("away")


class Machine(RuleBasedStateMachine):
    """Jobs end, events arrive late and in any order, the bot crashes and the clock is set."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.now = START
        self.numbers = iter(range(10**6))
        self.ended: list[EndedJob] = []
        self.untold: list[JobChanged] = []
        self.running: list[Job] = []

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    @initialize()
    def open(self) -> None:
        self.database = self.do(open_database("sqlite://", migrations=(MIGRATIONS,), inline=True))
        self.store = JobStore(self.database)
        self.do(self.store.prepare())
        self.begin()

    def begin(self) -> None:
        self.history = FailingHistory(self.database)
        self.promises = Promises()
        clock = type("Clock", (), {"now": lambda _: self.now})()
        self.recorder = Recorder(self.history, self.promises, clock, LiveSettings(history_s=EVER))
        self.do(self.recorder.take_up())

    # ------------------------------------------------------------ what happens

    @rule(passed_s=st.floats(0.0, 4000.0))
    def time_passes(self, passed_s: float) -> None:
        self.now += passed_s

    @rule(model=st.sampled_from(["flux", "sdxl"]), promised_s=st.none() | st.floats(0.1, 900.0))
    def a_job_begins(self, model: str, promised_s: float | None) -> None:
        key = f"k{next(self.numbers)}"
        new = NewJob(model=model, request=TextToImage(prompt="cat"), owner="ada", key=key)
        job = self.do(self.store.add(new, self.now, limits=SubmitLimits()))
        if promised_s is not None:
            at = self.now + promised_s
            ends = Estimate(at=at, earliest=at - 5, latest=at + 5)
            self.promises.tell(job.id, ends, self.now)
        change = self.store.apply(job, JobEvent.START, self.now, runner="r", backend="b")
        self.running.append(self.do(change).job)

    @rule(event=st.sampled_from(["complete", "fail", "cancel"]), data=st.data())
    def a_job_ends(self, event: str, data: st.DataObject) -> None:
        if not self.running:
            return
        job = self.running.pop(data.draw(st.integers(0, len(self.running) - 1)))
        done = JobEvent(event)
        error = problem(ProblemKind.MEMORY).code() if done is JobEvent.FAIL else None
        output = Output(text="a") if done is JobEvent.COMPLETE else None
        change = self.do(self.store.apply(job, done, self.now, error=error, output=output))
        self.untold.append(change)
        self.ended.append(ended_job(change.job, self.promises.given.get(job.id)))

    @rule(
        model=st.sampled_from(["flux", "sdxl"]),
        promised_s=st.none() | st.floats(0.1, 900.0),
        took_s=st.floats(0.0, 900.0),
        data=st.data(),
    )
    def a_job_runs_and_is_told_of(
        self, model: str, promised_s: float | None, took_s: float, data: st.DataObject
    ) -> None:
        """Do at once what single steps rarely do: a write would have nothing to count."""
        self.a_job_begins(model, promised_s)
        self.now += took_s
        self.a_job_ends(data.draw(st.sampled_from(["complete", "fail", "cancel"])), data)
        self.recorder.on_event(self.untold.pop())

    @rule(data=st.data())
    def an_event_arrives(self, data: st.DataObject) -> None:
        if self.untold:
            at = data.draw(st.integers(0, len(self.untold) - 1))
            change = self.untold[at] if data.draw(st.booleans()) else self.untold.pop(at)
            self.recorder.on_event(change)

    @rule(away=st.sampled_from([None, None, "before", "after"]))
    def it_is_written(self, away: str | None) -> None:
        self.history.away = away
        self.do(self.recorder.write())
        self.history.away = None

    @rule()
    def a_person_has_seen_it(self) -> None:
        for job in self.do(self.store.unacknowledged()):
            if job.state.final:
                self.do(self.store.acknowledge(job))

    @rule()
    def a_counted_job_is_erased(self) -> None:
        self.it_is_told_and_written()
        if self.ended:
            self.do(self.store.erase([self.ended[0].id]))

    @rule(back_s=st.floats(-20 * 3600.0, DAY_S))
    def the_bot_is_killed_and_the_clock_is_set(self, back_s: float) -> None:
        self.untold.clear()
        self._forget_unwritten_promises()
        self.now += back_s
        self.begin()

    @rule()
    def the_bot_stops_and_starts(self) -> None:
        self.it_is_told_and_written()
        self.recorder.on_event(Stopping())
        self.begin()

    # ------------------------------------------------------------ what must hold

    def it_is_told_and_written(self) -> None:
        while self.untold:
            self.recorder.on_event(self.untold.pop())
        self.do(self.recorder.write())

    def _forget_unwritten_promises(self) -> None:
        """Subtract what was promised since the last write: a kill loses it, and only that."""
        noted = self.do(self.history.promises())
        counted = {row.id for row in self.ended} - {
            job.id for job in self.do(self.history.uncounted(0.0, 10**6))[0]
        }
        self.ended = [
            job if job.id in counted or job.id in noted else replace(job, promised=None)
            for job in self.ended
        ]

    def teardown(self) -> None:
        if hasattr(self, "recorder"):
            self.it_is_told_and_written()
            for grain in GRAINS:
                stored = dict(self.do(self.history.models(grain, -EVER, START + EVER)))
                assert_same(stored, expected(self.ended, grain))
            self.do(self.database.aclose())
        self.loop.close()


def expected(jobs: list[EndedJob], grain: int) -> dict[BucketKey, ModelBucket]:
    found: dict[BucketKey, ModelBucket] = {}
    for (at, name), bucket in tallied(jobs).items():
        key = BucketKey(beginning(at, grain), name)
        found[key] = found[key].plus(bucket) if key in found else bucket
    return found


def assert_same(stored: dict[BucketKey, ModelBucket], wanted: dict[BucketKey, ModelBucket]) -> None:
    assert stored.keys() == wanted.keys()
    for key, bucket in wanted.items():
        assert abs(stored[key].service_s - bucket.service_s) < 1e-3
        assert replace(stored[key], service_s=0.0) == replace(bucket, service_s=0.0)


@pytest.mark.parametrize("histories", [15, pytest.param(60, marks=pytest.mark.thorough)])
def test_the_buckets_agree_with_the_jobs(histories: int) -> None:
    """A job would be missing from the history after a crash, or counted twice after a retry."""
    run_state_machine_as_test(Machine, settings=settings(max_examples=histories, deadline=None))
