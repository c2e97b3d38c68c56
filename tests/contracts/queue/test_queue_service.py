"""What the bot may expect of every queue, wherever it runs, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bot.app.cluster import queue_server
from bot.core.service import QueueService
from queueing.core.errors import (
    LimitReached,
    NoServer,
    NotCapable,
    Problem,
    ProblemKind,
    QueueError,
    Refused,
    Unavailable,
    UnknownModel,
)
from queueing.core.events import Erased, Event, Forgotten, JobChanged, Progressed, QueuesMoved
from queueing.core.jobs import Job, JobEvent, JobState, NewJob, SubmitLimits
from queueing.core.requests import Chat, ChatMessage, File, Output, TextToImage
from tests.contracts.queue.queue_harness import SERVICES, Queues, queues
from tests.fakes.clock import START
from tests.simulation.loop import in_virtual_time

NO_LIMITS = SubmitLimits()
IMAGE = File(name="a.png", mime="image/png", data=bytes(range(256)))
_numbers = iter(range(10**9))


ON_POSTGRES = "in this process, on PostgreSQL"


@pytest.fixture(params=[*SERVICES, ON_POSTGRES])
def there(request: pytest.FixtureRequest, tmp_path: Path) -> Queues:
    if request.param == ON_POSTGRES:
        return queues("in this process", request.getfixturevalue("postgres_url"))
    return queues(request.param, f"sqlite:///{tmp_path}/usher.db")


def new(model: str = "flux", prompt: str = "cat", *, owner: str = "ada", key: str = "") -> NewJob:
    return NewJob(
        model=model,
        request=TextToImage(prompt=prompt),
        owner=owner,
        key=key or f"update:{next(_numbers)}",
        reply_to="somewhere",
    )


async def ask(
    service: QueueService, count: int, model: str = "flux", owner: str = "ada"
) -> list[Job]:
    wanted = [new(model, f"{number}", owner=owner) for number in range(count)]
    return [await service.submitter.submit(each, limits=NO_LIMITS) for each in wanted]


async def ended(service: QueueService, job: Job) -> Job:
    return await _once(service, job, lambda current: current.state.final)


async def started(service: QueueService, job: Job) -> Job:
    return await _once(service, job, lambda current: current.attempt > 0)


async def _once(service: QueueService, job: Job, holds: Callable[[Job], bool]) -> Job:
    """Return a job once a change is reported after which a condition holds."""
    told = asyncio.Event()
    service.events.subscribe(lambda _: told.set())
    async with asyncio.timeout(3600):
        while True:
            told.clear()
            current = await service.jobs.get(job.id)
            assert current is not None
            if holds(current):
                return current
            await told.wait()


def changes(told: list[Event], job: Job) -> list[JobChanged]:
    return [each for each in told if isinstance(each, JobChanged) and each.job.id == job.id]


# ------------------------------------------------------------ submitting


@in_virtual_time
async def test_a_known_key_is_the_job_it_made_before(there: Queues) -> None:
    """A call repeated after a lost connection would draw a second image, or be refused."""
    once, one = new(key="telegram:7"), SubmitLimits(max_open=1)
    async with there.opened() as (service, _):
        both = await asyncio.gather(*(service.submitter.submit(once, limits=one) for _ in range(2)))
        assert both[0].id == both[1].id
        done = await ended(service, both[0])
    async with there.opened() as (service, _):
        assert await service.submitter.submit(once, limits=SubmitLimits(max_open=0)) == done
        assert await service.jobs.find("telegram:7") == done
        assert await service.jobs.find("telegram:8") is None
        assert [job.id for job in await service.jobs.history("ada", limit=9)] == [done.id]


@in_virtual_time
async def test_limits_hold_for_what_comes_at_once(there: Queues) -> None:
    """A person who asks from two processes at the same moment would get twice their share."""
    async with there.opened() as (service, _):
        await service.admin.pause()
        for scope, limits in (
            ("owner", SubmitLimits(max_open=3)),
            ("hour", SubmitLimits(max_per_hour=3)),
        ):
            asked = (service.submitter.submit(new(owner=scope), limits=limits) for _ in range(6))
            answers = await asyncio.gather(*asked, return_exceptions=True)
            refused = [each for each in answers if isinstance(each, LimitReached)]
            assert [(each.scope, each.limit) for each in refused] == [(scope, 3)] * 3
            assert all((each.free_at is None) is (scope == "owner") for each in refused)
            accepted = [each for each in answers if isinstance(each, Job)]
            assert await service.jobs.open_jobs(scope) == accepted
            other = await service.submitter.submit(new(owner=f"not {scope}"), limits=limits)
            assert other.owner == f"not {scope}"


@in_virtual_time
async def test_all_of_a_request_arrives(there: Queues) -> None:
    """An image would be drawn from only half of the request."""
    chat = Chat(messages=(ChatMessage(role="user", text="Grüße 🐱", name="Ada"),))
    asked = replace(new("llama"), request=chat, lane="vip", parent=None, remembered_by="other")
    async with there.opened() as (service, _):
        job = await service.submitter.submit(asked, limits=NO_LIMITS)
        told = (job.request, job.owner, job.lane, job.reply_to, job.remembered_by)
        assert told == (chat, "ada", "vip", "somewhere", "other")
        image = await service.submitter.submit(new("F"), limits=NO_LIMITS)
        assert image.model == "flux"
        output = await service.jobs.output(await ended(service, image))
        assert output is not None
        assert output.text == "result of cat"


@in_virtual_time
async def test_files_arrive_however_large_they_are_until_they_are_gone(there: Queues) -> None:
    """A video would be lost between two processes, or still be available after its deletion."""
    video = File(name="video.mp4", mime="video/mp4", data=bytes(range(256)) * 20_000)
    made = Output(text="a cat", files=(IMAGE, video))
    for server in there.installation.servers.values():
        server.outputs = lambda _work: made
    async with there.opened() as (service, _):
        asked = replace(new(), delay_s=3600.0)
        held = await service.submitter.submit(asked, limits=NO_LIMITS)
        again = TextToImage(prompt="a cat")
        job = await service.submitter.replace_request(held.id, again, files=(video, IMAGE))
        assert job is not None
        assert await service.jobs.inputs(job) == (video, IMAGE)
        done = await ended(service, job)
        assert await service.jobs.output(done) == made
        assert await service.erasure.forget("ada", frozenset({job.id})) == 1
        assert await service.jobs.output(done) is None


@in_virtual_time
async def test_a_request_is_replaced_until_its_job_starts(there: Queues) -> None:
    """Images of an album that come late would be lost, or added to what is already drawn."""
    better = TextToImage(prompt="a better cat", original="cat")
    async with there.opened() as (service, told):
        held = await service.submitter.submit(replace(new(), delay_s=9e5), limits=NO_LIMITS)
        changed = await service.submitter.replace_request(
            held.id, better, files=(IMAGE,), reply_to="elsewhere"
        )
        assert changed is not None
        assert (changed.request, changed.reply_to) == (better, "elsewhere")
        assert await service.jobs.inputs(changed) == (IMAGE,)
        await ended(service, held)
        assert [each.event for each in changes(told, held)][:3] == [None, None, JobEvent.START]
        assert await service.submitter.replace_request(held.id, better) is None


@pytest.mark.usefixtures("rare_ticks")
@in_virtual_time
async def test_a_held_job_is_given_up_with_a_reason_or_begins_with_its_request(
    there: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question would wait forever for a recording that no one can transcribe."""
    monkeypatch.setattr(queue_server, "LOOK_EVERY_S", 60.0)  # at what nobody asks for
    reason = Problem(what=ProblemKind.SILENT)
    async with there.opened() as (service, told):
        lost, kept = [
            await service.submitter.submit(replace(new(), held=True), limits=NO_LIMITS)
            for _ in range(2)
        ]
        assert await service.jobs.held_jobs() == [lost, kept]
        await asyncio.sleep(3_700)  # an hour is the longest that any other job pauses
        for _ in range(2):
            gone = await service.submitter.give_up(lost.id, reason)
            assert gone is not None
            assert (gone.state, gone.error) == (JobState.FAILED, reason.code())
        assert [each.event for each in changes(told, lost)] == [None, JobEvent.FAIL]
        assert await service.submitter.give_up(10**6, reason) is None
        asked = TextToImage(prompt="a dog")
        stays = await service.submitter.replace_request(kept.id, asked, release=False)
        assert stays is not None
        assert stays.held
        old = await service.submitter.replace_request(kept.id, asked, version=kept.version)
        assert old is None
        await service.submitter.replace_request(kept.id, asked, version=stays.version)
        done = await ended(service, kept)
        assert await service.submitter.give_up(kept.id, reason) == done


