"""Faults of disk, database and clock: what people and operators see, and that it heals.

The whole bot in virtual time on a real database, which is filled, locked, made read-only or damaged
while it runs.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from queueing.core.errors import StoreError, Unavailable
from queueing.core.jobs import JobEvent, JobState
from queueing.core.ports import SystemClock
from queueing.core.requests import Work
from queueing.store.engines import open_database
from queueing.store.jobs.job_store import JobStore
from queueing.store.sql.database import Connection
from queueing.store.sqlite import backup
from queueing.store.sqlite.database import SqliteDatabase
from tests.chaos.scenarios import quiet, small_installation, told
from tests.fakes.chat import FakeChat
from tests.fakes.clock import START
from tests.fakes.servers.backend import Fate, prompt_of
from tests.simulation.bot_installation import Bot, bot
from tests.simulation.installation import NO_LIMITS, Installation
from tests.simulation.loop import in_virtual_time

Harm = Callable[[Bot, Path], Callable[[], None]]
"""Does something to a running bot's database and returns what takes it back."""

NOT_STORED = "Usher is restarting or can't store your request. Nothing was accepted"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "usher.sqlite"


def at(path: Path) -> Installation:
    return small_installation(url=f"sqlite:///{path}")


async def ask(running: Bot, prompt: str, person: int) -> None:
    """Let a person ask for an image in their own chat."""
    call = running.chat.call(f"/image flux {prompt}", user=f"fake:{person}", chat=str(person))
    await running.dispatcher.call(call)


def first_line(chat: FakeChat, person: int) -> str:
    """Return how the one message in a person's own chat begins in the end."""
    (text,) = shown_to(chat, person)
    return text.partition("\n")[0]


def shown_to(chat: FakeChat, person: int) -> list[str]:
    """Return what a person's own chat shows in the end, pings aside."""
    texts = [each.text for each in chat.messages.values() if each.chat == str(person)]
    return [text for text in texts if not text.startswith("Ready:")]


# ---------------------------------------------------------------- the disk


def test_a_full_disk_is_told_and_what_was_accepted_goes_on_afterwards() -> None:
    """A full disk would lose running work, or people not learn why nothing is accepted."""

    async def scenario(running: Bot, _: Installation) -> None:
        database = running.records._database
        await ask(running, "a cat", 1)
        await asyncio.sleep(12)
        await database.write(_no_more_room)
        for number in range(9):
            await ask(running, f"{number}" + " a dog" * 200, 2)
        await asyncio.sleep(300)
        await database.write(_room_again)

    chat = told(scenario)
    assert first_line(chat, 1) == "a cat"
    assert any("no disk space left for the database" in text for _, text in chat.private), (
        chat.private
    )


def _no_more_room(connection: Connection) -> None:
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")


def _room_again(connection: Connection) -> None:
    connection.execute("PRAGMA max_page_count = 1000000")


# ---------------------------------------------------------------- the database


def _held_by_another(_: Bot, path: Path) -> Callable[[], None]:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    return other.close


def _read_only(running: Bot, _: Path) -> Callable[[], None]:
    database = running.records._database
    assert isinstance(database, SqliteDatabase)
    connection = database._writer._plain
    assert connection is not None
    connection.execute(
        "PRAGMA query_only = ON"
    )  # the engine's own refusal; root may write anything
    return lambda: connection.execute("PRAGMA query_only = OFF").close()


