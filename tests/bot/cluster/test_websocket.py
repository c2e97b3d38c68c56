"""The queue over real sockets, in real time: every wait is for a signal."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from bot.cluster.greeting import greet_holder
from bot.cluster.queue_link import QueueLink
from bot.cluster.queue_server import QueueServer
from bot.cluster.remote_queue import RemoteQueue
from bot.cluster.websocket import calling, listening
from bot.cluster.wire import Wire, WireBroken
from queueing.core.requests import Capability, File
from queueing.core.storage import Admission
from tests.simulation.installation import Installation, host, image_model

SECRET = b"secret"
BIG = File(name="a.png", mime="image/png", data=bytes(range(256)) * 40_000)


def installation(folder: Path) -> Installation:
    can = frozenset({Capability.TEXT_TO_IMAGE, Capability.IMAGE_TO_IMAGE})
    model = replace(image_model("flux", "comfy"), capabilities=can)
    return Installation.of([model], [host("gpu-1", "comfy")], url=f"sqlite:///{folder}/usher.db")


@asynccontextmanager
async def linked(port: int) -> AsyncIterator[RemoteQueue]:
    """Provide the queue at a port as another process sees it."""
    async with calling(heartbeat_s=5) as call, asyncio.TaskGroup() as tasks:

        async def dial() -> Wire:
            wire = await call(f"127.0.0.1:{port}")
            await greet_holder(wire, SECRET)
            return wire

        link = QueueLink(dial)
        running = tasks.create_task(link.run())
        try:
            async with asyncio.timeout(60):
                await link.connected()
            yield RemoteQueue(link)
        finally:
            running.cancel()


async def test_a_picture_of_ten_megabytes_goes_over(tmp_path: Path) -> None:
    """The usual limit of a WebSocket message, 4 MB, would cut uploads off."""
    async with installation(tmp_path).queue() as queue:
        server = QueueServer(queue, secret=SECRET)
        async with (
            asyncio.timeout(60),
            listening(server.serve, "127.0.0.1", 0, heartbeat_s=5) as port,
            linked(port) as remote,
        ):
            await queue.admin.pause()
            new = installation(tmp_path).new("flux", "cat", files=(BIG,))
            job = await remote.submitter.submit(new, limits=Admission())
            assert await remote.jobs.inputs(job) == (BIG,)
            assert await queue.jobs.inputs(job) == (BIG,)


async def test_a_closed_port_and_a_stranger_break_the_wire() -> None:
    """A process would wait for ever for an answer of something that is not Usher."""

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"220 mail.example ESMTP\r\n")
        writer.close()

    stranger = await asyncio.start_server(speak, "127.0.0.1", 0)
    port = stranger.sockets[0].getsockname()[1]
    async with stranger, calling(heartbeat_s=5) as call:
        with pytest.raises(WireBroken):
            await call(f"127.0.0.1:{port}")
    async with calling(heartbeat_s=5) as call:
        with pytest.raises(WireBroken):
            await call(f"127.0.0.1:{port}")


async def test_the_end_of_the_other_process_breaks_the_wire() -> None:
    """A link would go on waiting for a process that has left."""
    served: asyncio.Queue[Wire] = asyncio.Queue()

    async def serve(wire: Wire) -> None:
        served.put_nowait(wire)
        await wire.receive()

    async with asyncio.timeout(60), calling(heartbeat_s=5) as call:
        async with listening(serve, "127.0.0.1", 0, heartbeat_s=5) as port:
            wire = await call(f"127.0.0.1:{port}")
            await wire.send(b"x")
            await served.get()
        with pytest.raises(WireBroken):
            await wire.receive()
        with pytest.raises(WireBroken):
            await wire.send(b"x")
