"""A database has one writer, by whichever name it is reached, and no one else can read it."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from queueing.core.errors import NotAccepting, StoreError
from queueing.core.jobs import NewJob, SubmitLimits
from queueing.core.requests import TextToImage
from queueing.store.engines import open_database
from queueing.store.jobs.job_store import JobStore
from queueing.store.sqlite.file_lock import is_owned, own

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has other links and modes")

OWN = """
import sys
from pathlib import Path
from queueing.store.sqlite.file_lock import own
held = own(Path(sys.argv[1]))
print("ours", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "usher.sqlite"


def refused(path: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", OWN, str(path)],
        input="",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode != 0
    return done.stderr


async def test_a_symlink_leads_to_the_same_database(path: Path, tmp_path: Path) -> None:
    """Two bots would write one file and use each other's numbers."""
    (tmp_path / "other").mkdir()
    link = tmp_path / "other" / "usher.sqlite"
    link.symlink_to(path)
    database = await open_database(f"sqlite:///{path}")
    with pytest.raises(StoreError, match="another Usher runs on this database"):
        await open_database(f"sqlite:///{link}")
    assert "another Usher runs on this database" in refused(link)
    await database.aclose()
    by_link = await open_database(f"sqlite:///{link}")  # alone it may be used
    assert by_link.id == database.id
    await by_link.aclose()


async def test_a_file_with_two_names_is_refused(path: Path, tmp_path: Path) -> None:
    """SQLite keeps its log beside each name: two writers would ruin the file."""
    await (await open_database(f"sqlite:///{path}")).aclose()
    os.link(path, tmp_path / "second.sqlite")
    with pytest.raises(StoreError, match="hard link"):
        await open_database(f"sqlite:///{path}")
    (tmp_path / "second.sqlite").unlink()
    await (await open_database(f"sqlite:///{path}")).aclose()


def test_a_lock_file_that_is_deleted_lets_nobody_in(path: Path) -> None:
    """A person who cleans up would let a second bot write."""
    held = own(path)
    path.with_name(path.name + ".lock").unlink()
    assert "another Usher runs on this database" in refused(path)
    held.close()
    own(path).close()


def test_it_is_known_whether_somebody_runs_on_it(path: Path) -> None:
    """A bot that was killed would count as alive."""
    assert is_owned(path) is None
    held = own(path)
    assert is_owned(path) is True
    held.close()
    assert is_owned(path) is False


@pytest.mark.parametrize("mask", [0o022, 0o000])
async def test_nobody_else_can_read_what_is_written(path: Path, mask: int) -> None:
    """Prompts, images and links would be readable by every account of the machine."""
    before = os.umask(mask)
    try:
        database = await open_database(f"sqlite:///{path}")
        await database.write(lambda connection: connection.execute("CREATE TABLE more (x)"))
        modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
        await database.aclose()
    finally:
        os.umask(before)
    assert {"usher.sqlite", "usher.sqlite-wal", "usher.sqlite.lock"} <= set(modes)
    assert set(modes.values()) == {0o600}


@pytest.mark.parametrize(("mode", "kept"), [(0o644, 0o640), (0o666, 0o660), (0o640, 0o640)])
async def test_a_database_that_others_could_read_is_closed_to_them(
    path: Path, mode: int, kept: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Prompts in a copied or restored file would stay readable by every account."""
    await (await open_database(f"sqlite:///{path}")).aclose()
    await asyncio.to_thread(path.chmod, mode)
    database = await open_database(f"sqlite:///{path}")
    await database.write(lambda connection: connection.execute("CREATE TABLE more (x)"))
    modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    await database.aclose()
    assert modes["usher.sqlite"] == modes["usher.sqlite-wal"] == kept
    assert all(not each & 0o007 for each in modes.values())
    assert ("removed the access" in caplog.text) == (mode != kept)


@pytest.mark.parametrize("how", ["deleted", "replaced", "folder"])
async def test_a_file_that_is_gone_takes_nothing_more(
    path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Jobs would be accepted into a file without a name, and be lost with the process."""
    path.parent.joinpath("data").mkdir()
    path = path.parent / "data" / path.name
    database = await open_database(f"sqlite:///{path}")
    store = JobStore(database)
    new = NewJob(model="flux", request=TextToImage(prompt="cat"), owner="ada", key="k")
    assert database.look_at_file() is None
    if how == "deleted":
        path.unlink()
    elif how == "replaced":
        other = path.with_name("other")
        other.write_bytes(path.read_bytes())
        other.replace(path)
    else:
        path.parent.rename(path.parent.with_name("away"))
    said = database.look_at_file()
    assert said is not None
    assert "deleted or replaced" in said
    with pytest.raises(NotAccepting, match="deleted or replaced"):
        await store.add(new, now=1.0, limits=SubmitLimits(max_open=9, max_waiting=9))
    database.look_at_file()
    assert caplog.text.count("deleted or replaced") == 1
    await database.aclose()
