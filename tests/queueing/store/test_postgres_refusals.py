"""A server or database that cannot be used is reported in one sentence, and left unchanged."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from bot.app.setup import MIGRATIONS
from bot.cli.main import main
from queueing.core.errors import StoreError
from queueing.store.engines import open_database
from queueing.store.postgres import session
from queueing.store.postgres.session_lock import refuse_pooler
from queueing.store.sql.migrations import MigrationSet
from tests.fakes.programs.postgres_server import USER, PostgresServer

SECRET = "s3cret-pa55word"
CONFIG = """
database: "{url}"
hosts: {{here: {{vram: 1GB, backends: {{stand-in: {{kind: demo}}}}}}}}
models: {{flux: {{backends: [stand-in]}}}}
chats: {{web: {{port: 0}}}}
"""


@pytest.fixture
def role(postgres: PostgresServer) -> Iterator[str]:
    """Return an account without any rights."""
    name = f"stranger_{uuid4().hex[:8]}"
    postgres.sql(f"CREATE ROLE {name} LOGIN")
    yield name
    postgres.sql(f"DROP OWNED BY {name}", f"DROP ROLE {name}")


async def refused(url: str, *sets: MigrationSet) -> str:
    """Return why a database is refused."""
    with pytest.raises(StoreError) as caught:
        await open_database(url, migrations=sets or (MIGRATIONS,))
    text = str(caught.value)
    assert "\n" not in text
    return text


def tables(postgres: PostgresServer, name: str) -> set[Any]:
    found = postgres.sql(
        "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace", database=name
    )
    return {row[0] for row in found}


async def test_a_wrong_address_is_told_without_its_password(postgres: PostgresServer) -> None:
    """An operator would look for the mistake elsewhere, and the log would contain the password."""
    said = await refused(f"postgresql://ada:{SECRET}@127.0.0.1:{postgres.port}/absent?nonsense=1")
    assert "this is not the address of a PostgreSQL database" in said
    assert SECRET not in said
    said = await refused(f"postgresql://{USER}:{SECRET}@127.0.0.1:{postgres.port}/absent")
    assert "there is no such database" in said
    assert SECRET not in said
    said = await refused(f"postgresql://{USER}:{SECRET}@127.0.0.1:{postgres.port}/a%ZZ")
    assert SECRET not in said


async def test_a_server_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start would seem to hang."""
    monkeypatch.setattr(session, "PATIENCE_S", 0.0)
    said = await refused("postgresql://127.0.0.1:1/usher")
    assert "postgresql://127.0.0.1:1/usher: the database server does not answer" in said
    assert "name cannot be resolved" in await refused("postgresql://nowhere.invalid/usher")


async def test_each_host_of_an_address_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator would correct the last one although the first was meant."""
    monkeypatch.setattr(session, "PATIENCE_S", 0.0)
    said = await refused("postgresql://127.0.0.1:1,127.0.0.2:2/absent")
    assert said.count("127.0.0.1: ") == said.count("127.0.0.2: ") == 1
    assert said.count("Connection refused") == 2


async def test_accounts_that_may_not_enter_are_told(postgres: PostgresServer) -> None:
    """A wrong password, a forbidden login and a refused account would not be explained."""
    postgres.sql(
        f"CREATE ROLE asked LOGIN PASSWORD '{SECRET}'",
        "CREATE ROLE excluded LOGIN",
        "CREATE ROLE locked NOLOGIN",
    )
    try:
        url = postgres.url("postgres", f"asked:not-{SECRET}")
        said = await refused(url)
        assert "refuses the password" in said
        assert SECRET not in said
        assert "requires a password" in await refused(postgres.url("postgres", "asked"))
        assert "rejects this account" in await refused(postgres.url("postgres", "excluded"))
        assert "rejects this account" in await refused(postgres.url("postgres", "locked"))
    finally:
        postgres.sql("DROP ROLE asked", "DROP ROLE excluded", "DROP ROLE locked")


async def test_missing_rights_are_told(postgres: PostgresServer, role: str) -> None:
    """Since PostgreSQL 15 not every account may make tables in a database."""
    name = postgres.database()
    postgres.sql("REVOKE CREATE ON SCHEMA public FROM PUBLIC", database=name)
    said = await refused(postgres.url(name, role))
    assert "the account lacks permissions: make it the owner of the database" in said
    postgres.sql("REVOKE ALL ON SCHEMA public FROM PUBLIC", database=name)
    assert "make it the owner of the database" in await refused(postgres.url(name, role))
    assert tables(postgres, name) == set()


async def test_an_old_server_is_refused(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Statements that it does not know would fail during work."""
    monkeypatch.setattr(session, "OLDEST", 990_000)
    assert "Usher needs 99 or newer" in await refused(postgres_url)


