"""No answer of an inference server can freeze the bot, fill its memory or end in a bug."""

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backends.common.http import Http
from backends.registry import KINDS
from queueing.core.catalog import Timeouts
from queueing.core.concurrency import timeout
from queueing.core.errors import BackendError
from tests.contracts.backend_harness import Harness
from tests.contracts.test_backend import HARNESSES
from tests.security.hostile_server import ANSWERS, REASON, HostileServer, hostile_server
from tests.security.test_hostile_requests import Watch

SHORT_S = 0.1
LIMIT_S = 0.4
STALL_S = 0.5  # of the processor, between two turns of the loop
GROWN_MB = 200  # by three calls at once
LEEWAY_S = 4.0  # a stop on the server may take a while
TIMEOUTS = Timeouts(load_s=SHORT_S, first_s=SHORT_S, idle_s=SHORT_S, total_s=LIMIT_S)


def calls(harness: Harness) -> Sequence[Callable[[], Awaitable[Any]]]:
    """Return calls that identify a server, load a model, and run a request with it."""
    backend, model = harness.backend, replace(harness.model, timeouts=TIMEOUTS)

    async def run() -> None:
        fetch = await backend.run(model, harness.work(), lambda _: None)
        await fetch()

    return (backend.probe, lambda: backend.load(model), run)


@asynccontextmanager
async def server_of(kind: str) -> AsyncIterator[Harness]:
    """Open the first server of a kind of backend that the contract knows."""
    for each in HARNESSES.values():
        async with each.opens() as harness:
            opened: object = type(harness.backend)
            if opened is KINDS[kind]:
                yield harness
                return
    raise LookupError(f"the contract of backends has no server of the kind {kind}")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostileServer]:
    """Provide a hostile server, and clients that wait only shortly wherever they wait at all."""

    def shortly(method: Any, word: str) -> Any:
        kinds = inspect.signature(method)

        def called(*given: Any, **named: Any) -> Any:
            bound = kinds.bind(*given, **named)
            if bound.arguments[word] is not None:
                bound.arguments[word] = min(SHORT_S, bound.arguments[word])
            return method(*bound.args, **bound.kwargs)

        return called

    monkeypatch.setattr(Http, "_whole", shortly(Http._whole, "timeout_s"))
    monkeypatch.setattr(Http, "_open", shortly(Http._open, "read_s"))
    monkeypatch.setattr("backends.comfyui.attempts.ASK_LOST_S", 0.02)
    monkeypatch.setattr("backends.comfyui.watch.CONNECT_S", 0.05)
    monkeypatch.setattr("backends.comfyui.backend.FREE_S", SHORT_S)
    with hostile_server(monkeypatch) as hostile:
        yield hostile


async def fault(call: Callable[[], Awaitable[Any]]) -> str:
    """Make a call within the time that the queue gives it; return what is wrong with its end."""
    async with Watch().running() as watch:
        began = time.monotonic()
        try:
            async with timeout(LIMIT_S):
                await call()
        except (BackendError, TimeoutError):
            pass
        except Exception as error:  # noqa: BLE001  # this is what is looked for
            return repr(error)
        took_s = time.monotonic() - began
    if watch.stall_s >= STALL_S:
        return f"{watch.stall_s:.2f} s without a turn for others"
    if watch.grown_mb >= GROWN_MB:
        return f"{watch.grown_mb:.0f} MB"
    return f"took {took_s:.1f} s" if took_s > LIMIT_S + LEEWAY_S else ""


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"demo"}))
async def test_what_a_server_says_reaches_the_log_in_a_line(
    kind: str, server: HostileServer
) -> None:
    """An operator would not learn why it failed, or would read lines that a server wrote."""
    async with server_of(kind) as harness:
        _, load, run = calls(harness)
        heard: list[str] = []
        for call, before in ((load, 0), (load, 1), (run, 0), (run, 1), (run, 2)):
            await load()
            server.turn("told error", after=before)
            try:
                await call()
            except BackendError as error:
                heard.append(str(error))
            server.turn("empty", after=None)
        assert len(heard) >= 3
        assert all(REASON in said and said.isprintable() and len(said) < 600 for said in heard)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")
@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"demo"}))
async def test_no_answer_freezes_grows_or_is_a_bug(kind: str, server: HostileServer) -> None:
    """One answer would hold up everybody, or end the bot for memory."""
    faults = {}
    async with server_of(kind) as harness:
        asked = calls(harness)
        for name in ANSWERS:
            server.turn(name, after=0)
            at_once = (fault(call) for call in asked)
            if any(wrong := await asyncio.gather(*at_once)):
                faults[name] = wrong
            assert server.reached, name
        server.turn("empty", after=None)
    assert not faults
