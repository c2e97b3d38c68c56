"""`usher restore`: a backup replaces a database, whatever a killed process has left."""

import asyncio
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from bot.app.setup import MIGRATIONS
from bot.cli import main as cli
from queueing.store.engines import open_database
from queueing.store.jobs.job_store import JobStore
from queueing.store.sqlite.backup import IDS_LEFT_OUT
from queueing.store.sqlite.file_lock import own
from tests.bot.app.test_upkeep import LIMITS, jobs_in, made, new

SERVER = "postgresql://usher:geheim@127.0.0.1:9/usher"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    text = "hosts: {h: {vram: 24GB, backends: {d: {kind: demo}}}}\nchats: {web: {}}\n"
    file = tmp_path / "config.yaml"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "usher.sqlite"


def backed_up(config: Path, name: str = "monday.sqlite") -> Path:
    file = config.parent / name
    assert cli.main(["backup", str(file), "-c", str(config)]) == 0
    return file


def killed(database: Path, jobs: int, *, checkpoint: bool) -> None:
    """Add jobs, and leave the files as a killed process leaves them."""
    left = database.with_name("left")

    async def work() -> None:
        opened = await open_database(f"sqlite:///{database}", migrations=(MIGRATIONS,))
        store = JobStore(opened)
        await store.prepare()
        for number in range(jobs):
            await store.add(new(100 + number), 1.0, limits=LIMITS)
            if checkpoint and number == jobs // 2:
                with closing(sqlite3.connect(database)) as other:
                    other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        left.mkdir()
        for end in ("", "-wal", "-shm"):
            shutil.copy(f"{database}{end}", left / f"{database.name}{end}")
        await opened.aclose()

    asyncio.run(work())
    for file in left.iterdir():
        file.replace(database.with_name(file.name))
    left.rmdir()
    assert database.with_name("usher.sqlite-wal").stat().st_size


def kept_in(folder: Path) -> list[Path]:
    return [
        each for each in folder.glob("*.replaced-*") if not each.name.endswith(("-wal", "-shm"))
    ]


def added(database: Path) -> int:
    """Return the id of a newly accepted job."""

    async def add() -> int:
        opened = await open_database(f"sqlite:///{database}", migrations=(MIGRATIONS,))
        store = JobStore(opened)
        await store.prepare()
        job = await store.add(new(99), 1.0, limits=LIMITS)
        await opened.aclose()
        return job.id

    return asyncio.run(add())


