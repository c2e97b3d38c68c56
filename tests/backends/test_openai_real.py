"""A real llama.cpp process, started, killed and started again by the test.

`USHER_LLAMA_SERVER` names its `llama-server`, `USHER_LLAMA_MODEL` a GGUF file (a slow one: the
kill must come in the middle of an answer). Skipped where they are not set.
"""

import asyncio
import os
import signal
import socket
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from backends.openai import OpenAI
from queueing.catalog import BackendSpec
from queueing.errors import BackendError, NotLoaded, OutOfMemory, Unavailable
from queueing.requests import Progress
from tests.backends.asking import answer, model, work

SERVER = os.environ.get("USHER_LLAMA_SERVER", "")
GGUF = os.environ.get("USHER_LLAMA_MODEL", "")
NAME = Path(GGUF).stem

pytestmark = [
    pytest.mark.external,
    pytest.mark.skipif(not (SERVER and GGUF), reason="USHER_LLAMA_SERVER and _MODEL not set"),
]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@asynccontextmanager
async def running(port: int, *options: str) -> AsyncIterator[Process]:
    """Run a llama-server in a process group of its own: a router's children go with it."""
    process = await asyncio.create_subprocess_exec(
        *(SERVER, "--host", "127.0.0.1", "--port", str(port), "--parallel", "2", *options),
        stdout=DEVNULL,
        stderr=DEVNULL,
        stdin=DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[OpenAI]:
    backend = OpenAI(BackendSpec(name="b", kind="openai", url=f"http://127.0.0.1:{port}"))
    try:
        yield backend
    finally:
        await backend.aclose()


async def answers(backend: OpenAI) -> str:
    """Load and ask as the queue does: again and again until the server is up."""
    async with asyncio.timeout(60):
        while True:
            try:
                await backend.load(model(NAME))
                return (await answer(backend, model(NAME), work(max_tokens=5))).text
            except (Unavailable, NotLoaded):
                await asyncio.sleep(0.1)


async def test_a_server_killed_in_the_middle_of_an_answer_is_used_again() -> None:
    """Otherwise a crash of llama.cpp would hang its job, or lose the server until a restart."""
    port = free_port()
    options = ("-m", GGUF, "--alias", NAME)
    async with connected(port) as backend:
        async with running(port, *options) as process:
            assert await answers(backend)
            seen: asyncio.Queue[Progress] = asyncio.Queue()
            job = asyncio.create_task(backend.run(model(NAME), work(), seen.put_nowait))
            await seen.get()
            process.kill()
            with pytest.raises(Unavailable):
                await job
            with pytest.raises(Unavailable):
                await backend.probe()
        async with running(port, *options):
            assert await answers(backend)


async def test_a_router_whose_model_dies_goes_on() -> None:
    """Otherwise one crashed model process would take the whole server out."""
    port = free_port()
    async with (
        running(port, "--models-dir", str(Path(GGUF).parent)) as process,
        connected(port) as backend,
    ):
        assert await answers(backend)
        seen: asyncio.Queue[Progress] = asyncio.Queue()
        job = asyncio.create_task(backend.run(model(NAME), work(), seen.put_nowait))
        await seen.get()
        for child in children(process.pid):
            os.kill(child, signal.SIGKILL)
        with pytest.raises(BackendError) as caught:
            await job
        assert caught.value.retryable
        assert not isinstance(caught.value, OutOfMemory)
        assert await answers(backend)
        await backend.unload(model(NAME))
        assert await backend.loaded([model(NAME)]) == frozenset()
        assert not children(process.pid)


def children(pid: int) -> list[int]:
    """Return the processes a process started; Linux lists them by the thread that did."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for thread in threads for child in (thread / "children").read_text().split()]
