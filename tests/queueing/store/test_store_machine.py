"""The store compared with a model simple enough to be obviously right, over random histories."""

import asyncio
import tempfile
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from queueing.core.errors import LimitReached, StaleJob
from queueing.core.jobs import FINAL, TRANSITIONS, Job, JobEvent, JobState, NewJob, SubmitLimits
from queueing.core.requests import Output, TextToImage
from queueing.store.engines import open_database
from queueing.store.jobs.job_store import JobStore
from tests.fakes.programs.postgres_server import PostgresServer
from tests.samples import examples

T = TypeVar("T")
OWNERS = st.sampled_from(["ada", "bob"])
QUEUES = st.sampled_from([("flux", "normal"), ("flux", "vip"), ("sdxl", "normal")])
LIMITS = st.builds(
    SubmitLimits,
    max_open=st.none() | st.integers(1, 12),
    max_queued=st.none() | st.integers(1, 3),
    max_waiting=st.none() | st.integers(1, 20),
    max_per_hour=st.none() | st.integers(0, 20),
)
HOUR_S = 3600.0
HELD = -1.0  # in place of a delay: until it is given another request


@dataclass
class Model:
    """All jobs as last seen, and each queue and overflow as a plain list of job ids."""

    jobs: dict[int, Job] = field(default_factory=dict)
    keys: dict[str, int] = field(default_factory=dict)
    queues: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    overflow: dict[str, list[int]] = field(default_factory=dict)
    entered: dict[int, int] = field(default_factory=dict)  # job id: when it got its place
    charges: dict[int, tuple[str, float]] = field(default_factory=dict)  # kept forever
    clock: int = 0

    def open_of(self, owner: str) -> list[Job]:
        return [job for job in self.jobs.values() if job.owner == owner and not job.state.final]

    def waiting_for(self, model: str) -> int:
        pending = (job for job in self.jobs.values() if job.state is JobState.PENDING)
        return sum(job.model == model for job in pending)

    def charged(self, owner: str, now: float) -> int:
        return sum(who == owner and at > now - HOUR_S for who, at in self.charges.values())

    def refuses(self, new: NewJob, limits: SubmitLimits, now: float) -> bool:
        quota = limits.max_per_hour
        used_up = quota is not None and self.charged(new.owner, now) >= quota
        too_many = limits.max_open is not None and len(self.open_of(new.owner)) >= limits.max_open
        full = limits.max_waiting is not None and self.waiting_for(new.model) >= limits.max_waiting
        return used_up or too_many or full

    def accept(self, job: Job, key: str, limits: SubmitLimits) -> None:
        row = self.overflow.setdefault(job.owner, [])
        placed = len(self.open_of(job.owner)) - len(row)
        self.jobs[job.id] = job
        self.keys[key] = job.id
        self.charges[job.id] = (job.owner, job.queued_at)
        if limits.max_queued is not None and (row or placed >= limits.max_queued):
            row.append(job.id)
        else:
            self.enter(job.id)

    def enter(self, job_id: int) -> None:
        self.clock += 1
        self.entered.setdefault(job_id, self.clock)
        job = self.jobs[job_id]
        queue = self.queues.setdefault((job.model, job.lane), [])
        queue.append(job_id)
        queue.sort(key=self.entered.__getitem__)

    def change(self, after: Job) -> str | None:
        """Follow a change; return the model whose queue another job has entered as a result."""
        self.jobs[after.id] = after
        if after.state is JobState.FAILED:
            del self.charges[after.id]
        row = self.overflow[after.owner]
        queue = self.queues.get((after.model, after.lane), [])
        if after.id in row:
            row.remove(after.id)
            return None
        if after.id in queue:
            queue.remove(after.id)
        if after.state is JobState.PENDING:
            self.enter(after.id)
        if not after.state.final or not row:
            return None
        self.enter(row[0])
        return self.jobs[row.pop(0)].model

    def move_first(self, after: Job) -> None:
        self.jobs[after.id] = after
        queue = self.queues.setdefault((after.model, after.lane), [])
        if queue[:1] == [after.id]:
            return
        placed = [
            self.entered[job.id]
            for job in self.jobs.values()
            if (job.model, job.lane) == (after.model, after.lane)
            and not job.state.final
            and job.id in self.entered
        ]
        self.entered[after.id] = min(placed, default=0) - 1
        for ids in (queue, self.overflow[after.owner]):
            if after.id in ids:
                ids.remove(after.id)
        queue.insert(0, after.id)

    def positions(self) -> dict[int, int]:
        found = {
            job_id: position
            for queue in self.queues.values()
            for position, job_id in enumerate(queue, 1)
        }
        for row in self.overflow.values():
            behind: dict[tuple[str, str], int] = {}
            for job_id in row:
                key = (self.jobs[job_id].model, self.jobs[job_id].lane)
                behind[key] = behind.get(key, len(self.queues.get(key, []))) + 1
                found[job_id] = behind[key]
        return found