@in_virtual_time
async def test_a_cancelled_job_ends_wherever_it_is(there: Queues) -> None:
    """A GPU would go on with cancelled work, or a finished image be thrown away."""
    async with there.opened() as (service, told):
        running, waiting, done = await ask(service, 3)
        await started(service, running)
        for job in (waiting, running):
            for _ in range(2):
                gone = await service.submitter.cancel(job.id)
                assert gone is not None
                assert gone.state is JobState.CANCELLED
            assert [each.event for each in changes(told, job)].count(JobEvent.CANCEL) == 1
        completed = await ended(service, done)
        assert await service.submitter.cancel(done.id) == completed
        assert await service.submitter.cancel(10**6) is None
    assert not there.installation.violations


# ------------------------------------------------------------ errors

REFUSALS: list[tuple[Callable[[QueueService], Awaitable[object]], QueueError]] = [
    (
        lambda service: service.submitter.submit(new("flax"), limits=NO_LIMITS),
        UnknownModel("flax", ("flux",), ("flux", "sdxl", "huge")),
    ),
    (
        lambda service: service.submitter.submit(new("llama"), limits=NO_LIMITS),
        NotCapable("llama", "text-to-image", ("flux", "sdxl", "huge")),
    ),
    (
        lambda service: service.submitter.submit(new("huge"), limits=NO_LIMITS),
        NoServer("huge", None),
    ),
    (
        lambda service: service.submitter.submit(new(), limits=SubmitLimits(max_open=0)),
        LimitReached("owner", 0),
    ),
    (
        lambda service: service.submitter.submit(new(), limits=SubmitLimits(max_per_hour=0)),
        LimitReached("hour", 0, free_at=START + 3600),
    ),
    (lambda service: service.models.loras("flax"), UnknownModel("flax", ("flux",))),
]


