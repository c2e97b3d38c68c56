"""The database: opening, refusing, sharing one writer, full disks, erasing."""

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from queueing.core.errors import NotAccepting, StoreError
from queueing.core.events import JobChanged
from queueing.core.jobs import JobEvent, NewJob, SubmitLimits
from queueing.core.requests import File, Output, TextToImage
from queueing.store.jobs.job_store import JobStore
from queueing.store.sql.database import Connection
from queueing.store.sql.migrations import MigrationSet
from queueing.store.sqlite import backup
from queueing.store.sqlite import database as database_module
from queueing.store.sqlite.database import SqliteDatabase, open_sqlite

LIMITS = SubmitLimits()


def new(number: int, *, size: int = 0) -> NewJob:
    files = (File(name="big", mime="image/png", data=bytes(size)),) if size else ()
    request = TextToImage(prompt="cat")
    return NewJob(model="flux", request=request, owner="ada", key=f"k{number}", files=files)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "usher.db"


@pytest.fixture(params=[False, True], ids=["threads", "inline"])
async def database(request: pytest.FixtureRequest, path: Path) -> AsyncIterator[SqliteDatabase]:
    database = await open_sqlite(f"sqlite:///{path}", inline=request.param)
    yield database
    await database.aclose()


def fill(path: Path, text: str) -> None:
    path.write_text(text)


