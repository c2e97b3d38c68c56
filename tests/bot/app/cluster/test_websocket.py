"""The queue over real sockets, in real time; every wait is for a signal."""

import asyncio
import base64
import hashlib
import logging
import random
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

import aiohttp
import pytest
from aiohttp import web

from bot.app.cluster.protocol import NotTrusted, greet_guest, greet_holder
from bot.app.cluster.queue_link import QueueConnection
from bot.app.cluster.queue_server import QueueServer
from bot.app.cluster.remote_queue import RemoteQueue
from bot.app.cluster.transport import PIECE, WebSocketWire, Wire, WireBroken, calling, listening
from queueing.core.jobs import SubmitLimits
from queueing.core.requests import Capability, File
from tests.fakes.no_files import NoFiles
from tests.simulation.installation import Installation, host, image_model

SECRET = b"secret"
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # of RFC 6455
BIG = File(name="a.png", mime="image/png", data=bytes(range(256)) * 40_000)


def installation(folder: Path) -> Installation:
    can = frozenset({Capability.TEXT_TO_IMAGE, Capability.IMAGE_TO_IMAGE})
    model = replace(image_model("flux", "comfy"), capabilities=can)
    return Installation.of([model], [host("gpu-1", "comfy")], url=f"sqlite:///{folder}/usher.db")


@asynccontextmanager
async def linked(port: int) -> AsyncIterator[RemoteQueue]:
    """Provide the queue at a port, as another process sees it."""
    async with calling(heartbeat_s=5) as call, asyncio.TaskGroup() as tasks:

        async def dial() -> Wire:
            wire = await call(f"127.0.0.1:{port}")
            await greet_holder(wire, SECRET)
            return wire

        link = QueueConnection(dial)
        running = tasks.create_task(link.run())
        try:
            async with asyncio.timeout(60):
                await link.connected()
            yield RemoteQueue(link, NoFiles())
        finally:
            running.cancel()


async def test_an_image_of_ten_megabytes_goes_over(tmp_path: Path) -> None:
    """The default limit of a WebSocket message, 4 MB, would cut uploads off."""
    async with installation(tmp_path).queue() as queue:
        server = QueueServer(queue, secret=SECRET)
        async with (
            asyncio.timeout(60),
            listening(server.serve, "127.0.0.1", 0, heartbeat_s=5) as port,
            linked(port) as remote,
        ):
            await queue.admin.pause()
            new = installation(tmp_path).new("flux", "cat", files=(BIG,))
            job = await remote.submitter.submit(new, limits=SubmitLimits())
            assert await queue.jobs.inputs(job) == (BIG,)


async def test_a_closed_port_and_a_stranger_break_the_wire() -> None:
    """A process would wait forever for an answer from something that is not Usher."""

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
    """A link would go on waiting for a process that has ended."""
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


@pytest.mark.parametrize(
    "sent",
    [b"\x16\x03\x01\x02\x00\x01\x00\xff\r\n\r\n", b"SSH-2.0-x\r\n\r\n", b"GET / HTTP/1.0\r\n\r\n"],
)
async def test_a_port_scanner_is_answered_without_noise(
    caplog: pytest.LogCaptureFixture, sent: bytes
) -> None:
    """Each sweep of a network would fill the log."""

    async def serve(wire: Wire) -> None:
        await wire.close()

    with caplog.at_level(logging.INFO):
        async with listening(serve, "127.0.0.1", 0, heartbeat_s=5) as port:
            for _ in range(5):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(sent)
                assert b"HTTP/1." in await reader.read()
                writer.close()
            async with calling(heartbeat_s=5) as call:
                await (await call(f"127.0.0.1:{port}")).close()
    assert not [each for each in caplog.records if each.name.startswith(("aiohttp", "bot"))]


