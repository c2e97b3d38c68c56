"""`usher backup` and `usher db check`, from another process than the bot's."""

import asyncio
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from bot.cli import main as cli
from queueing.core.jobs import Job, NewJob, SubmitLimits
from queueing.core.requests import TextToImage
from queueing.store.engines import open_database
from queueing.store.jobs.job_store import JobStore

ROOT = Path(__file__).parents[3]
CONFIG = """\
hosts: {home: {vram: 24GB, backends: {stand-in: {kind: demo}}}}
models: {flux: {backends: [stand-in]}}
chats: {web: {port: 0}}
"""
LIMITS = SubmitLimits(max_open=100_000, max_waiting=100_000)


def new(number: int) -> NewJob:
    request = TextToImage(prompt=f"cat {number}" * 20)
    return NewJob(model="flux", request=request, owner="ada", key=f"k{number}")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG, encoding="utf-8")
    return file


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "usher.sqlite"


def made(database: Path, jobs: int) -> None:
    """Make a database with this many waiting jobs and close it."""

    async def fill() -> None:
        opened = await open_database(f"sqlite:///{database}")
        store = JobStore(opened)
        await asyncio.gather(*(store.add(new(n), 1.0, limits=LIMITS) for n in range(jobs)))
        await opened.aclose()

    asyncio.run(fill())


def jobs_in(file: Path) -> list[int]:
    with closing(sqlite3.connect(file)) as connection:
        return [row[0] for row in connection.execute("SELECT id FROM jobs ORDER BY id")]


async def test_a_backup_while_the_bot_accepts_jobs_is_whole(
    config: Path, database: Path, tmp_path: Path
) -> None:
    """A backup of a running bot would miss acknowledged jobs, be torn, or stop the bot's work."""
    bot = await open_database(f"sqlite:///{database}")
    store = JobStore(bot)
    accepted: list[int] = []

    async def accept() -> None:
        while True:
            number = len(accepted)
            accepted.append((await store.add(new(number), 1.0, limits=LIMITS)).id)

    async with asyncio.TaskGroup() as group:
        accepting = group.create_task(accept())
        while len(accepted) < 50:  # noqa: ASYNC110  what it waits for signals nothing
            await asyncio.sleep(0)
        copy, before = tmp_path / "copy.sqlite", len(accepted)
        command = (sys.executable, "-m", "bot", "backup", str(copy), "-c", str(config))
        process = await asyncio.create_subprocess_exec(*command, cwd=ROOT)
        assert await process.wait() == 0
        assert len(accepted) > before
        kept = jobs_in(copy)
        assert kept[:before] == accepted[:before]
        assert cli.main(["db", "check", str(copy)]) == 0
        accepting.cancel()
    await bot.aclose()
    assert jobs_in(database)[: len(accepted)] == accepted
    assert jobs_in(database)[: len(kept)] == kept, "it is torn"


def test_a_backup_starts_as_a_database_of_its_own(
    config: Path, database: Path, tmp_path: Path
) -> None:
    """A backup could not be restored, or only with the log of a process that is gone."""
    made(database, 3)
    copy = tmp_path / "copy.sqlite"
    copy.write_text("an older backup", encoding="utf-8")
    assert cli.main(["backup", str(copy), "-c", str(config)]) == 0
    database.unlink()

    async def restored() -> Job | None:
        opened = await open_database(f"sqlite:///{copy}")
        job = await JobStore(opened).get(2)
        await opened.aclose()
        return job

    job = asyncio.run(restored())
    assert job is not None
    assert job.owner == "ada"


