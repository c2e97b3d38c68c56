"""No message names a time long past, whatever changes while it is being corrected."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest

from bot.core.content import Content, Moment, Period
from bot.core.platform import MessageRef
from queueing.core.events import JobChanged, QueuesMoved
from queueing.core.jobs import Job, JobEvent, JobState
from queueing.core.snapshot import Reason, WaitCause
from queueing.core.status import Estimate, Standing
from queueing.service.shown_estimates import ShownEstimates
from tests.fakes.chat import FakeChat
from tests.simulation.bot_installation import Bot, bot
from tests.simulation.installation import Installation, host, image_model
from tests.simulation.loop import run

MOST_S = 3.0  # that a passed moment may stand while the chat's budget allows an edit
LOOK_S = 0.1
LASTS_S = 200.0
CROWDS = ({"p1": 1}, {"p1": 2}, {"p1": 1, "p2": 2, "p3": 5, "g1": 3})
REASONS: Sequence[Reason | None] = (
    None,
    Reason(why=WaitCause.QUEUED, model="flux"),
    Reason(why=WaitCause.LOADING, model="flux", host="gpu-1"),
    Reason(why=WaitCause.LOADER_BUSY, model="flux", host="gpu-1", other="sdxl"),
    Reason(why=WaitCause.ROOM_BUSY, model="flux", host="gpu-1", other="sdxl"),
    Reason(why=WaitCause.LOAD_PAUSE, model="flux"),
    Reason(why=WaitCause.STARTING, model="flux"),
)


class SlowChat(FakeChat):
    """Every request takes up to a second, part of it after the message has changed."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._random = random

    async def send(self, chat: str, content: Content, **given: Any) -> MessageRef:
        await self._way()
        ref = await super().send(chat, content, **given)
        await self._way()
        return ref

    async def edit(self, ref: MessageRef, content: Content) -> None:
        await self._way()
        await super().edit(ref, content)
        await self._way()

    async def _way(self) -> None:
        await asyncio.sleep(self._random.uniform(0.0, 0.5))


@dataclass
class Scenario:
    """The state of one job, which changes every few seconds."""

    job: Job
    reason: Reason | None = None
    position: int | None = 5
    done_at: float | None = None
    named_at: float | None = None  # what its reason names

    def turn(self, random: Random, now: float) -> None:
        """Continue: some of the state changes, mostly to a time in the near future."""
        if random.random() < 0.5:
            self.reason = random.choice(REASONS)
        if random.random() < 0.5:
            self.position = random.choice((None, 1, 2, 5, 10, 12, 30))
        if random.random() < 0.6:
            self.done_at = random.choice((None, now + random.uniform(0.1, 20.0)))
        if random.random() < 0.6:
            self.named_at = random.choice((None, now + random.uniform(0.1, 12.0)))
        if random.random() < 0.1:
            states = {JobState.PENDING, JobState.PROCESSING} - {self.job.state}
            self.job = replace(self.job, state=states.pop(), version=self.job.version + 1)


@dataclass
class FakeStandings:
    """Replaces the queue's forecast of a job; once a time has passed, it is no longer given."""

    random: Random
    running: Bot
    share_told: float  # of changes
    stories: dict[int, Scenario] = field(default_factory=dict)
    shown: ShownEstimates = field(default_factory=ShownEstimates)

    async def decided(self, jobs: Sequence[Job]) -> None:
        """Return at once: no decision is pending."""

    async def standings(self, jobs: Sequence[Job]) -> Mapping[int, Standing]:
        await asyncio.sleep(self.random.choice((0.0, 0.0, 0.05)))
        return {job.id: self._standing(job) for job in jobs}

    def _standing(self, job: Job) -> Standing:
        scenario = self.stories.get(job.id)
        if scenario is None:
            return Standing(job=job, shown="pending")
        waits = scenario.job.state is JobState.PENDING
        now = self.running.clock.now()
        named = scenario.named_at if (scenario.named_at or 0.0) > now else None
        reason = scenario.reason and replace(scenario.reason, until=named)
        return Standing(
            job=scenario.job,
            shown="pending",
            position=scenario.position if waits else None,
            reason=reason if waits else None,
            ends=self._told((job.id, scenario.job.state), scenario.done_at),
        )

    def _told(self, key: Any, at: float | None) -> Estimate | None:
        now = self.running.clock.now()
        fresh = None if at is None else Estimate(at=at, earliest=at - 3, latest=at + 2)
        return self.shown.of(key, None if fresh is None or fresh.latest <= now else fresh, now)

    async def live(self, scenario: Scenario) -> None:
        """Change the state now and then, some of it with an event."""
        while True:
            await asyncio.sleep(self.random.uniform(0.2, 9.0))
            state = scenario.job.state
            scenario.turn(self.random, self.running.clock.now())
            if scenario.job.state is not state:
                event = JobEvent.START if state is JobState.PENDING else JobEvent.RETRY
                self.running.presenter.on_event(JobChanged(job=scenario.job, event=event))
            elif self.random.random() < self.share_told:
                models = frozenset({"flux"})
                turned = models if self.random.random() < 0.3 else frozenset()
                self.running.presenter.on_event(QueuesMoved(models=models, turned=turned))