@in_virtual_time
async def test_a_refusal_has_its_class_and_values(there: Queues) -> None:
    """People would read that something failed instead of what they can do about it."""
    async with there.opened() as (service, told):
        for act, expected in REFUSALS:
            with pytest.raises(type(expected)) as refusal:
                await act(service)
            assert type(refusal.value) is type(expected)
            assert vars(refusal.value) == vars(expected)
            assert str(refusal.value) == str(expected)
            assert not [each for each in told if isinstance(each, JobChanged)]
            assert not await service.jobs.open_jobs()


@in_virtual_time
async def test_what_an_admin_is_refused_says_why(there: Queues) -> None:
    """An admin would read "failed" instead of what to correct."""
    async with there.opened() as (service, _):
        with pytest.raises(Refused) as refusal:
            await service.admin.pause(host="gpu-9")
        assert refusal.value.problem is not None
        assert refusal.value.problem.what is ProblemKind.GONE
        assert refusal.value.problem.values == {"name": "gpu-9"}
        there.installation.servers["other"].up = False
        await asyncio.sleep(120)
        with pytest.raises(Unavailable) as away:
            await service.preloads.preload("llama", None)
        assert away.value.problem is not None
        assert away.value.problem.what is ProblemKind.NO_ANSWER


# ------------------------------------------------------------ events


@in_virtual_time
async def test_what_is_told_is_on_the_disk_in_its_order(there: Queues) -> None:
    """An image would be delivered that a crash forgets, or a message return to an older state."""
    late: list[Event] = []

    def check(event: Event) -> None:
        if isinstance(event, JobChanged) and (
            there.durable_version(event.job.id) < event.job.version
        ):
            late.append(event)

    async with there.opened() as (service, told):
        service.events.subscribe(check)
        jobs = await ask(service, 4)
        await service.submitter.cancel(jobs[2].id)
        for job in jobs:
            await ended(service, job)
    assert late == []
    for job in jobs:
        events = [each.event for each in changes(told, job)]
        cancelled = job is jobs[2]
        expected = [JobEvent.CANCEL] if cancelled else [JobEvent.START, JobEvent.COMPLETE]
        assert events == [None, *expected]
        versions = [each.job.version for each in changes(told, job)]
        assert versions == sorted(versions)


@in_virtual_time
async def test_progress_is_told_while_a_job_runs(there: Queues) -> None:
    """A finished image would be covered by its own preview."""
    async with there.opened() as (service, told):
        (job,) = await ask(service, 1)
        await ended(service, job)
    kinds = [
        each.event if isinstance(each, JobChanged) else "progress"
        for each in told
        if each in changes(told, job) or (isinstance(each, Progressed) and each.job_id == job.id)
    ]
    assert kinds[:3] == [None, JobEvent.START, "progress"]
    assert kinds[-1] is JobEvent.COMPLETE
    assert kinds.count(JobEvent.COMPLETE) == 1


