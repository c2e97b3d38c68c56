"""The holder of the queue among faulty, old and foreign processes, in virtual time."""

import asyncio
import logging
from contextlib import suppress
from pathlib import Path

import pytest

from bot.app.cluster import protocol, queue_link, queue_server
from bot.app.cluster.protocol import greet_holder
from bot.app.cluster.transport import MemoryWire, WireBroken
from queueing.core.errors import Fenced, StoreError
from queueing.core.events import Progressed
from queueing.core.jobs import Job, SubmitLimits
from queueing.core.requests import Progress
from tests.bot.app.cluster.holders import SECRET, Cluster, cluster
from tests.simulation.installation import Installation, host, image_model
from tests.simulation.loop import in_virtual_time


def installation(folder: Path) -> Installation:
    url = f"sqlite:///{folder}/usher.db"
    return Installation.of([image_model("flux", "comfy")], [host("gpu-1", "comfy")], url=url)


async def submit(made: Cluster, key: str = "k") -> Job:
    new = made.installation.new("flux", "cat", key=key)
    return await made.queue.submitter.submit(new, limits=SubmitLimits())


async def greeted(made: Cluster) -> MemoryWire:
    wire = made.stranger()
    await greet_holder(wire, SECRET)
    return wire


async def hung_up(wire: MemoryWire) -> None:
    with suppress(WireBroken):
        while True:
            await wire.receive()


@pytest.mark.parametrize(
    "garbage", [b"", b"\n", b"\xff\xfe", b"call\n", b"call x submitter submit\n[]", b"cancel\n"]
)
@in_virtual_time
async def test_garbage_costs_its_sender_the_connection_and_no_one_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, garbage: bytes
) -> None:
    """One faulty process would stop the queue for all."""
    with caplog.at_level(logging.INFO, "bot.app.cluster"):
        async with cluster(installation(tmp_path)) as made, made.holder():
            await made.link.connected()
            caplog.clear()
            for _ in range(3):
                wire = await greeted(made)
                await wire.send(garbage)
                await hung_up(wire)
            assert len(caplog.messages) == 1, caplog.messages
            assert (await submit(made)).id == 1


@pytest.mark.parametrize(
    "greeting",
    [b"GET / HTTP/1.1\r\n\r\n", b"hello 999\n" + bytes(64), b"hello 1\n" + bytes(64), b"x" * 1000],
)
@in_virtual_time
async def test_a_stranger_is_one_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, greeting: bytes
) -> None:
    """A port scanner, an older version or a wrong secret would fill the log, or the memory."""
    with caplog.at_level(logging.INFO, "bot.app.cluster"):
        async with cluster(installation(tmp_path)) as made, made.holder():
            await made.link.connected()
            caplog.clear()
            for _ in range(20):
                wire = made.stranger()
                await wire.send(greeting)
                await hung_up(wire)
            assert len(caplog.messages) == 1


@in_virtual_time
async def test_a_call_unknown_here_fails_alone(tmp_path: Path) -> None:
    """A newer process would lose its connection, and with it all its calls."""
    async with cluster(installation(tmp_path)) as made, made.holder():
        wire = await greeted(made)
        await wire.send(protocol.written("call", 7, "submitter", "conjure", body=b"[[]]"))
        while (answer := protocol.read(await wire.receive())).kind != "failure":
            pass
        assert answer.number == 7
        assert b"unknown call" in answer.body


@in_virtual_time
async def test_a_holder_whose_lease_is_over_answers_nothing(tmp_path: Path) -> None:
    """A process that wakes up would tell people what was true before it froze."""
    async with cluster(installation(tmp_path)) as made:
        holds = True
        async with made.holder(lambda: holds):
            await made.link.connected()
            wire = await greeted(made)
            holds = False
            made.told.clear()
            asked = asyncio.create_task(submit(made))
            await hung_up(wire)
            await asyncio.sleep(3)
            assert not asked.done()
            assert not made.told
        async with made.holder():
            assert (await asked).id == 1


@in_virtual_time
async def test_a_call_that_the_database_refuses_is_made_at_the_next_holder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person would be told of a failure although another process now holds the queue."""

    async def fenced(*_: object, **__: object) -> Job:
        raise Fenced("another process has taken over")

    async with cluster(installation(tmp_path)) as made:
        async with made.holder() as queue:
            await made.link.connected()
            with monkeypatch.context() as patch:
                patch.setattr(type(queue.submitter), "submit", fenced)
                asked = asyncio.create_task(submit(made))
                await asyncio.sleep(0.1)
                assert not asked.done()
        async with made.holder():
            assert (await asked).id == 1


@in_virtual_time
async def test_what_is_too_long_for_a_wire_fails_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection for all calls would break, again and again."""
    async with cluster(installation(tmp_path)) as made, made.holder():
        job = await submit(made)
        with monkeypatch.context() as patch:
            patch.setattr(queue_link, "BODY_LIMIT", 10)
            with pytest.raises(StoreError, match=r"request of .* is too long"):
                await submit(made, "other")
        with monkeypatch.context() as patch:
            patch.setattr(queue_server, "BODY_LIMIT", 10)
            with pytest.raises(StoreError, match=r"answer of .* is too long"):
                await made.queue.jobs.get(job.id)
        assert await made.queue.jobs.get(job.id) is not None


@in_virtual_time
async def test_what_only_the_holder_of_the_queue_uses_is_not_told(tmp_path: Path) -> None:
    """Others would be sent what they do not read: loads, and results of many megabytes."""
    async with cluster(installation(tmp_path)) as made, made.holder():
        wire = await greeted(made)
        await submit(made)
        told = set[str]()
        while "complete" not in told:
            frame = protocol.read(await wire.receive())
            told |= set(frame.words) | ({"complete"} if b'"completed"' in frame.body else set())
        assert "JobChanged" in told
        assert not told & {"LoadEnded", "Produced"}


@in_virtual_time
async def test_a_process_that_joins_during_an_answer_is_told_all_of_it(tmp_path: Path) -> None:
    """It would show the end of an answer without its beginning."""
    async with cluster(installation(tmp_path)) as made, made.holder():
        assert made._server is not None
        await made.link.connected()
        late = queue_link.QueueConnection(made.dial)
        heard: list[object] = []
        late.subscribe(heard.append)
        joined: list[asyncio.Task[None]] = []
        for text in ("a cat", "a cat sat", "a cat sat down"):
            event = Progressed(job_id=1, progress=Progress(text=text))
            made._server._on_event(event)
            await asyncio.sleep(1)
            assert made.told[-1] == event
            if joined:
                assert heard[-1] == event
            else:
                joined.append(asyncio.create_task(late.run()))
                await late.connected()
        joined[0].cancel()
