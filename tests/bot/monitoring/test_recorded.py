"""What an operator reads of the last hours is what happened, in virtual time."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from bot.core.origin import Origin
from bot.monitoring.dashboard import to_json
from bot.monitoring.recorder import EVERY_S
from bot.monitoring.records import HostHours, HourSpan, HoursRecord, ModelHours, PeopleSpan
from bot.people.audit_log import Act
from queueing.core.errors import Rejected
from queueing.core.events import Progressed
from queueing.core.quiet_hours import QuietHours, WeeklyWindow
from queueing.core.specs import WakeSpec
from queueing.planning.hosts import LEAD_S
from tests.bot.monitoring.recorded import KEPT_S, Recording, two_gpus
from tests.fakes.clock import START, VirtualClock
from tests.fakes.servers.backend import Fate
from tests.simulation.installation import NO_LIMITS, Installation, ended, host, image_model
from tests.simulation.loop import in_virtual_time

DAY_S = 86400.0
NAMED = Origin(
    platform="discord", chat="1", group=True, user="discord:2", user_name="", language="en", key="k"
)


BOTH = ("sqlite", "postgres")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.thorough)])
def there(request: pytest.FixtureRequest, tmp_path: Path) -> Recording:
    if request.param == "postgres":
        return Recording(two_gpus(request.getfixturevalue("postgres_url")))
    return Recording(two_gpus(f"sqlite:///{tmp_path}/usher.db"))


def models(hours: HoursRecord) -> Mapping[str, ModelHours]:
    return {each.name: each for each in hours.models}


def hosts(hours: HoursRecord) -> Mapping[str, HostHours]:
    return {each.name: each for each in hours.hosts}


@pytest.mark.parametrize("there", BOTH, indirect=True)
@in_virtual_time
async def test_an_hour_shows_what_happened(there: Recording) -> None:
    """An operator would look at figures that do not match what the bot did."""
    async with there.opened() as bot:
        await there.draw(bot, "flux", 3)
        await there.draw(bot, "sdxl", 1)
        await asyncio.sleep(EVERY_S + 1)
        hours = await bot.reader.read_hours(HourSpan.HOUR)
    flux, gpu = models(hours)["flux"], hosts(hours)["gpu-1"]
    assert (flux.done, flux.failed, flux.cancelled, flux.loads) == (3, 0, 0, 1)
    assert (gpu.loads, gpu.evictions, gpu.failed_loads) == (2, 1, 0)
    assert flux.service_s == pytest.approx(15.0, abs=3.0)
    assert flux.wait_median_s is not None
    assert flux.wait_p95_s is not None
    assert flux.wait_median_s < 1.0 < flux.wait_p95_s
    kinds = [(each.kind, each.models) for each in gpu.segments if each.kind != "idle"]
    assert kinds == [
        ("load", ("flux",)),
        ("run", ("flux",)),
        ("load", ("sdxl",)),
        ("run", ("sdxl",)),
    ]
    assert [each.kind for each in hosts(hours)["gpu-2"].segments] == ["idle"]
    assert 0.2 < gpu.busy < 0.6
    assert 0.0 < gpu.recorded_s <= hours.at - hours.begins
    assert hours.promises.given == 4
    assert hours.promises.kept == 4


@in_virtual_time
async def test_the_steps_of_every_span_add_up(there: Recording, subtests: pytest.Subtests) -> None:
    """The curve would show other jobs than the figures beside it."""

    def add_up(hours: HoursRecord) -> None:
        flux, gpu = models(hours)["flux"], hosts(hours)["gpu-1"]
        assert sum(step.done for step in flux.steps) == flux.done == 3
        assert sum(step.given for step in hours.promises.steps) == hours.promises.given == 3
        assert sum(step.service_s for step in flux.steps) == pytest.approx(flux.service_s)
        moments = [step.at for step in flux.steps]
        for at in (*moments, *(share.at for share in gpu.shares)):
            assert hours.begins <= at < hours.ends
            assert (at - hours.begins) % hours.step_s == 0
        for share in gpu.shares:
            assert share.run + share.load + share.idle + share.down <= 1.001
        assert json.loads(to_json(hours))["models"][0]["name"] == "flux"

    async with there.opened() as bot:
        for _ in range(3):
            await there.draw(bot, "flux")
            await asyncio.sleep(1000.0)
        await asyncio.sleep(EVERY_S + 1)
        for span in HourSpan:
            with subtests.test(span.value):
                add_up(await bot.reader.read_hours(span))


@pytest.mark.parametrize("kill", [False, True])
@in_virtual_time
async def test_it_survives_a_restart_and_a_kill(there: Recording, *, kill: bool) -> None:
    """Every update of the bot would start with an empty history."""
    async with there.opened(kill=kill) as bot:
        await there.draw(bot, "flux", 5)
    await asyncio.sleep(120.0)
    async with there.opened() as bot:
        await there.draw(bot, "flux", 1)
        await asyncio.sleep(EVERY_S + 1)
        hours = await bot.reader.read_hours(HourSpan.HOUR)
    flux = models(hours)["flux"]
    assert flux.done == 6
    assert flux.service_s == pytest.approx(30.0, abs=5.0)
    gpu = hosts(hours)["gpu-1"].segments
    gaps = [after.begins - before.ends for before, after in pairwise(gpu)]
    assert max(gaps) > 100.0  # nothing is said of the time in which it did not run


@in_virtual_time
async def test_jobs_that_ended_uncounted_are_in_it(there: Recording) -> None:
    """After a crash the week would lack jobs that are in the database."""
    async with there.installation.queue() as queue:
        jobs = [
            await queue.submitter.submit(there.installation.new("turbo", "cat"), limits=NO_LIMITS)
            for _ in range(7)
        ]
        for job in jobs:
            done = await ended(queue, job)
            if job.id % 2:
                await queue.deliveries.acknowledge(done)
    async with there.opened() as bot:
        await asyncio.sleep(EVERY_S + 1)
        assert models(await bot.reader.read_hours(HourSpan.WEEK))["turbo"].done == 7


@in_virtual_time
async def test_failures_are_told_by_their_cause(there: Recording) -> None:
    """An operator would see that jobs fail, but not why."""
    server = there.installation.servers["other"]
    server.fates = lambda _: Fate(error=Rejected("it cannot"))
    async with there.opened() as bot:
        for _ in range(2):
            await there.draw(bot, "turbo")
            await asyncio.sleep(EVERY_S + 1)
        hours = await bot.reader.read_hours(HourSpan.HOUR)
    assert models(hours)["turbo"].failed == 2
    (error,) = hours.errors
    assert (error.model, error.count, error.newest) == ("turbo", 2, 2)
    assert hours.promises.given == 0


@in_virtual_time
async def test_a_server_that_goes_is_down_in_the_timeline(there: Recording) -> None:
    """A night without a machine would look like a quiet night."""
    async with there.opened() as bot:
        await asyncio.sleep(60.0)
        there.installation.servers["other"].up = False
        await asyncio.sleep(600.0)
        hours = await bot.reader.read_hours(HourSpan.HOUR)
    assert [each.kind for each in hosts(hours)["gpu-2"].segments] == ["idle", "down"]
    assert [each.kind for each in hosts(hours)["gpu-1"].segments] == ["idle"]


@in_virtual_time
async def test_a_host_that_rests_is_neither_idle_nor_down(there: Recording) -> None:
    """An operator would look for a fault in a night in which a machine slept."""
    nap = QuietHours((WeeklyWindow(frozenset(range(7)), 10, 20),), "UTC")
    there.installation = Installation.of(
        [image_model(f"of-{name}", name) for name in ("comfy", "other", "far")],
        [
            replace(host("gpu-1", "comfy"), quiet=nap),
            host("gpu-2", "other"),
            replace(host("gpu-3", "far"), wake=WakeSpec(mac="001a2b3c4d5e", takes_s=60.0)),
        ],
        url=there.installation.url,
    )
    there.installation.servers["far"].up = False
    async with there.opened() as bot:
        await asyncio.sleep(300.0)
        there.installation.servers["far"].up = True
        await bot.queue.admin.pause(host="gpu-2")
        await asyncio.sleep(1200.0)
        await bot.queue.admin.resume(host="gpu-2")
        await asyncio.sleep(60.0)
        hour = hosts(await bot.reader.read_hours(HourSpan.HOUR))
        week = hosts(await bot.reader.read_hours(HourSpan.WEEK))
    kinds = {name: [each.kind for each in gpu.segments] for name, gpu in hour.items()}
    assert kinds["gpu-1"] == ["idle", "quiet", "idle"]
    assert kinds["gpu-2"] == ["idle", "paused", "idle"]
    assert kinds["gpu-3"] == ["asleep", "idle"]
    quiet = hour["gpu-1"].segments[1]
    assert quiet.ends - quiet.begins == pytest.approx(600.0 + LEAD_S, abs=1.0)
    for name, kind, seconds in (
        ("gpu-1", "quiet", 600.0),
        ("gpu-2", "paused", 1200.0),
        ("gpu-3", "asleep", 300.0),
    ):
        (share,) = week[name].shares
        assert getattr(share, kind) == pytest.approx(seconds / 3600, abs=0.01)


@in_virtual_time
async def test_old_history_is_deleted(there: Recording) -> None:
    """The database would grow forever."""
    async with there.opened() as bot:
        await there.draw(bot, "flux")
        await asyncio.sleep(EVERY_S + 1)
        history, now = bot.reader.history, there.installation.clock.now()
        await history.expire(now + 2.2 * DAY_S, KEPT_S)
        assert await history.models(60, 0, 1e11) == []
        assert await history.hosts(60, 0, 1e11) == []
        assert await history.segments(0, 1e11) == {}
        ((_, kept),) = await history.models(3600, 0, 1e11)
        assert kept.done == 1
        await history.expire(now + KEPT_S + DAY_S, KEPT_S)
        assert await history.models(3600, 0, 1e11) == []
        assert await history.hosts(3600, 0, 1e11) == []


@in_virtual_time
async def test_people_are_shown_with_what_they_used(there: Recording) -> None:
    """The one person who fills the queue would not be found."""
    async with there.opened() as bot:
        await there.draw(bot, "flux", 2, owner="web:1")
        await there.draw(bot, "flux", 1, owner="web:2")
        await bot.people.change("web:3", banned_at=1.0, ban_reason="spam")
        await bot.people.change("web:4", language="de")
        await bot.audit.write(Act(at=2.0, actor="web:1", action="ban", subject="web:3"))
        for owner in ("usher:recordings", "usher:enhancement", "crowd:1", "web:local"):
            await there.draw(bot, "turbo", owner=owner)
        waiting = there.installation.new("turbo", "cat", owner="web:2")
        await bot.queue.submitter.submit(waiting, limits=NO_LIMITS)
        people = await bot.reader.read_people()
        later = replace(bot.reader, clock=VirtualClock(START + 30 * 3600.0))
        day = await later.read_people(PeopleSpan.DAY)
        two_days = await later.read_people(PeopleSpan.TWO_DAYS)
    assert "web:1" not in {each.user for each in day.people}
    assert {each.user: each.jobs for each in two_days.people}["web:1"] == 2
    shown = {each.user: each for each in people.people}
    assert shown.keys() == {"web:1", "web:2", "web:3", "crowd:1", "web:local"}
    bannable = {user for user, each in shown.items() if each.bannable}
    assert bannable == {
        "web:2",
        "web:3",
    }  # no admin, not everybody at once, nobody of the demo's crowd
    assert shown["web:1"].gpu_s == pytest.approx(10.0, abs=2.0)
    assert (shown["web:1"].jobs, shown["web:1"].admin) == (2, True)
    assert shown["web:2"].waiting + shown["web:2"].running == 1
    assert (shown["web:3"].banned, shown["web:3"].ban_reason) == (True, "spam")
    assert shown["web:2"].limits.open_per_person == 10
    (act,) = people.acts
    assert act.action == "ban"
    assert people.since <= people.at < people.since + 25 * 3600.0
    assert json.loads(to_json(people))["people"][0]["limits"]["lane"] == "normal"


@in_virtual_time
async def test_now_shows_a_running_job_with_its_progress(there: Recording) -> None:
    """A job that is almost done would look like a job that hangs."""
    server = there.installation.servers["other"]
    server.progress_every_s = 1.0
    async with there.opened() as bot:
        asked = there.installation.new("turbo", "cat")
        job = await bot.queue.submitter.submit(asked, limits=NO_LIMITS)
        events, told = there.installation.events, list[Progressed]()
        while not told:
            await asyncio.sleep(0.5)
            told = [each for each in events if isinstance(each, Progressed)]
        now = await bot.reader.read_now()
        (running,) = now.hosts[1].running
        assert (running.job, running.fraction) == (job.id, told[-1].progress.fraction)
        assert running.fraction is not None
        await ended(bot.queue, job)
        assert not (await bot.reader.read_now()).hosts[1].running


@in_virtual_time
async def test_people_are_called_as_their_chat_calls_them(there: Recording) -> None:
    """An operator would have to look up who discord:2 is before banning anyone."""
    async with there.opened() as bot:
        for name in ("Ada", "Ada L."):
            origin = NAMED.model_copy(update={"user_name": name}).model_dump_json()
            await there.draw(bot, "turbo", owner="discord:2", reply_to=origin)
        await there.draw(bot, "turbo", owner="web:9")
        people = await bot.reader.read_people()
        assert {each.user: each.name for each in people.people} == {
            "discord:2": "Ada L.",
            "web:9": "web:9",
        }
        origin = NAMED.model_copy(update={"user_name": "Bo"}).model_dump_json()
        asked = there.installation.new("turbo", "cat", owner="discord:3", reply_to=origin)
        job = await bot.queue.submitter.submit(asked, limits=NO_LIMITS)
        while not (await bot.reader.read_now()).hosts[1].running:  # noqa: ASYNC110 - virtual
            await asyncio.sleep(0.5)
        (running,) = (await bot.reader.read_now()).hosts[1].running
        assert (running.user, running.name) == ("discord:3", "Bo")
        await ended(bot.queue, job)
        await bot.queue.erasure.forget("discord:2")
        await asyncio.sleep(61.0)
        people = await bot.reader.read_people()
        assert "Ada L." not in {each.name for each in people.people}