async def test_a_stranger_cannot_fill_the_memory() -> None:
    """The first frame, which anyone may send, could be half a gigabyte."""
    broken = asyncio.get_running_loop().create_future()

    async def serve(wire: Wire) -> None:
        try:
            await greet_guest(wire, SECRET)
        except (WireBroken, NotTrusted) as error:
            broken.set_result(str(error))
        await wire.close()

    async with (
        asyncio.timeout(60),
        listening(serve, "127.0.0.1", 0, heartbeat_s=5) as port,
        calling(heartbeat_s=5) as call,
    ):
        wire = await call(f"127.0.0.1:{port}")
        with suppress(WireBroken):
            await wire.send(BIG.data)
        assert await broken == "a frame of more than 200 bytes"
        await wire.close()


async def test_a_frame_arrives_as_it_was_sent() -> None:
    """An image of exactly one piece's length would lose its end."""
    for size in (0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE):

        async def serve(wire: Wire) -> None:
            while True:
                await wire.send(await wire.receive())

        frames = [random.Random(size).randbytes(size), b"next"]
        async with (
            asyncio.timeout(60),
            listening(_until_broken(serve), "127.0.0.1", 0, heartbeat_s=5) as port,
            calling(heartbeat_s=5) as call,
        ):
            wire = await call(f"127.0.0.1:{port}")
            for frame in frames:
                await wire.send(frame)
            assert [await wire.receive() for _ in frames] == frames, size
            await wire.close()


def _until_broken(serve: Callable[[Wire], Awaitable[None]]) -> Callable[[Wire], Awaitable[None]]:
    async def until(wire: Wire) -> None:
        with suppress(WireBroken):
            await serve(wire)

    return until


async def test_a_process_that_froze_is_noticed() -> None:
    """A link to a machine that lost its network would wait until the system's time limit."""

    async def freeze(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        key = re.search(rb"(?i)sec-websocket-key: (\S+)", head)
        assert key is not None
        proof = base64.b64encode(hashlib.sha1(key[1] + GUID, usedforsecurity=False).digest())
        writer.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + proof + b"\r\n\r\n"
        )
        await reader.read()
        writer.close()

    frozen = await asyncio.start_server(freeze, "127.0.0.1", 0)
    port = frozen.sockets[0].getsockname()[1]
    async with frozen, asyncio.timeout(60), calling(heartbeat_s=0.2) as call:
        wire = await call(f"127.0.0.1:{port}")
        with pytest.raises(WireBroken):
            await wire.receive()
        await wire.close()


@pytest.mark.skipif(
    not hasattr(socket, "TCP_NOTSENT_LOWAT"), reason="this system has no such limit"
)
async def test_little_waits_in_the_system_for_being_sent() -> None:
    """On a slow network a heartbeat would come after megabytes, and the connection would end."""
    unsent = []

    async def serve(wire: Wire) -> None:
        assert isinstance(wire, WebSocketWire)
        unsent.append(limit_of(wire))
        await wire.receive()

    def limit_of(wire: WebSocketWire) -> int:
        end = wire._socket.get_extra_info("socket")
        limit: int = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT)
        return limit

    async with (
        asyncio.timeout(60),
        listening(_until_broken(serve), "127.0.0.1", 0, heartbeat_s=5) as port,
        calling(heartbeat_s=5) as call,
    ):
        wire = await call(f"127.0.0.1:{port}")
        assert isinstance(wire, WebSocketWire)
        unsent.append(limit_of(wire))
        await wire.close()
    assert unsent == [PIECE, PIECE]


class _Closing:
    """A socket that finds its connection gone when it automatically answers a ping."""

    async def receive(self) -> aiohttp.WSMessage:
        raise aiohttp.ClientConnectionResetError("Cannot write to closing transport")

    async def send_bytes(self, _data: bytes) -> None:
        raise aiohttp.ClientConnectionResetError("Cannot write to closing transport")

    async def close(self) -> object:
        return None


@pytest.mark.parametrize("act", [WebSocketWire.receive, partial(WebSocketWire.send, frame=b"hi")])
async def test_a_connection_that_is_gone_is_a_broken_wire(
    act: Callable[[WebSocketWire], Awaitable[object]],
) -> None:
    """The whole process would end with its connection to another one."""
    with pytest.raises(WireBroken):
        await act(WebSocketWire(cast("web.WebSocketResponse", _Closing())))