@pytest.mark.parametrize("checkpoint", [False, True])
def test_the_log_of_a_killed_process_neither_undoes_nor_damages_it(
    config: Path, database: Path, checkpoint: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """All jobs after the backup would be there again, or "the database is damaged"."""
    made(database, 5)
    copy = backed_up(config)
    killed(database, 30, checkpoint=checkpoint)
    before = copy.read_bytes()
    assert cli.main(["restore", str(copy), "-c", str(config)]) == 0
    said = capsys.readouterr().out
    assert jobs_in(database) == [1, 2, 3, 4, 5]
    assert not database.with_name("usher.sqlite-wal").exists()
    assert cli.main(["db", "check", "-c", str(config)]) == 0
    (kept,) = kept_in(config.parent)
    assert str(kept) in said
    assert len(jobs_in(kept)) == 35
    assert copy.read_bytes() == before
    assert added(database) == 36  # not 6, whose results a server may still have


def test_what_was_restored_can_be_undone(config: Path, database: Path) -> None:
    """Restoring the wrong backup would lose everything since."""
    made(database, 2)
    copy = backed_up(config)
    killed(database, 3, checkpoint=False)
    assert cli.main(["restore", str(copy), "-c", str(config)]) == 0
    (kept,) = kept_in(config.parent)
    assert cli.main(["restore", str(kept), "-c", str(config)]) == 0
    assert jobs_in(database) == [1, 2, 3, 4, 5]
    assert len(kept_in(config.parent)) == 2


def test_it_replaces_a_database_that_is_damaged_or_gone(config: Path, database: Path) -> None:
    """The command would refuse just when it is needed."""
    made(database, 5)
    copy = backed_up(config)
    database.write_bytes(b"no database" * 1000)
    database.with_name("usher.sqlite-wal").write_bytes(b"no log")
    assert cli.main(["restore", str(copy), "-c", str(config)]) == 0
    assert jobs_in(database) == [1, 2, 3, 4, 5]
    (kept,) = kept_in(config.parent)
    assert kept.read_bytes() == b"no database" * 1000
    for file in (database, database.with_name("usher.sqlite.lock")):
        file.unlink()
    assert cli.main(["restore", str(copy), "-c", str(config)]) == 0
    assert len(kept_in(config.parent)) == 1
    assert added(database) == 5 + IDS_LEFT_OUT + 1


def test_a_copy_with_its_own_log_is_whole(config: Path, database: Path) -> None:
    """Files that were copied together after a crash contain more than the first of them."""
    killed(database, 4, checkpoint=False)
    there = config.parent / "there"
    there.mkdir()
    for end in ("", "-wal"):
        shutil.move(f"{database}{end}", there / f"copy{end}")
    database.with_name("usher.sqlite-shm").unlink()
    there.chmod(0o500)
    try:
        assert cli.main(["restore", str(there / "copy"), "-c", str(config)]) == 0
    finally:
        there.chmod(0o700)
    assert jobs_in(database) == [1, 2, 3, 4]


def _text(file: Path) -> None:
    file.write_text("TELEGRAM_TOKEN=1", encoding="utf-8")


def _empty(file: Path) -> None:
    file.touch()


def _other(file: Path) -> None:
    with closing(sqlite3.connect(file)) as other:
        other.execute("CREATE TABLE notes (text)")


def _cut_off(file: Path) -> None:
    made(file, 50)
    file.write_bytes(file.read_bytes()[:40_000])


def _newer(file: Path) -> None:
    made(file, 1)
    with closing(sqlite3.connect(file)) as newer, newer:
        newer.execute("UPDATE meta SET value = '9999' WHERE key LIKE 'schema%'")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (None, "there is no such file"),
        (Path.mkdir, "there is no such file"),
        (_text, "it is not a database: name a file of `usher backup`"),
        (_empty, "is not a database of Usher"),
        (_other, "is not a database of Usher"),
        (_cut_off, "it is damaged: restore another backup"),
        (_newer, "newer"),
    ],
)
def test_what_is_no_backup_changes_nothing(
    make: Callable[[Path], object] | None,
    says: str,
    config: Path,
    database: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A working database would be replaced by a file that does not work."""
    made(database, 2)
    file = config.parent / "file"
    if make is not None:
        make(file)
    before = sorted(config.parent.iterdir())
    assert cli.main(["restore", str(file), "-c", str(config)]) == 2
    assert says in capsys.readouterr().err
    assert sorted({*config.parent.iterdir()} - {file.with_name("file.lock")}) == sorted(
        {*before, database.with_name("usher.sqlite.lock")} - {file.with_name("file.lock")}
    )
    assert jobs_in(database) == [1, 2]


def test_it_waits_for_no_running_bot_but_refuses(
    config: Path, database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The bot would go on writing to a file that nobody sees any more."""
    made(database, 1)
    copy = backed_up(config)
    with closing(own(database)):
        assert cli.main(["restore", str(copy), "-c", str(config)]) == 2
    assert "another Usher runs on this database: stop it first" in capsys.readouterr().err
    assert cli.main(["restore", str(database), "-c", str(config)]) == 2
    assert "is the database itself" in capsys.readouterr().err
    with closing(own(copy)):
        assert cli.main(["restore", str(copy), "-c", str(config)]) == 2
    assert "Usher is running on this file" in capsys.readouterr().err
    assert jobs_in(database) == [1]
    assert kept_in(config.parent) == []


def test_other_accounts_still_cannot_read_it(config: Path, database: Path) -> None:
    """Everyone's prompts and images would be readable by every account of the machine."""
    made(database, 1)
    copy = backed_up(config)
    copy.chmod(0o644)
    database.chmod(0o640)
    assert cli.main(["restore", str(copy), "-c", str(config)]) == 0
    assert database.stat().st_mode & 0o777 == 0o640
    database.unlink()
    assert cli.main(["restore", str(copy), "-c", str(config)]) == 0
    assert database.stat().st_mode & 0o777 == 0o600


def test_a_database_on_a_server_is_restored_by_its_own_tools(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file would appear beside a configuration that never reads it."""
    pytest.importorskip("psycopg")
    config.write_text(f"database: {SERVER}\n{config.read_text(encoding='utf-8')}", encoding="utf-8")
    assert cli.main(["restore", "monday.sqlite", "-c", str(config)]) == 2
    said = capsys.readouterr().err
    assert "pg_restore" in said
    assert "usher db copy" in said
    assert "geheim" not in said