class StoreMachine(RuleBasedStateMachine):
    """Compares places, limits, jobs and positions with what plain lists say."""

    @initialize()
    def begin(self) -> None:
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.model = Model()
        self.now = 1_000.0
        self.numbers = iter(range(10**9))
        self.store = self.opened()

    def url(self) -> str:
        return f"sqlite:///{Path(self.folder.name)}/usher.db"

    def opened(self) -> JobStore:
        return JobStore(self.run(open_database(self.url(), inline=True)))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    @rule(owner=OWNERS, queue=QUEUES, limits=LIMITS, delay_s=st.sampled_from([0.0, 5.0, HELD]))
    def add(self, owner: str, queue: tuple[str, str], limits: SubmitLimits, delay_s: float) -> None:
        self._add([(owner, queue)], limits, delay_s)

    @rule(asked=st.lists(st.tuples(OWNERS, QUEUES), min_size=2, max_size=8), limits=LIMITS)
    def add_together(self, asked: list[tuple[str, tuple[str, str]]], limits: SubmitLimits) -> None:
        self._add(asked, limits, 0.0)

    def _add(
        self, asked: Iterable[tuple[str, tuple[str, str]]], limits: SubmitLimits, delay_s: float
    ) -> None:
        news = [
            NewJob(
                model=model,
                lane=lane,
                owner=owner,
                request=TextToImage(prompt="cat"),
                key=f"k{next(self.numbers)}",
                delay_s=0.0 if delay_s == HELD else delay_s,
                held=delay_s == HELD,
            )
            for owner, (model, lane) in asked
        ]

        async def together() -> list[Job | BaseException]:
            adding = (self.store.add(new, self.now, limits=limits) for new in news)
            return await asyncio.gather(*adding, return_exceptions=True)

        for new, answer in zip(news, self.run(together()), strict=True):
            if self.model.refuses(new, limits, self.now):
                assert isinstance(answer, LimitReached)
            else:
                assert isinstance(answer, Job)
                self.model.accept(answer, new.key, limits)

    @rule(number=st.integers(0, 200))
    def add_again(self, number: int) -> None:
        known = self.model.keys.get(f"k{number}")
        if known is None:
            return
        old = self.model.jobs[known]
        new = NewJob(model="other", request=old.request, owner="eve", key=f"k{number}")
        again = self.run(self.store.add(new, self.now, limits=SubmitLimits(max_open=0)))
        assert again.id == known

    @precondition(lambda self: self.model.jobs)
    @rule(
        number=st.integers(0, 30),
        event=st.sampled_from(JobEvent),
        pause_s=st.sampled_from([0.0, 5.0]),
    )
    def apply(self, number: int, event: JobEvent, pause_s: float) -> None:
        ids = list(self.model.jobs)
        job = self.run(self.store.get(ids[number % len(ids)]))
        assert job is not None
        waits_behind = event is JobEvent.START and job.seq is None
        legal = job.state in TRANSITIONS[event][0] and not waits_behind
        output = Output(text="done") if event is JobEvent.COMPLETE else None
        change = self.store.apply(
            job, event, self.now, not_before=self.now + pause_s, output=output
        )
        try:
            changed = self.run(change)
        except StaleJob:
            assert not legal
            return
        assert legal
        assert changed.event is event
        assert changed.job.state is TRANSITIONS[event][1]
        assert changed.entered == self.model.change(changed.job)

    @rule(queue=QUEUES)
    def start_head(self, queue: tuple[str, str]) -> None:
        for found in self.run(self.store.queues(self.now, per_queue=1)):
            if (found.model, found.lane) == queue and found.heads:
                start = self.store.apply(found.heads[0], JobEvent.START, self.now)
                changed = self.run(start)
                assert changed.entered == self.model.change(changed.job)

    @precondition(lambda self: self.model.jobs)
    @rule(number=st.integers(0, 30))
    def move_first(self, number: int) -> None:
        ids = list(self.model.jobs)
        job = self.model.jobs[ids[number % len(ids)]]
        after = self.run(self.store.move_first(job.id))
        assert (after is not None) == (job.state is JobState.PENDING)
        if after is not None:
            assert self.run(self.store.get(job.id)) == after
            self.model.move_first(after)

    @precondition(lambda self: self.model.jobs)
    @rule(
        number=st.integers(0, 30),
        words=st.sampled_from(["dog", "owl"]),
        release=st.booleans(),
        older=st.sampled_from([None, 0, 1]),
    )
    def replace_request(self, number: int, words: str, *, release: bool, older: int | None) -> None:
        ids = list(self.model.jobs)
        job = self.model.jobs[ids[number % len(ids)]]
        request = TextToImage(prompt=words, original="cat")
        stored = self.run(self.store.get(job.id))  # entering the queue raises its version, too
        version = None if older is None or stored is None else stored.version - older
        after = self.run(
            self.store.replace_request(job.id, request, release=release, version=version)
        )
        waits = job.state is JobState.PENDING and not job.attempt
        assert (after is not None) == (waits and older != 1)
        if after is not None:
            assert after.not_before == (0.0 if release else job.not_before)
            assert self.run(self.store.get(job.id)) == after
            self.model.jobs[job.id] = after

    @rule(pause_s=st.sampled_from([5.0, 1800.0]))
    def wait(self, pause_s: float) -> None:
        self.now += pause_s

    @rule()
    def deliver_and_purge(self) -> None:
        for job in self.run(self.store.unacknowledged()):
            if job.state.final:
                self.run(self.store.acknowledge(job))
        ended = {job_id for job_id, job in self.model.jobs.items() if job.state in FINAL}
        assert self.run(self.store.purge(self.now + 1)) == len(ended)
        for job_id in ended:
            del self.model.jobs[job_id]
        self.model.keys = {
            key: job_id for key, job_id in self.model.keys.items() if job_id not in ended
        }

    @rule()
    def reopen(self) -> None:
        self.run(self.store.aclose())
        self.store = self.opened()

    @invariant()
    def positions_agree(self) -> None:
        expected = self.model.positions()
        assert self.run(self.store.positions(list(self.model.jobs))) == expected

    @invariant()
    def lines_agree(self) -> None:
        queues = self.run(self.store.queues(self.now, per_queue=3))
        expected = {key: queue for key, queue in self.model.queues.items() if queue}
        assert {(queue.model, queue.lane): queue.waiting for queue in queues} == {
            key: len(ids) for key, ids in expected.items()
        }
        for queue in queues:
            ids = expected[queue.model, queue.lane]
            jobs = [self.model.jobs[job_id] for job_id in ids]
            ready = [job.id for job in jobs if job.not_before <= self.now]
            assert [job.id for job in queue.heads] == ready[:3]
            assert queue.first_queued_at == jobs[0].queued_at

    @invariant()
    def open_jobs_agree(self) -> None:
        found = {job.id: job.state for job in self.run(self.store.open_jobs())}
        assert found == {
            job.id: job.state for job in self.model.jobs.values() if not job.state.final
        }

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.run(self.store.aclose())
            self.runner.close()
            self.folder.cleanup()


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = examples(25, quick=8, steps=40)


def test_the_store_on_postgresql(postgres: PostgresServer, postgres_template: str) -> None:
    """What is true on one engine would not be on the other."""

    class Machine(StoreMachine):
        @initialize()
        def begin(self) -> None:
            postgres.empty(postgres_template)
            super().begin()

        def url(self) -> str:
            return postgres.url(postgres_template)

    run_state_machine_as_test(Machine, settings=examples(6, quick=2, steps=25))
