"""No answer of an inference server can freeze the bot, fill its memory or cause a bug."""

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backends.common.http import Http
from backends.registry import KINDS
from queueing.core.concurrency import timeout
from queueing.core.errors import BackendError
from queueing.core.ports import Backend
from queueing.core.specs import Timeouts
from tests.contracts.backend.backend_harness import Harness
from tests.contracts.backend.test_backend import HARNESSES
from tests.security.hostile_server import (
    ANSWERS,
    ASKED,
    REASON,
    Asked,
    HostileServer,
    hostile_server,
)
from tests.security.test_hostile_requests import Watch

SHORT_S = 0.1
LIMIT_S = 0.4
STALL_S = 0.8  # of the processor, between two turns of the loop: others are answered within 1 s
GROWN_MB = 200  # by all calls at once, which can each hold what they parsed
GROWN_ALONE_MB = 150  # by one call, whose requests can overlap, made without the others
GROWN = "MB more memory"
LEEWAY_S = 4.0  # a stop on the server may take a while
LASTING = {"gone", "aclose"}  # calls that ask a server nothing
MOST_USED = ("probe", "load", "run")
REQUESTS = 8  # of one call
LATER = ("lists within the limit", "objects", "error in a whole answer", "null", "page", "cut")
READ_APART = ("comfyui", "openai")
READ_ALIKE = sorted(KINDS.keys() - {"demo", *READ_APART})  # with the code of those
TIMEOUTS = Timeouts(load_s=SHORT_S, first_s=SHORT_S, idle_s=SHORT_S, total_s=LIMIT_S)


def calls(harness: Harness) -> Mapping[str, Callable[[], Awaitable[Any]]]:
    """Return every call of a backend's port, with what it needs."""
    model = replace(harness.model, timeouts=TIMEOUTS)
    given = {"model": model, "models": [model], "report": lambda _: None}

    def asking(method: Callable[..., Any]) -> Callable[[], Awaitable[Any]]:
        async def ask() -> None:
            told = given | {"work": harness.work()}
            needed = inspect.signature(method).parameters.values()
            made = await method(**{e.name: told[e.name] for e in needed if e.default is e.empty})
            if callable(made):  # a run that has ended, whose result can be fetched
                await made()

        return ask

    public = inspect.getmembers(Backend, inspect.iscoroutinefunction)
    names = [name for name, _ in public if not name.startswith("_") and name not in LASTING]
    return {name: asking(getattr(harness.backend, name)) for name in names}


