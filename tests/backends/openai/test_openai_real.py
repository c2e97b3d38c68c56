"""Real llama.cpp and vLLM processes, started, killed and started again by the test.

`USHER_LLAMA_SERVER` names a `llama-server`, `USHER_LLAMA_MODEL` a GGUF file, `USHER_VLLM` a `vllm`
and `USHER_VLLM_MODEL` a model's folder (use slow models: the server must be killed in the middle of
an answer). The tests are skipped where these are not set.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backends.openai.backend import OpenAI
from queueing.core.errors import BackendError, NotLoaded, OutOfMemory, Unavailable
from queueing.core.specs import BackendSpec
from tests.backends.openai.asking import answer, model, work
from tests.fakes.ports import free_port
from tests.fakes.servers.real_server import kill, running

if TYPE_CHECKING:
    from queueing.core.requests import Progress

SERVER = os.environ.get("USHER_LLAMA_SERVER", "")
GGUF = os.environ.get("USHER_LLAMA_MODEL", "")
VLLM = os.environ.get("USHER_VLLM", "")
FOLDER = os.environ.get("USHER_VLLM_MODEL", "")

pytestmark = pytest.mark.external
needs_llama = pytest.mark.skipif(
    not (SERVER and GGUF), reason="USHER_LLAMA_SERVER and _MODEL not set"
)
needs_vllm = pytest.mark.skipif(not (VLLM and FOLDER), reason="USHER_VLLM and _MODEL not set")
LLAMA_COMMAND = (SERVER, "--parallel", "2", "-m", GGUF, "--alias", Path(GGUF).stem)
VLLM_COMMAND = (
    *(VLLM, "serve", FOLDER, "--served-model-name", Path(FOLDER).name),
    *("--enforce-eager", "--max-model-len", "2048", "--max-num-seqs", "2"),
)


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[OpenAI]:
    backend = OpenAI(BackendSpec(name="b", kind="openai", url=f"http://127.0.0.1:{port}"))
    try:
        yield backend
    finally:
        await backend.aclose()


async def answers(backend: OpenAI, name: str) -> str:
    """Load and ask repeatedly, as the queue does, until the server is up."""
    async with asyncio.timeout(300):
        while True:
            try:
                await backend.load(model(name))
                return (await answer(backend, model(name), work(max_tokens=5))).text
            except (Unavailable, NotLoaded):
                await asyncio.sleep(0.1)


@pytest.mark.parametrize(
    ("name", "command"),
    [
        pytest.param(Path(GGUF).stem, LLAMA_COMMAND, marks=needs_llama, id="llama-server"),
        pytest.param(
            *(Path(FOLDER).name, VLLM_COMMAND),
            marks=(needs_vllm, pytest.mark.timeout(900)),  # a start takes a minute
            id="vllm",
        ),
    ],
)
async def test_a_server_killed_in_the_middle_of_an_answer_is_used_again(
    name: str, command: tuple[str, ...]
) -> None:
    """A crash of a text server would hang its job, or disable the server until a restart."""
    port = free_port()
    async with connected(port) as backend:
        async with running(port, *command) as process:
            assert await answers(backend, name)
            seen: asyncio.Queue[Progress] = asyncio.Queue()
            job = asyncio.create_task(backend.run(model(name), work(), seen.put_nowait))
            await seen.get()
            await kill(process)
            with pytest.raises(Unavailable):
                await job
            with pytest.raises(Unavailable):
                await backend.probe()
        async with running(port, *command):
            assert await answers(backend, name)


@needs_llama
async def test_a_router_whose_model_dies_goes_on() -> None:
    """One crashed model process would disable the whole server."""
    port, name = free_port(), Path(GGUF).stem
    async with (
        running(port, SERVER, "--parallel", "2", "--models-dir", str(Path(GGUF).parent)) as process,
        connected(port) as backend,
    ):
        assert await answers(backend, name)
        seen: asyncio.Queue[Progress] = asyncio.Queue()
        job = asyncio.create_task(backend.run(model(name), work(), seen.put_nowait))
        await seen.get()
        for child in children(process.pid):
            os.kill(child, signal.SIGKILL)
        with pytest.raises(BackendError) as caught:
            await job
        assert caught.value.retryable
        assert not isinstance(caught.value, OutOfMemory)
        assert await answers(backend, name)
        await backend.unload(model(name))
        assert await backend.loaded([model(name)]) == frozenset()
        assert not children(process.pid)


def children(pid: int) -> list[int]:
    """Return the processes a process started; Linux lists them by the thread that started them."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for thread in threads for child in (thread / "children").read_text().split()]
