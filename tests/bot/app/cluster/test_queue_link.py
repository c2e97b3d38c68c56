"""The queue in another process: broken connections, failovers and strangers, in virtual time."""

import asyncio
from pathlib import Path

import pytest

from bot.app.cluster import protocol
from bot.app.cluster.protocol import NotTrusted, greet_guest, greet_holder
from bot.app.cluster.queue_link import PATIENCE_S, QueueConnection
from bot.app.cluster.remote_queue import RemoteQueue
from bot.app.cluster.transport import MemoryWire, Wire, WireBroken
from queueing.core.errors import StoreError
from queueing.core.events import Event, EventsMissed, JobChanged
from queueing.core.jobs import Job, JobState, SubmitLimits
from tests.bot.app.cluster.holders import Cluster, cluster
from tests.fakes.no_files import NoFiles
from tests.simulation.installation import Installation, host, image_model, until
from tests.simulation.loop import in_virtual_time

NO_LIMITS = SubmitLimits()


def installation(folder: Path) -> Installation:
    return Installation.of(
        [image_model("flux", "comfy")], [host("gpu-1", "comfy")], url=f"sqlite:///{folder}/usher.db"
    )


async def submit(made: Cluster, key: str = "k") -> Job:
    new = made.installation.new("flux", "cat", key=key)
    return await made.queue.submitter.submit(new, limits=NO_LIMITS)


def states(made: Cluster, job: Job) -> list[JobState]:
    changes = [each.job for each in made.told if isinstance(each, JobChanged)]
    return [each.state for each in changes if each.id == job.id]


async def ended(made: Cluster, job: Job) -> Job:
    while True:
        current = await made.queue.jobs.get(job.id)
        assert current is not None
        if current.state.final:
            return current
        await asyncio.sleep(0.5)


@in_virtual_time
async def test_a_call_waits_for_a_process_that_holds_the_queue(tmp_path: Path) -> None:
    """During a failover people would have to type again."""
    async with cluster(installation(tmp_path)) as made:
        asked = asyncio.create_task(submit(made))
        await asyncio.sleep(PATIENCE_S - 5)
        async with made.holder():
            assert (await ended(made, await asked)).state is JobState.COMPLETED


@in_virtual_time
async def test_a_call_fails_if_no_process_holds_the_queue(tmp_path: Path) -> None:
    """A chat would be silent until someone repairs the fault."""
    async with cluster(installation(tmp_path)) as made:
        with pytest.raises(StoreError, match="no process holds the queue"):
            await submit(made)
        for read in (lambda: made.queue.models.offer, made.queue.status.snapshot):
            with pytest.raises(StoreError):
                read()


@in_virtual_time
async def test_a_call_whose_connection_breaks_is_made_once_again(tmp_path: Path) -> None:
    """An image would be drawn twice, or never."""
    async with cluster(installation(tmp_path)) as made, made.holder():
        await made.link.connected()
        asked = [asyncio.create_task(submit(made, f"k{n % 5}")) for n in range(20)]
        await asyncio.sleep(0)
        made.cut()
        assert len({job.id for job in await asyncio.gather(*asked)}) == 5
        assert len(await made.queue.jobs.history("web:1", limit=50)) == 5


@in_virtual_time
async def test_a_call_in_flight_survives_a_failover(tmp_path: Path) -> None:
    """`/preload` takes minutes, and the machine that performs it may die before it is done."""
    async with cluster(installation(tmp_path)) as made:
        async with made.holder():
            await made.link.connected()
            loading = asyncio.create_task(made.queue.preloads.preload("flux", None))
            await asyncio.sleep(1)
        await asyncio.sleep(3)
        async with made.holder():
            assert await loading == "comfy"
            assert made.queue.status.snapshot().models[0].copies[0].pinned