@dataclass
class Watcher:
    """Adds up how long each message has named a past time although it could have been edited."""

    running: Bot
    allowed_s: dict[tuple[str, float], float] = field(default_factory=dict)

    def look(self) -> None:
        """Check every message. Raises if a past time has been shown for too long."""
        now = self.running.clock.now()
        for number, message in self.running.chat.messages.items():
            body = message.contents[-1].body
            ends = {part.at for part in body if isinstance(part, Moment)}
            ends |= {part.ends_at for part in body if isinstance(part, Period)}
            passed = {at for at in ends if at < now}
            for moment in passed:
                allowed_s = self.allowed_s.get((number, moment), 0.0)
                if self._free(message.chat, message.times, now):
                    allowed_s += LOOK_S
                self.allowed_s[number, moment] = allowed_s
                assert allowed_s <= MOST_S, f"{message.text!r} at {now - moment:.1f} s past it"

    def _free(self, chat: str, times: Sequence[float], now: float) -> bool:
        """Return whether the chat's budget allows an edit of that message now."""
        channel = self.running.presenter._channels.at(self.running.chat.name, chat)
        pace, ending = channel.rate_limit, channel.ending(now)
        shown_s = asyncio.get_running_loop().time() - times[-1]
        age_s = asyncio.get_running_loop().time() - times[0]
        free = pace.earliest(now, urgent=False, ending=ending) <= now
        return free and shown_s >= pace.news_gap_s(age_s)


async def told(seed: int, monkeypatch: pytest.MonkeyPatch) -> Watcher:
    random = Random(seed)
    installation = Installation.of([image_model("flux")], [host("gpu-1", "comfy")])
    installation.servers["comfy"].die(-1.0)  # nothing starts but in the stories
    async with bot(installation, SlowChat(random)) as running:
        standings, watcher = (
            FakeStandings(random, running, random.choice((0.05, 0.6))),
            Watcher(running),
        )
        monkeypatch.setattr(running.queue.status, "standings", standings.standings)
        jobs: list[Job] = []
        running.queue.events.subscribe(
            lambda event: (
                jobs.append(event.job)
                if isinstance(event, JobChanged) and event.event is None
                else None
            )
        )
        for chat, number in CROWDS[seed % len(CROWDS)].items():
            for _ in range(number):
                call = running.chat.call("/image flux cat", chat=chat, user="fake:1")
                await running.dispatcher.call(call)
        async with asyncio.TaskGroup() as tasks:
            standings.stories = {job.id: Scenario(job) for job in jobs}
            runs = [tasks.create_task(standings.live(each)) for each in standings.stories.values()]
            for _ in range(int(LASTS_S / LOOK_S)):
                await asyncio.sleep(LOOK_S)
                watcher.look()
            for life in runs:
                life.cancel()
    return watcher


@pytest.mark.parametrize(
    "seed",
    [*range(3), *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(3, 20))],
)
def test_a_passed_moment_is_gone_soon(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person would read an estimate that has passed and believe that it is current."""
    watcher = run(told(seed, monkeypatch))
    assert watcher.allowed_s, "no moment has passed"
