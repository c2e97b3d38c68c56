"""The schema of a database on both engines: files in order, and numbers that are refused."""

from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from bot.app.setup import MIGRATIONS
from queueing.core.errors import StoreError
from queueing.store import maintenance
from queueing.store.engines import is_postgres, open_database
from queueing.store.sql.database import Connection, Database
from queueing.store.sql.migrations import MADE_BEFORE, QUEUE, MigrationSet

FIRST = "-- schema 100\nCREATE TABLE users (name TEXT); -- a; b\nCREATE TABLE other (id bigint);"
NUMBER = "SELECT value FROM meta WHERE key = 'schema:bot'"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the address of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/usher.db"
    return str(request.getfixturevalue("empty_postgres_url"))


def migrations(folder: Path, *scripts: str) -> MigrationSet:
    """Return a set of these files, in SQL that both engines understand."""
    folder.mkdir(exist_ok=True)
    for number, script in enumerate(scripts, 1):
        (folder / f"{number:04}_x.sql").write_text(script)
    return MigrationSet(name="bot", directory=folder, postgres=folder)


async def ask(database: Database, query: str) -> list[Any]:
    def run(connection: Connection) -> list[Any]:
        return connection.execute(query).fetchall()

    return await database.read(run)


async def change(database: Database, statement: str) -> None:
    def run(connection: Connection) -> None:
        connection.execute(statement).fetchall()

    await database.write(run)


async def opened(url: str, *sets: MigrationSet) -> Database:
    return await open_database(url, migrations=sets)


async def numbered(url: str, **numbers: int) -> None:
    """Make a database and give its schemas other numbers."""
    database = await opened(url, MIGRATIONS)
    for name, number in numbers.items():
        await change(database, f"UPDATE meta SET value = '{number}' WHERE key = 'schema:{name}'")
    await database.aclose()


async def refusal(url: str, *sets: MigrationSet) -> str:
    with pytest.raises(StoreError) as refused:
        await opened(url, *sets)
    assert "\n" not in str(refused.value)
    return str(refused.value)


async def test_further_files_run_once_and_in_order(url: str, tmp_path: Path) -> None:
    """An upgrade would lose rows, or fail at the second start."""
    folder = tmp_path / "sql"
    database = await opened(url, migrations(folder, FIRST))
    await change(database, "INSERT INTO users VALUES ('ada')")
    await database.aclose()
    longer = migrations(
        folder,
        "-- schema 100\nSELECT 'not again' FROM nowhere;",
        "ALTER TABLE users ADD COLUMN age INTEGER;",
        "UPDATE users SET age = 36;",
    )
    for age in (36, 37):
        database = await opened(url, longer)
        assert await ask(database, "SELECT name, age FROM users") == [("ada", age)]
        assert await ask(database, NUMBER) == [("102",)]
        await change(database, "UPDATE users SET age = 37")
        await database.aclose()


async def test_a_file_that_fails_changes_nothing(url: str, tmp_path: Path) -> None:
    """An upgrade that is interrupted would leave neither the old nor the new schema."""
    half = "CREATE TABLE half (id bigint); SELECT id FROM nowhere;"
    broken = migrations(tmp_path / "broken", f"-- schema 100\n{half}")
    assert "nowhere" in await refusal(url, broken)
    whole = migrations(tmp_path / "whole", FIRST)
    await (await opened(url, whole)).aclose()
    assert "nowhere" in await refusal(url, migrations(tmp_path / "longer", FIRST, half))
    database = await opened(url, whole)
    assert await ask(database, NUMBER) == [("100",)]
    with pytest.raises(Exception, match="half"):
        await ask(database, "SELECT id FROM half")
    await database.aclose()


async def test_a_newer_schema_is_refused_and_kept(url: str) -> None:
    """An older program would damage what a newer one wrote."""
    newest = MIGRATIONS.files()[-1][0]
    await numbered(url, bot=newest + 1)
    for _ in range(2):
        said = await refusal(url, MIGRATIONS)
        assert f"newer Usher (bot schema {newest + 1}, this version knows {newest})" in said
        assert "install that version again" in said


@pytest.mark.parametrize(
    "numbers", [{"queue": 1, "bot": 1}, {"queue": 13, "bot": 19}, {"queue": 99}, {"bot": 99}]
)
async def test_a_database_from_before_the_first_file_is_refused(
    url: str, numbers: dict[str, int]
) -> None:
    """Its tables would be regarded as current, and the first statement fail during work."""
    await numbered(url, **numbers)
    for _ in range(2):
        assert (await refusal(url, MIGRATIONS)).endswith(f": {MADE_BEFORE}")


async def test_tools_refuse_it_as_well(url: str, tmp_path: Path) -> None:
    """An operator would keep backups that no version can read, or be told that all is well."""
    await numbered(url, queue=1, bot=1)
    new = tmp_path / "new.db"
    uses: list[Callable[[], object]] = [
        lambda: maintenance.damage_of(url),
        lambda: maintenance.copy_database(url, f"sqlite:///{new}", (MIGRATIONS,)),
    ]
    if is_postgres(url):
        uses.append(lambda: maintenance.look_at_server(url))
        uses.append(lambda: maintenance.examine_server(url, (MIGRATIONS,)))
    else:
        uses.append(lambda: maintenance.back_up(url, new))
    for use in uses:
        with pytest.raises(StoreError) as refused:
            use()
        assert str(refused.value).endswith(MADE_BEFORE)
    assert not new.exists()


@pytest.mark.parametrize("migrations", [QUEUE, MIGRATIONS], ids=["queue", "bot"])
def test_numbers_begin_above_those_from_before_the_first_file(migrations: MigrationSet) -> None:
    """A database made before 0.1.0 (up to queue 13 and bot 19) would be regarded as new."""
    here, there = migrations.files(), migrations.files_for_postgres()
    assert [number for number, _ in here] == [number for number, _ in there]
    assert here[0][0] >= 100


@pytest.mark.parametrize(
    ("migrations", "number", "digest"),
    [(QUEUE, 104, "cb2f04d0b029993e"), (MIGRATIONS, 111, "330a8653db430074")],
    ids=["queue", "bot"],
)
def test_a_changed_schema_has_a_new_number(
    migrations: MigrationSet, number: int, digest: str
) -> None:
    """A database with other tables would be opened, and fail at some later statement."""
    files = [*migrations.files(), *migrations.files_for_postgres()]
    found = sha256("".join(script for _, script in files).encode()).hexdigest()[:16]
    assert {number for number, _ in files} == {number}
    assert found == digest, "raise the number in the first line, then note it and the digest here"


@pytest.mark.parametrize(
    ("scripts", "removed", "mistake"),
    [
        ((FIRST, "SELECT 1;"), "0001_x.sql", "count from 0001"),
        (("SELECT 1;",), None, "must begin with `-- schema NUMBER`"),
    ],
)
def test_misnumbered_files_are_a_mistake_of_ours(
    tmp_path: Path, scripts: Sequence[str], removed: str | None, mistake: str
) -> None:
    """A forgotten file would never run."""
    files = migrations(tmp_path / "sql", *scripts)
    if removed is not None:
        (tmp_path / "sql" / removed).unlink()
    with pytest.raises(ValueError, match=mistake):
        files.files()