@in_virtual_time
async def test_a_call_given_up_is_given_up_there(tmp_path: Path) -> None:
    """A drain that its admin has cancelled would hold the host for good."""
    async with cluster(installation(tmp_path)) as made, made.holder():
        job = await submit(made)
        await until(lambda: JobState.PROCESSING in states(made, job))
        draining = asyncio.create_task(made.queue.admin.drain("gpu-1"))
        await asyncio.sleep(1)
        calls = [task for task in asyncio.all_tasks() if "_answer" in str(task.get_coro())]
        draining.cancel()
        await asyncio.wait(calls)
        assert calls
        assert all(call.cancelled() for call in calls)


@pytest.mark.parametrize("failover", [True, False])
@in_virtual_time
async def test_a_break_is_told_to_those_who_listen(tmp_path: Path, *, failover: bool) -> None:
    """A message would show outdated information forever."""
    async with cluster(installation(tmp_path)) as made:
        async with made.holder():
            first = await ended(made, await submit(made))
            assert not [each for each in made.told if isinstance(each, EventsMissed)]
            if not failover:
                made.cut()
                await made.queue.jobs.get(first.id)
                assert isinstance(made.told[-1], EventsMissed)
        if failover:
            async with made.holder():
                second = await ended(made, await submit(made, "second"))
                news = made.told[made.told.index(EventsMissed()) :]
                assert {e.job.id for e in news if isinstance(e, JobChanged)} == {second.id}


@in_virtual_time
async def test_copies_follow_what_happens(tmp_path: Path) -> None:
    """An admin who has paused a model would read that it is not paused."""
    async with cluster(installation(tmp_path)) as made, made.holder():
        await made.link.connected()
        assert [model.name for model in made.queue.models.offer.models] == ["flux"]
        await made.queue.admin.pause(model="flux")
        assert made.queue.status.snapshot().models[0].paused
        await submit(made)
        await asyncio.sleep(1)
        assert made.queue.status.snapshot().models[0].waiting == 1


@in_virtual_time
async def test_a_link_goes_on_after_a_break_and_a_call_that_no_one_answers() -> None:
    """A process would remain without the queue until it is restarted."""
    dialled = list[float]()

    async def dial() -> Wire:
        loop = asyncio.get_running_loop()
        dialled.append(loop.time())
        if len(dialled) == 1:
            near, _ = MemoryWire.pair()
            loop.call_later(1, near.cut)
            return near
        try:
            async with asyncio.timeout(5):  # as a library of HTTP has it
                await asyncio.Event().wait()
        except TimeoutError:
            raise WireBroken("no answer in time") from None
        raise AssertionError

    running = asyncio.create_task(QueueConnection(dial).run())
    await asyncio.sleep(60)
    assert len(dialled) > 10
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()


@in_virtual_time
async def test_a_link_whose_connection_breaks_during_a_stop_stops() -> None:
    """A process would only end when it is killed."""
    near, _ = MemoryWire.pair()

    async def dial() -> Wire:
        return near

    running = asyncio.create_task(QueueConnection(dial).run())
    await asyncio.sleep(1)
    near.cut()
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.sleep(60)
    assert running.cancelled()


# ------------------------------------------------------------ strangers


@in_virtual_time
async def test_a_process_without_the_secret_learns_nothing(tmp_path: Path) -> None:
    """A stranger who reaches the port could read every prompt."""
    async with cluster(installation(tmp_path)) as made:
        made.secret = b"a guess"
        async with made.holder():
            await asyncio.sleep(5)
            assert not made.told
            with pytest.raises(StoreError):
                made.queue.status.snapshot()


@in_virtual_time
async def test_the_holder_must_know_the_secret_too() -> None:
    """An address taken over by another machine could accept requests and drop them."""
    near, far = MemoryWire.pair()
    for body in (bytes(32), bytes(32)):  # a number, then a guessed proof
        await far.send(protocol.written("hello", protocol.WIRE, body=body))
    with pytest.raises(NotTrusted, match="does not know the secret"):
        await greet_holder(near, b"secret")