def test_a_backup_that_fails_leaves_the_older_one_alone(
    config: Path, database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A failed backup would destroy the good one before it, or look like one."""
    database.write_text("no database" * 1000, encoding="utf-8")
    copy = tmp_path / "copy.sqlite"
    copy.write_text("an older backup", encoding="utf-8")
    assert cli.main(["backup", str(copy), "-c", str(config)]) == 2
    assert "not a database" in capsys.readouterr().err
    assert copy.read_text(encoding="utf-8") == "an older backup"
    assert not copy.with_name("copy.sqlite.partial").exists()


@pytest.mark.parametrize("mode", [0o600, 0o640])
def test_a_backup_is_read_by_nobody_who_could_not_read_the_database(
    config: Path, database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    """Everyone's prompts and images would be readable by every account of the machine."""
    made(database, 1)
    database.chmod(mode)
    copymode, meanwhile = shutil.copymode, []

    def look_first(source: Path, copy: Path) -> None:
        meanwhile.append(copy.stat().st_mode & 0o777)
        copymode(source, copy)

    monkeypatch.setattr(shutil, "copymode", look_first)
    assert cli.main(["backup", str(tmp_path / "copy"), "-c", str(config)]) == 0
    assert meanwhile == [0o600]  # while it is written, it is no one else's
    assert (tmp_path / "copy").stat().st_mode & 0o777 == mode


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("usher.sqlite", "is the database itself"),
        ("nowhere/copy", "does not exist: create it"),
        (".", "cannot be written"),
    ],
)
def test_a_backup_with_no_place_is_refused(
    target: str,
    told: str,
    config: Path,
    database: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The operator would rely on a backup that does not exist, or overwrite the database."""
    made(database, 1)
    assert cli.main(["backup", str(config.parent / target), "-c", str(config)]) == 2
    assert told in capsys.readouterr().err
    assert jobs_in(database) == [1]


@pytest.mark.parametrize("command", [["backup", "copy"], ["db", "check"]])
def test_a_database_that_does_not_exist_is_told_and_not_made(
    command: list[str],
    config: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A wrong path would produce an empty backup, which looks like a good one."""
    monkeypatch.chdir(config.parent)
    assert cli.main([*command, "-c", str(config)]) == 2
    assert "there is no such file" in capsys.readouterr().err
    assert sorted(file.name for file in config.parent.iterdir()) == ["config.yaml"]


async def test_check_says_that_all_is_well_beside_a_running_bot(
    config: Path, database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An operator would have to stop the bot to check."""
    bot = await open_database(f"sqlite:///{database}")
    await JobStore(bot).add(new(1), 1.0, limits=LIMITS)
    assert cli.main(["db", "check", "-c", str(config)]) == 0
    assert capsys.readouterr().out == f"{database}: all is well\n"
    await bot.aclose()


def without_an_index_entry(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("DELETE FROM sqlite_schema WHERE name = 'jobs_open'")
        connection.commit()


def with_an_orphan(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("INSERT INTO outputs VALUES (99999, 0, '', '', x'')")
        connection.commit()


def with_a_wrong_row(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute("UPDATE jobs SET finished_at = 5 WHERE id = 1")
        connection.commit()


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (without_an_index_entry, "never used"),
        (with_an_orphan, "orphaned: ('outputs'"),
        (with_a_wrong_row, "CHECK constraint failed in jobs"),
    ],
)
def test_check_finds_damage(
    harm: object, told: str, config: Path, database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`usher db check` would call a damaged database healthy."""
    made(database, 200)
    assert callable(harm)
    harm(database)
    assert cli.main(["db", "check", "-c", str(config)]) == 2
    seen = capsys.readouterr()
    assert told.casefold() in seen.out.casefold()
    assert "restore the newest" in seen.err


def test_check_finds_a_page_that_the_disk_lost(
    config: Path, database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A page of zeros would only be found when a person misses a job."""
    made(database, 2000)
    content = bytearray(database.read_bytes())
    assert len(content) > 60 * 4096
    content[50 * 4096 : 51 * 4096] = bytes(4096)
    database.write_bytes(content)
    assert cli.main(["db", "check", "-c", str(config)]) == 2
    seen = capsys.readouterr()
    assert seen.out + seen.err != ""
    assert "restore the newest" in seen.err