@asynccontextmanager
async def server_of(kind: str) -> AsyncIterator[Harness]:
    """Open the first server of a kind of backend that the contract knows, if possible for texts."""
    named = {"openai": "ollama"}.get(kind)
    for each in HARNESSES.values() if named is None else (HARNESSES[named],):
        async with each.opens() as harness:
            opened: object = type(harness.backend)
            if opened is KINDS[kind]:  # a kind can inherit from another
                yield harness
                return
    raise LookupError(f"the contract of backends has no server of the kind {kind}")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostileServer]:
    with hostile_server(monkeypatch) as hostile:
        yield hostile


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clients wait only shortly for the hostile server."""

    def shortly(method: Any, word: str) -> Any:
        kinds = inspect.signature(method)

        def called(*given: Any, **named: Any) -> Any:
            bound = kinds.bind(*given, **named)
            if ASKED.get() is not None and bound.arguments[word] is not None:
                bound.arguments[word] = min(SHORT_S, bound.arguments[word])
            return method(*bound.args, **bound.kwargs)

        return called

    monkeypatch.setattr(Http, "_whole", shortly(Http._whole, "timeout_s"))
    monkeypatch.setattr(Http, "_open", shortly(Http._open, "read_s"))
    monkeypatch.setattr("backends.comfyui.attempts.ASK_LOST_S", 0.02)
    monkeypatch.setattr("backends.comfyui.progress.CONNECT_S", 0.05)
    monkeypatch.setattr("backends.comfyui.backend.FREE_S", SHORT_S)


async def fault(
    call: Callable[[], Awaitable[Any]], asked: Asked, grown_mb: float = GROWN_MB
) -> str:
    """Make a call within the time that the queue gives it; return what is wrong with its end."""
    ASKED.set(asked)
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
    if watch.grown_mb >= grown_mb:
        return f"{watch.grown_mb:.0f} {GROWN}"
    return f"took {took_s:.1f} s" if took_s > LIMIT_S + LEEWAY_S else ""


async def faults(
    server: HostileServer, name: str, asked: Mapping[str, Callable[[], Awaitable[Any]]], after: int
) -> Mapping[str, str] | None:
    """Make calls at once; return what is wrong with each, or None if no request was answered."""
    server.answer = name
    counts = {word: Asked(after) for word in asked}
    made = (asyncio.create_task(fault(call, counts[word])) for word, call in asked.items())
    wrong = dict(zip(asked, await asyncio.gather(*made), strict=True))
    if not any(each.reached for each in counts.values()):
        return None
    for word, each in wrong.items():
        if each.endswith(GROWN):  # of the process, so each call in question is made alone
            wrong[word] = await fault(asked[word], Asked(after), GROWN_ALONE_MB)
    return {f"{word}, after {after}: {name}": each for word, each in wrong.items() if each}


needs_linux = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"demo"}))
async def test_what_a_server_says_reaches_the_log_in_a_line(
    kind: str, server: HostileServer
) -> None:
    """An operator would not learn why it failed, or would read lines that a server forged."""
    server.answer = "told error"
    async with server_of(kind) as harness:
        asked, heard = calls(harness), list[str]()
        for word, after in (("load", 0), ("load", 1), ("run", 0), ("run", 1), ("run", 2)):
            await asked["load"]()
            before = ASKED.set(Asked(after))
            try:
                await asked[word]()
            except BackendError as error:
                heard.append(str(error))
            finally:
                ASKED.reset(before)
        assert len(heard) >= 3
        assert all(REASON in said and said.isprintable() and len(said) < 600 for said in heard)


@needs_linux
@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize(
    ("kind", "names"),
    [
        *(pytest.param(kind, ANSWERS, id=kind) for kind in READ_APART),
        *(pytest.param(kind, LATER, id=kind) for kind in READ_ALIKE),
        *(
            pytest.param(kind, ANSWERS, id=f"{kind}-all", marks=pytest.mark.thorough)
            for kind in READ_ALIKE
        ),
    ],
)
async def test_no_answer_freezes_grows_or_is_a_bug(
    kind: str, names: Iterable[str], server: HostileServer
) -> None:
    """One answer would block everybody, or crash the bot for lack of memory."""
    found: dict[str, str] = {}
    async with server_of(kind) as harness:
        asked = calls(harness)
        assert set(MOST_USED) < set(asked)
        for name in names:
            wrong = None
            while wrong is None:  # on a busy machine, time can be over before the first request
                wrong = await faults(server, name, {word: asked[word] for word in MOST_USED}, 0)
            found |= wrong
    assert not found


@needs_linux
@pytest.mark.usefixtures("_impatient")
@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize("flavour", [each for each in HARNESSES if not each.startswith("demo")])
async def test_no_answer_to_any_call_of_any_flavour_is_a_bug(
    flavour: str, server: HostileServer
) -> None:
    """The same for every call, and after each request of a call that has several.

    Flavours share the code that reads answers with another: only a few of theirs are tried.
    """
    found: dict[str, str] = {}
    async with HARNESSES[flavour].opens() as harness:
        asked = calls(harness)
        if HARNESSES[flavour].flavour_of is None:
            for name in ANSWERS:
                found |= await faults(server, name, asked, after=0) or {}
        for name in LATER:
            for after in range(REQUESTS):
                if (wrong := await faults(server, name, asked, after)) is None:
                    break
                found |= wrong
    assert not found