@in_virtual_time
async def test_a_proof_that_was_overheard_opens_nothing() -> None:
    """A recording of one greeting would let a stranger in later."""
    holder, to_holder = MemoryWire.pair()
    guest, to_guest = MemoryWire.pair()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(greet_guest(holder, b"secret"))
        tasks.create_task(greet_holder(guest, b"secret"))
        await to_guest.send(await to_holder.receive())
        proof = await to_guest.receive()  # overheard on the way
        await to_holder.send(proof)
        await to_guest.send(await to_holder.receive())
    holder, to_holder = MemoryWire.pair()
    await to_holder.send(proof)
    with pytest.raises(NotTrusted):
        await greet_guest(holder, b"secret")


@pytest.mark.parametrize(
    "greeting", [b"", b"hello\n", b"hello 999\nx", b"GET / HTTP/1.1\r\n", b"\xff\xfe\n"]
)
@in_virtual_time
async def test_another_version_is_refused_with_a_sentence(greeting: bytes) -> None:
    """Two versions would misread each other's requests."""
    near, far = MemoryWire.pair()
    await far.send(greeting)
    with pytest.raises(NotTrusted, match="version"):
        await greet_holder(near, b"secret")


def test_a_frame_is_read_as_it_was_written() -> None:
    """An image's bytes may contain anything, line feeds included."""
    frame = protocol.read(protocol.written("result", 7, body=b"\n\n\x00"))
    assert (frame.kind, frame.number, frame.body) == ("result", 7, b"\n\n\x00")
    for wrong in (b"", b"\n", b"\xff\n"):
        with pytest.raises(ValueError, match=r".*"):
            protocol.read(wrong)


@in_virtual_time
async def test_a_queue_out_of_reach_for_long_is_noticed_once_it_is(tmp_path: Path) -> None:
    """A chat would stay with a process that cannot reach the queue."""
    async with cluster(installation(tmp_path)) as made:
        noticed = asyncio.ensure_future(made.link.out_of_reach(30))
        await asyncio.sleep(20)
        async with made.holder():
            await asyncio.sleep(100)
        await asyncio.sleep(29)
        assert not noticed.done()
        async with made.holder():
            await asyncio.sleep(100)
        await asyncio.sleep(31)
        assert noticed.done()


@in_virtual_time
async def test_a_user_of_the_queue_who_leaves_hears_no_more(tmp_path: Path) -> None:
    """Two presenters would update a chat that has moved."""
    async with cluster(installation(tmp_path)) as made:
        other, told = RemoteQueue(made.link, NoFiles()), list[Event]()
        async with made.holder():
            await made.link.connected()
            other.events.subscribe(told.append)
            await submit(made)
            heard = len(told)
            assert heard
            other.leave()
            await submit(made, "l")
            assert len(told) == heard


@in_virtual_time
async def test_callers_who_gave_up_leave_nothing_behind(tmp_path: Path) -> None:
    """Each person who stopped waiting would cost memory on both ends until the next restart."""

    async def give_up(made: Cluster) -> None:
        asked = [asyncio.create_task(submit(made, f"k{n}")) for n in range(50)]
        await asyncio.sleep(0)
        for each in asked:
            each.cancel()
        assert all(
            isinstance(each, asyncio.CancelledError)
            for each in await asyncio.gather(*asked, return_exceptions=True)
        )

    async with cluster(installation(tmp_path)) as made:
        before = len(asyncio.all_tasks())
        await give_up(made)  # no process holds the queue
        assert len(asyncio.all_tasks()) == before
        async with made.holder():
            await made.link.connected()
            await made.queue.admin.pause()
            before = len(asyncio.all_tasks())
            await give_up(made)
            await asyncio.sleep(1)
            assert made.link._current is not None
            assert not made.link._current._calls
            assert len(asyncio.all_tasks()) <= before