@in_virtual_time
async def test_a_failing_listener_keeps_nothing_from_the_others(there: Queues) -> None:
    """One bug in a chat would silence all chats."""

    def fail(event: Event) -> None:
        raise RuntimeError(event)

    after: list[Event] = []
    async with there.opened() as (service, told):
        service.events.subscribe(fail)
        service.events.subscribe(after.append)
        (job,) = await ask(service, 1)
        await ended(service, job)
    assert changes(after, job) == changes(told, job) != []


@in_virtual_time
async def test_a_listener_is_told_only_what_comes(there: Queues) -> None:
    """A chat that comes back would announce yesterday's jobs as new."""
    async with there.opened() as (service, _):
        (before,) = await ask(service, 1)
        await ended(service, before)
        late: list[Event] = []
        service.events.subscribe(late.append)
        (job,) = await ask(service, 1)
        await ended(service, job)
    assert changes(late, before) == []
    assert changes(late, job)[0].event is None


# ------------------------------------------------------------ deliveries


async def told_of(service: QueueService, *, page: int) -> list[int]:
    """Return the jobs that a chat still has to show, asked for page by page."""
    found = await service.deliveries.to_tell(0, page)
    ids = [job.id for job in found]
    while found and found[-1].state is JobState.PENDING:
        found = await service.deliveries.to_tell(ids[-1], page)
        ids += [job.id for job in found]
    return ids


@in_virtual_time
async def test_what_is_not_acknowledged_is_told_after_a_restart(there: Queues) -> None:
    """A result would be lost with the process that should have delivered it, or come twice."""
    async with there.opened() as (service, _):
        first, second = [await ended(service, job) for job in await ask(service, 2)]
        for _ in range(2):
            await service.deliveries.acknowledge(first)
        await service.admin.pause()
        waiting = await ask(service, 4, owner="eve")
    async with there.opened() as (service, _):
        for page in (1, 2, 50):
            assert await told_of(service, page=page) == [second.id, *(job.id for job in waiting)]
        assert [job.id for job in await service.deliveries.unacknowledged("ada")] == [second.id]
        open_or_owed = [job.id for job in await service.deliveries.unacknowledged()]
        assert open_or_owed == [second.id, *(job.id for job in waiting)]
        await service.deliveries.acknowledge(second)
        assert await service.deliveries.unacknowledged("ada") == []
        for page in (1, 2, 50):
            assert await told_of(service, page=page) == [job.id for job in waiting]


# ------------------------------------------------------------ standings and the pushed copies


@in_virtual_time
async def test_standings_agree_with_what_is_told(there: Queues) -> None:
    """A message would say "third" forever: a shown place is only updated on an event."""
    async with there.opened() as (service, told):
        jobs = await ask(service, 6)
        shown: dict[int, tuple[str, int | None]] = {}
        heard = 0
        while True:
            current = [job for each in jobs if (job := await service.jobs.get(each.id))]
            standings = await service.status.standings(current)
            news, heard = told[max(0, heard - 1) :], len(told)
            touched = {e.job.id for e in news if isinstance(e, JobChanged)}
            moved = {model for e in news if isinstance(e, QueuesMoved) for model in e.models}
            for job in current:
                state = (standings[job.id].job.state.value, standings[job.id].position)
                if shown.get(job.id, state) != state:
                    assert job.id in touched or job.model in moved
                shown[job.id] = state
            places = [s.position for s in standings.values() if s.position is not None]
            assert sorted(places) == list(range(1, len(places) + 1))
            if all(job.state.final for job in current):
                break
            await asyncio.sleep(0.5)
    assert all(state == "completed" for state, _ in shown.values())


@in_virtual_time
async def test_a_snapshot_stays_as_it_was_taken(there: Queues) -> None:
    """A command would answer with a mixture of two moments."""
    async with there.opened() as (service, _):
        (job,) = await ask(service, 1)
        await ended(service, job)
        before = service.status.snapshot()
        flux = next(each for each in before.models if each.name == "flux")
        assert [copy.host for copy in flux.copies] == ["gpu-1"]
        assert [host.name for host in before.hosts] == ["gpu-1", "gpu-2"]
        assert [backend.up for backend in before.backends] == [True, True]
        paused = await service.admin.pause(model="flux")
        assert not before.paused.stops_model("flux")
        assert not flux.paused
        after = service.status.snapshot()
        assert after.paused == paused
        assert next(each for each in after.models if each.name == "flux").paused
        await service.admin.resume()
        assert service.status.snapshot().paused == before.paused