def names(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


async def refusal(path: Path, *sets: MigrationSet) -> str:
    """Open a database that must be refused, in either way; nothing may stay open or locked."""
    said = set()
    for inline in (False, True):
        with pytest.raises(StoreError) as refused:
            await open_sqlite(f"sqlite:///{path}", migrations=sets, inline=inline)
        said.add(str(refused.value))
    assert len(said) == 1
    return said.pop()


# ---------------------------------------------------------------- opening


async def test_the_id_is_made_once(path: Path) -> None:
    """Attempts would be looked up under other keys after a restart."""
    first = await open_sqlite(f"sqlite:///{path}")
    await first.aclose()
    second = await open_sqlite(f"sqlite:///{path}")
    assert second.id == first.id
    await second.aclose()
    other = await open_sqlite("sqlite://")
    assert other.id != first.id
    await other.aclose()
    await other.aclose()


async def test_the_file_is_durable_and_fast_by_its_settings(database: SqliteDatabase) -> None:
    """A power cut would lose acknowledged jobs, or a reader would checkpoint."""

    def settings(connection: Connection) -> list[object]:
        names = ("journal_mode", "synchronous", "foreign_keys", "query_only", "wal_autocheckpoint")
        return [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names]

    assert await database.write(settings) == ["wal", 2, 1, 0, 4000]
    assert (await database.read(settings))[3:] == [1, 0]


@pytest.mark.parametrize(
    ("url", "hint"), [("postgresql://x/y", "sqlite:///path"), ("usher.db", "sqlite:///path")]
)
async def test_an_unknown_url_says_what_to_write(url: str, hint: str) -> None:
    """A misspelt setting would make a database in an unexpected place."""
    with pytest.raises(StoreError, match=hint):
        await open_sqlite(url)


async def test_a_missing_folder_is_named(path: Path) -> None:
    """The operator would read 'unable to open database file'."""
    assert "does not exist: create it" in await refusal(path.parent / "nowhere" / "usher.db")


async def test_a_second_process_is_refused_until_the_first_closes(path: Path) -> None:
    """Two writers would assign the same place twice and each believe its own counters."""
    first = await open_sqlite(f"sqlite:///{path}")
    assert "another Usher runs on this database" in await refusal(path)
    await first.aclose()
    again = await open_sqlite(f"sqlite:///{path}")
    await again.aclose()


async def test_a_sqlite_too_old_for_the_tables_is_named(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would call the database damaged, and an operator would restore a backup in vain."""
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 36, 9))
    monkeypatch.setattr(sqlite3, "sqlite_version", "3.36.9")
    assert "has SQLite 3.36.9, and Usher needs 3.37 or newer" in await refusal(path)
    assert names(path.parent) == set()
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 37, 0))
    await (await open_sqlite(f"sqlite:///{path}")).aclose()


async def test_a_folder_in_place_of_the_file_is_told(tmp_path: Path) -> None:
    """The bot would end in a traceback about a system call."""
    assert "the database is a folder: name a file in it" in await refusal(tmp_path)


async def test_a_file_that_is_no_database_is_refused_and_kept(path: Path) -> None:
    """A wrong path in the configuration would overwrite a person's file."""
    diary = "my diary\n" * 1000
    fill(path, diary)
    assert "is not a database" in await refusal(path)
    with path.open() as file:
        assert file.read() == diary


async def fill_and_damage(path: Path, table: str) -> None:
    database = await open_sqlite(f"sqlite:///{path}")
    store = JobStore(database)
    await asyncio.gather(*(store.add(new(n), 1.0, limits=LIMITS) for n in range(500)))
    root = "SELECT rootpage FROM sqlite_schema WHERE name = ?"
    page = await database.read(lambda connection: connection.execute(root, (table,)).fetchone()[0])
    await database.aclose()
    with path.open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xff" * 4096)


@pytest.mark.parametrize("table", ["jobs", "estimates"])
async def test_a_damaged_page_is_refused_with_what_to_do(path: Path, table: str) -> None:
    """Usher would run on a damaged file and fail at some later time."""
    await fill_and_damage(path, table)
    assert "restore the newest backup" in await refusal(path)


async def test_the_short_tables_are_looked_at_before_the_long_one(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A million jobs would use up the time, and a damaged table of people go unnoticed."""
    await fill_and_damage(path, "estimates")
    monkeypatch.setattr(database_module, "_LOOK_S", -1.0)  # over as soon as a table is long
    assert "restore the newest backup" in await refusal(path)


@pytest.mark.parametrize("table", ["inputs", "outputs"])
async def test_tables_of_files_are_left_to_the_check_of_all(path: Path, table: str) -> None:
    """Gigabytes of images would use up the time, and a damaged table of jobs go unnoticed."""
    await fill_and_damage(path, table)
    await (await open_sqlite(f"sqlite:///{path}")).aclose()
    with pytest.raises(StoreError, match="damaged"):
        backup.damage(path)


async def test_a_large_file_is_looked_at_for_a_moment_only(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With a million waiting jobs, the start would take as long as reading all of them twice."""
    await (await open_sqlite(f"sqlite:///{path}")).aclose()
    monkeypatch.setattr(database_module, "_LOOK_S", -1.0)
    monkeypatch.setattr(database_module, "_STEPS", 1)
    with caplog.at_level(logging.INFO):
        database = await open_sqlite(f"sqlite:///{path}")
    await database.write(lambda connection: connection.execute("CREATE TABLE more (x)"))
    await database.aclose()
    assert "usher db check" in caplog.text


async def test_a_read_only_file_is_refused_with_what_to_do(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Usher would start and fail with the first job."""
    monkeypatch.setattr("os.access", lambda where, mode: where != path)  # root may write anything
    fill(path, "")
    assert "is read-only: let the user that runs Usher write" in await refusal(path)


async def test_a_refused_write_says_what_to_do(database: SqliteDatabase) -> None:
    """A disk remounted read-only while running would leave the operator without an explanation."""
    await database.write(lambda connection: connection.execute("PRAGMA query_only = ON").fetchall())
    store = JobStore(database)
    with pytest.raises(StoreError, match="is read-only: give the file"):
        await store.add(new(1), 1.0, limits=LIMITS)


async def test_a_network_file_system_is_warned_about(
    path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs would be lost where SQLite's locks do not work, and no one would know why."""
    real = Path.read_text

    def mounts(self: Path, encoding: str | None = None) -> str:
        return "server:/x / nfs4 rw 0 0" if str(self) == "/proc/mounts" else real(self, encoding)

    monkeypatch.setattr(Path, "read_text", mounts)
    database = await open_sqlite(f"sqlite:///{path}")
    await database.aclose()
    assert "network file system" in caplog.text


# ---------------------------------------------------------------- writing and reading


def insert(value: str) -> Callable[[Connection], None]:
    def change(connection: Connection) -> None:
        connection.execute("INSERT INTO meta VALUES (?, 'x')", (value,))

    return change


def count(connection: Any) -> int:
    found: int = connection.execute("SELECT count(*) FROM meta WHERE value = 'x'").fetchone()[0]
    return found


async def test_a_failing_change_is_undone_alone(database: SqliteDatabase) -> None:
    """One caller's mistake would undo, or be committed with, the changes of others."""

    def half(connection: Connection) -> None:
        insert("half")(connection)
        raise LookupError("mistake")

    answers = await asyncio.gather(
        database.write(insert("a")),
        database.write(half),
        database.write(insert("a")),  # the key exists
        database.write(insert("b")),
        return_exceptions=True,
    )
    kinds = [type(answer) for answer in answers]
    assert kinds == [type(None), LookupError, sqlite3.IntegrityError, type(None)]
    assert await database.read(count) == 2


async def test_readers_see_what_was_written_and_cannot_write(database: SqliteDatabase) -> None:
    """A reader would get outdated answers, or change what only the writer may."""
    await database.write(insert("a"))
    assert await database.read(count) == 1
    with pytest.raises(StoreError, match="is read-only"):
        await database.read(insert("b"))
    assert await database.read(count) == 1


async def test_many_callers_share_one_commit(database: SqliteDatabase) -> None:
    """Every caller would wait for its own flush."""
    commits: list[str] = []

    def watch(connection: Any) -> None:
        connection.set_trace_callback(
            lambda statement: commits.append(statement) if statement == "COMMIT" else None
        )

    await database.write(watch)
    before = len(commits)
    await asyncio.gather(*(database.write(insert(f"{n}")) for n in range(100)))
    assert len(commits) - before <= 2  # those that met the writer at work share the next


async def test_a_file_held_by_another_program_is_waited_for_once(
    database: SqliteDatabase, path: Path
) -> None:
    """Twenty callers would wait the engine's five seconds one after the other."""
    begun: list[str] = []

    def watch(connection: Any) -> None:
        connection.execute("PRAGMA busy_timeout = 1")
        connection.set_trace_callback(
            lambda statement: begun.append(statement) if statement.startswith("BEGIN") else None
        )

    await database.write(watch)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        writing = (database.write(insert(f"{n}")) for n in range(20))
        answers = await asyncio.gather(*writing, return_exceptions=True)
        assert await database.read(count) == 0  # readers are not delayed
    assert all("another program has locked the database" in str(answer) for answer in answers)
    assert len(begun) <= 2  # those that met the writer at work share the next
    await database.write(insert("afterwards"))


async def test_a_closed_database_says_so(database: SqliteDatabase) -> None:
    """A late write would hang forever."""
    await database.aclose()
    await database.aclose()
    with pytest.raises(StoreError, match="closed"):
        await database.write(count)


async def test_closing_finishes_what_waits(path: Path) -> None:
    """An orderly stop would lose changes that were already handed over."""
    database = await open_sqlite(f"sqlite:///{path}")
    writing = [asyncio.create_task(database.write(insert(f"{n}"))) for n in range(5)]
    await asyncio.sleep(0)
    await database.aclose()
    await asyncio.gather(*writing)
    with closing(sqlite3.connect(path)) as connection:
        assert count(connection) == 5


# ---------------------------------------------------------------- a full disk


def no_more_room(connection: Connection) -> None:
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")


def room_again(connection: Connection) -> None:
    connection.execute("PRAGMA max_page_count = 1000000")


MB = 1024 * 1024


def disk_of(total: int, free: int) -> object:
    return SimpleNamespace(total=total, used=total - free, free=free)


async def test_a_full_disk_stops_accepting_and_nothing_else(
    database: SqliteDatabase, path: Path
) -> None:
    """A full disk would lose accepted jobs, or the queue would need a restart afterwards."""
    store = JobStore(database)
    first = await store.add(new(0), 1.0, limits=LIMITS)
    await database.write(no_more_room)
    answers = await asyncio.gather(
        *(store.add(new(n, size=100_000), 1.0, limits=LIMITS) for n in (1, 2)),
        store.apply(first, JobEvent.START, 2.0),
        return_exceptions=True,
    )
    assert all(isinstance(answer, NotAccepting) and answer.full_disk for answer in answers[:2])
    running = await store.get(first.id)
    assert running is not None
    begun = JobChanged(job=running, event=JobEvent.START)
    assert answers[2] == begun  # what fits is stored although another change does not fit

    big = Output(files=(File(name="p", mime="image/png", data=bytes(100_000)),))
    with pytest.raises(StoreError, match="disk is full"):
        await store.apply(running, JobEvent.COMPLETE, 3.0, output=big)
    assert await store.processing() == [running]
    assert await store.output(running) is None

    await database.write(room_again)
    done = (await store.apply(running, JobEvent.COMPLETE, 4.0, output=big)).job
    assert await store.output(done) == big
    second = await store.add(new(1, size=100_000), 5.0, limits=LIMITS)
    assert await store.positions([second.id]) == {second.id: 1}
    assert backup.damage(path) == []


async def test_places_are_right_after_a_neighbour_found_the_disk_full(
    database: SqliteDatabase,
) -> None:
    """A running job would be counted as waiting until the next start of the program."""
    store = JobStore(database)
    first, second = [await store.add(new(n), 1.0, limits=LIMITS) for n in (0, 1)]
    await database.write(no_more_room)
    started, refused = await asyncio.gather(
        store.apply(first, JobEvent.START, 2.0),  # written before the one that does not fit
        store.add(new(2, size=100_000), 2.0, limits=LIMITS),
        return_exceptions=True,
    )
    assert isinstance(started, JobChanged)
    assert isinstance(refused, NotAccepting)
    assert await store.positions([first.id, second.id]) == {second.id: 1}
    await database.write(room_again)
    third = await store.add(new(3), 3.0, limits=LIMITS)
    assert await store.positions([second.id, third.id]) == {second.id: 1, third.id: 2}


async def test_the_last_of_a_disk_is_kept_for_what_was_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a disk filled by accepted jobs, no one could cancel and nothing could be deleted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    link = tmp_path / "linked.db"  # the log stands beside the file, not beside the link
    link.symlink_to(folder / "usher.db")
    free = 16 * MB  # of 160: ten are kept, and as many as the log has
    monkeypatch.setattr(
        database_module,
        "disk_usage",
        lambda there: disk_of(160 * MB, free if there == folder else 0),
    )
    database = await open_sqlite(f"sqlite:///{link}")
    store = JobStore(database)
    first = await store.add(new(0), 1.0, limits=LIMITS)
    second = await store.add(new(1, size=8 * MB), 1.0, limits=LIMITS)
    with pytest.raises(NotAccepting) as refusal:
        await store.add(new(2), 1.0, limits=LIMITS)
    assert refusal.value.full_disk
    assert await store.add(new(0), 1.0, limits=LIMITS) == first  # because its chat asks again
    for job in (first, second):
        cancelled = (await store.apply(job, JobEvent.CANCEL, 2.0)).job
        await store.acknowledge(cancelled)
    assert await store.purge(3.0) == 2
    assert (await store.add(new(2), 4.0, limits=LIMITS)).id == 3
    await database.aclose()


async def test_a_disk_that_cannot_be_asked_stops_nothing(
    database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a file system that does not report its size, no job would be accepted."""

    def refuse(_folder: Path) -> None:
        raise OSError("not told")

    monkeypatch.setattr(database_module, "disk_usage", refuse)
    assert await JobStore(database).add(new(0), 1.0, limits=LIMITS)


# ---------------------------------------------------------------- erasing


async def test_erased_bytes_are_in_none_of_the_files(database: SqliteDatabase, path: Path) -> None:
    """A forgotten person's words and images could still be read from the disk."""
    store = JobStore(database)
    words = [f"a secret of ada {number} " * 40 for number in range(30)]
    kept = await store.add(new(0), 1.0, limits=LIMITS)
    jobs = []
    for number, text in enumerate(words, start=1):
        image = File(name="mine.png", mime="image/png", data=text.encode() * 20)
        asked = NewJob(
            model="flux",
            request=TextToImage(prompt=text),
            files=(image,),
            owner="ada",
            key=f"key of ada {number}",
        )
        job = await store.add(asked, 1.0, limits=LIMITS)
        job = (await store.apply(job, JobEvent.START, 1.0)).job
        output = Output(text=text, files=(image,))
        jobs.append((await store.apply(job, JobEvent.COMPLETE, 1.0, output=output)).job)
    await store.acknowledge(jobs[0])
    await store.purge(2.0)  # what retention deleted earlier must be gone as well
    assert any(b"of ada" in file.read_bytes() for file in path.parent.iterdir())
    assert await store.erase([job.id for job in jobs]) == 29
    for file in path.parent.iterdir():
        assert b"of ada" not in file.read_bytes(), file.name
    assert await store.get(kept.id) == kept
    assert backup.damage(path) == []


# ---------------------------------------------------------------- what people read


async def test_the_view_shows_what_a_waiting_job_waits_for(database: SqliteDatabase) -> None:
    """A person who reads the database would see other states than the chat shows."""
    store = JobStore(database)
    for number in range(2):
        await store.add(new(number), 1.0, limits=LIMITS)
    first = await store.get(1)
    assert first is not None

    async def shown() -> list[str]:
        query = "SELECT shown FROM job_status ORDER BY id"
        return await database.read(lambda connection: [row[0] for row in connection.execute(query)])

    assert await shown() == ["pending", "pending"]
    await store.note_residency([("gpu", "comfy", "flux", "loading", False)])
    assert await shown() == ["needs-loading", "needs-loading"]
    await store.note_residency([("gpu", "comfy", "flux", "ready", False)])
    await store.apply(first, JobEvent.START, 2.0)
    assert await shown() == ["processing", "ready"]