@pytest.mark.parametrize(
    ("harm", "advice"),
    [
        (_held_by_another, "another program has locked the database: close it and try again"),
        (_read_only, "the database is read-only: give the file and its folder to the user"),
    ],
)
def test_a_database_that_takes_nothing_for_a_while_loses_nothing(
    harm: Harm, advice: str, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A result would be lost, an unstored request accepted, or a restart needed to continue."""

    async def scenario(running: Bot, _: Installation) -> None:
        await running.records._database.write(_no_patience)
        await ask(running, "a cat", 1)
        await ask(running, "a bird", 2)
        await asyncio.sleep(12)
        jobs = await running.queue.jobs.open_jobs()
        assert [job.state for job in jobs] == [JobState.PROCESSING, JobState.PENDING]
        undo = harm(running, path)
        await ask(running, "a dog", 3)
        await asyncio.sleep(300)
        assert await running.queue.jobs.open_jobs() == jobs  # nothing is shown that is not stored
        undo()
        await asyncio.sleep(300)
        assert await running.queue.deliveries.unacknowledged() == []  # without a restart
        await ask(running, "a dog", 3)

    chat = told(scenario, at(path))
    assert [first_line(chat, person) for person in (1, 2, 3)] == ["a cat", "a bird", "a dog"]
    assert [who for who, text in chat.private if text.startswith(NOT_STORED)] == ["3"]
    assert advice in caplog.text


def _no_patience(connection: Connection) -> None:
    """Wait only a moment for another program's lock, as if the whole time had passed."""
    connection.execute("PRAGMA busy_timeout = 1")


@in_virtual_time
async def test_damage_met_while_running_stops_accepting_and_a_backup_goes_on(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Requests would be accepted into a file that has to be thrown away."""
    installation, chat, copy = at(path), FakeChat(), path.with_name("backup")

    async def met() -> None:
        await _a_past(installation)
        async with bot(installation, chat) as running:
            await ask(running, "a cat", 1)
            await ask(running, "a bird", 2)
            await asyncio.sleep(12)
            backup.backup(path, copy)
            for person in range(3, 9):  # a request that splits the page writes it whole again
                await running.records._database.write_and_scrub(_note)  # all is in the file itself
                _damage(path)
                await ask(running, "a fish", person)  # taken: no one has met the damage yet
                await asyncio.sleep(10)
                await ask(running, "a dog", 10 * person)
                await asyncio.sleep(10)
                if refused():
                    return

    async def mended() -> None:
        with pytest.raises(StoreError, match="restore the newest backup"):
            await open_database(installation.url, inline=True)
        for name in ("usher.sqlite-wal", "usher.sqlite-shm"):
            path.with_name(name).unlink(missing_ok=True)
        copy.replace(path)
        async with bot(installation, chat) as running:
            await ask(running, "a dog", int(refused()[0]))
            await quiet(running)

    def refused() -> list[str]:
        return [who for who, text in chat.private if text.startswith(NOT_STORED)]

    await met()
    (one,) = refused()
    assert shown_to(chat, int(one)) == []
    advice = "the database is damaged: stop Usher and restore the newest backup"
    found = [each for each in caplog.records if advice in each.getMessage()]
    assert [each.levelno for each in found].count(logging.ERROR) == 1
    await mended()
    people = (1, 2, int(refused()[0]))
    assert [first_line(chat, person) for person in people] == ["a cat", "a bird", "a dog"]


async def _a_past(installation: Installation) -> None:
    """Make the table of jobs too large for one page."""
    store = JobStore(await open_database(installation.url, inline=True))
    for number in range(100):
        job = await store.add(installation.new("flux", f"{number}" * 99), START, limits=NO_LIMITS)
        await store.acknowledge((await store.apply(job, JobEvent.CANCEL, START)).job)
    await store.aclose()


def _note(connection: Connection) -> None:
    connection.execute("INSERT OR REPLACE INTO notes VALUES ('a', 'note')")


def _damage(path: Path) -> None:
    """Overwrite the first page of the table of jobs, as a dying disk would."""
    with closing(sqlite3.connect(path)) as connection:
        root = "SELECT rootpage FROM sqlite_schema WHERE name = 'jobs'"
        (page,) = connection.execute(root).fetchone()
    with path.open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xff" * 4096)


# ---------------------------------------------------------------- the clock


class _Clocks:
    """The machine's clock, which a person sets, and the steady one; both follow virtual time."""

    def __init__(self) -> None:
        self.set_by_h = 0.0

    def time(self) -> float:
        return START + self.set_by_h * 3600.0 + self.monotonic()

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def clock_gettime(self, _: int) -> float:
        return self.monotonic()


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> _Clocks:
    clocks = _Clocks()
    monkeypatch.setattr("queueing.core.ports.time", clocks)
    return clocks


async def within(seconds: float, running: Bot) -> None:
    """Wait until every end is reported; fail if that takes longer."""
    began = asyncio.get_running_loop().time()
    await quiet(running)
    assert asyncio.get_running_loop().time() - began < seconds


def pauses_between() -> Installation:
    """Return an installation whose first attempt at each request fails, which pauses it."""
    installation = small_installation(url="sqlite://", clock=SystemClock())
    met: set[str] = set()

    def fate(work: Work) -> Fate:
        first = prompt_of(work) not in met
        met.add(prompt_of(work))
        return Fate(error=Unavailable("connection reset")) if first else Fate()

    installation.servers["comfy"].fates = fate
    return installation


@pytest.mark.parametrize("jumps_h", [(5.0, -9.0, 7.0, -3.0), (-2.0, 400_000.0)])
@in_virtual_time
async def test_a_clock_set_by_hours_holds_nothing_up(
    clocks: _Clocks, jumps_h: tuple[float, ...]
) -> None:
    """Pauses, places and edits would wait for hours, or forever if a machine begins in 1970."""
    chat = FakeChat()
    async with bot(pauses_between(), chat) as running:
        for person, jump_h in enumerate(jumps_h):
            await ask(running, f"cat {person}", person)
            await asyncio.sleep(16)  # in the middle of the pause after its first attempt
            clocks.set_by_h += jump_h
            await asyncio.sleep(1)
        await within(120, running)
    ends = [first_line(chat, person) for person in range(len(jumps_h))]
    assert ends == [f"cat {person}" for person in range(len(jumps_h))]


@in_virtual_time
async def test_a_clock_set_back_between_two_runs_holds_nothing_up(
    clocks: _Clocks, path: Path
) -> None:
    """A pause written while the clock was ahead would last as long as the clock was ahead."""
    chat = FakeChat()
    clocks.set_by_h = 5.0
    installation = replace(pauses_between(), url=f"sqlite:///{path}")
    async with bot(installation, chat) as running:
        await ask(running, "a cat", 1)
        await asyncio.sleep(16)
        (job,) = await running.queue.jobs.open_jobs()
        assert job.not_before > running.clock.now()
    clocks.set_by_h = 0.0
    async with bot(replace(installation, clock=SystemClock()), chat) as running:
        await within(120, running)
    assert first_line(chat, 1) == "a cat"