@in_virtual_time
async def test_a_snapshot_says_what_runs_and_how_long_others_have_waited(there: Queues) -> None:
    """An operator would see a busy GPU without a job, and a queue without any figures."""
    async with there.opened() as (service, _):
        first, second = await ask(service, 2)
        begun = await started(service, first)
        asked_at = there.installation.clock.now()
        await asyncio.sleep(3.0)
        now = service.status.snapshot()
        (running,) = now.running
        assert (running.job_id, running.model, running.backend) == (first.id, "flux", "comfy")
        assert running.owner == "ada"
        assert running.began_at <= asked_at
        standing = (await service.status.standings([begun]))[first.id]
        assert running.ends is not None
        assert standing.ends is not None
        assert (running.ends.at, running.ends.latest) == (standing.ends.at, standing.ends.latest)
        flux = next(each for each in now.models if each.name == "flux")
        assert flux.oldest_at == second.queued_at
        (copy,) = flux.copies
        assert copy.vram_mb == 16000
        await ended(service, second)
        await asyncio.sleep(3.0)
        assert service.status.snapshot().running == ()


@in_virtual_time
async def test_the_offer_says_what_can_be_asked_for(there: Queues) -> None:
    """People would be offered what no server has, or be refused what one of them can do."""
    there.installation.servers["comfy"].options = frozenset({"seed", "steps"})
    there.installation.servers["comfy"].loras = ("ink", "oil")
    async with there.opened() as (service, _):
        offer = service.models.offer
        assert offer == service.models.offer
        assert list(offer.catalog.models) == ["flux", "sdxl", "huge", "llama"]
        assert offer.catalog.named("F").name == "flux"
        assert offer.options_of("F") == frozenset({"seed", "steps"})
        assert await service.models.loras("flux") == ("ink", "oil")
        (job,) = await ask(service, 1)
        await ended(service, job)  # the servers have said what they hold
        for model, at_hand in (("llama", True), ("nothing", False)):
            found = await service.models.is_at_hand(model, beside="flux", within_s=1e3)
            assert found is at_hand


# ------------------------------------------------------------ administration, erasure


@in_virtual_time
async def test_admins_move_clear_and_keep(there: Queues) -> None:
    """An admin's order would not be carried out, or affect other people's jobs."""
    async with there.opened() as (service, _):
        await service.admin.pause(host="gpu-1")
        first, second = await ask(service, 2)
        (other,) = await ask(service, 1, "sdxl", "eve")
        moved = await service.admin.move_first(second.id)
        assert moved is not None
        standings = await service.status.standings([moved, first])
        assert [standings[job.id].position for job in (second, first)] == [1, 2]
        assert [job.id for job in await service.admin.clear("flux")] == [first.id, second.id]
        assert [job.id for job in await service.jobs.open_jobs()] == [other.id]
        reason = await service.preloads.waits_for("llama", None)
        assert reason is None
        assert await service.preloads.preload("llama", "gpu-2") == "other"
        assert list(await service.preloads.unload("llama", None)) == ["other"]
        await service.admin.drain("gpu-2")
        assert service.status.snapshot().paused.hosts == {"gpu-1", "gpu-2"}


@in_virtual_time
async def test_what_is_forgotten_is_gone_and_only_that(there: Queues) -> None:
    """A person's words would remain after they were told that they are gone."""
    async with there.opened() as (service, told):
        first, second = await ask(service, 2)
        await ask(service, 1, owner="eve")
        made = replace(new("llama"), parent=first.id, request=Chat(messages=_HELLO))
        child = await service.submitter.submit(made, limits=NO_LIMITS)
        assert len(await service.jobs.history("ada", limit=9)) == 2
        assert await service.erasure.forget("ada", frozenset({first.id})) == 2
        assert [await service.jobs.get(job.id) for job in (first, child)] == [None, None]
        assert [job.id for job in await service.jobs.history("ada", limit=9)] == [second.id]
        told_of_it = [type(each) for each in told if isinstance(each, Forgotten | Erased)]
        assert told_of_it == [Forgotten, Erased]
        forgotten = [each.job_ids for each in told if isinstance(each, Forgotten)]
        assert forgotten == [{first.id, child.id}]
        assert await service.erasure.forget("ada") == 1
        assert len(await service.jobs.open_jobs()) == 1


_HELLO = (ChatMessage(role="user", text="hello"),)