async def test_another_programs_database_is_left_alone(
    postgres: PostgresServer, empty_postgres_url: str
) -> None:
    """Its tables could have the names of Usher's."""
    name = empty_postgres_url.rpartition("/")[2]
    postgres.sql("CREATE TABLE jobs (id bigint)", database=name)
    assert "the tables of another program" in await refused(empty_postgres_url)
    postgres.sql("CREATE TABLE meta (key text, value text)", database=name)
    assert "the tables of another program" in await refused(empty_postgres_url)
    assert tables(postgres, name) == {"jobs", "meta"}


async def test_a_database_in_another_encoding_is_refused(postgres: PostgresServer) -> None:
    """Prompts in other alphabets could not be stored."""
    name = f"latin_{uuid4().hex[:8]}"
    postgres.sql(
        f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'"
    )
    assert "encoding of the database is LATIN1: create one with ENCODING 'UTF8'" in await refused(
        postgres.url(name)
    )


async def test_a_second_usher_is_refused(postgres_url: str) -> None:
    """Two schedulers would start the same jobs."""
    database = await open_database(postgres_url, migrations=(MIGRATIONS,))
    assert "another Usher runs on this database: stop it first" in await refused(postgres_url)
    await database.aclose()
    await (await open_database(postgres_url, migrations=(MIGRATIONS,))).aclose()


class _Turns:
    """Two sessions that get the transactions in turns, as from a pooler."""

    def __init__(self, *sessions: Any) -> None:
        self._sessions = list(sessions)

    def execute(self, statement: str) -> Any:
        self._sessions.append(self._sessions.pop(0))
        return self._sessions[-1].execute(statement)


def test_a_pooler_in_transaction_mode_is_refused(
    postgres: PostgresServer, postgres_template: str
) -> None:
    """It gives one session's lock to two clients."""
    with (
        postgres.connect(postgres_template) as one,
        postgres.connect(postgres_template) as other,
        postgres.connect(postgres_template) as third,
    ):
        refuse_pooler(one, other)
        for pooled in ((one, one), (_Turns(one, other), third)):
            with pytest.raises(StoreError, match="set its pool_mode to session"):
                refuse_pooler(*pooled)


def test_run_and_check_end_with_2_and_hide_the_password(
    tmp_path: Path, postgres: PostgresServer, capfd: pytest.CaptureFixture[str]
) -> None:
    """A service manager depends on the status, and anyone may read its log."""
    url = f"postgresql://{USER}:{SECRET}@127.0.0.1:{postgres.port}/absent"
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG.format(url=url), encoding="utf-8")
    for command in (["run"], ["check"], ["db", "check"], ["backup", str(tmp_path / "copy")]):
        assert main([*command, "-c", str(file)]) == 2
    printed = "".join(capfd.readouterr())
    assert printed.count("there is no such database") == 3
    assert "pg_dump" in printed
    assert SECRET not in printed
    assert not (tmp_path / "copy").exists()


def test_check_tells_what_the_server_is_like(
    tmp_path: Path, postgres_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An operator would only learn at the start that the database does not fit."""
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG.format(url=postgres_url), encoding="utf-8")
    main(["check", "-c", str(file)])
    row = next(line for line in capsys.readouterr().out.splitlines() if "database" in line)
    assert "ok" in row
    assert "PostgreSQL" in row
    assert "a flush takes" in row
    assert row.endswith("fits this version")
    assert main(["db", "check", "-c", str(file)]) == 0
    assert "all is well" in capsys.readouterr().out
