"""Every command refuses every unusable database: one sentence, a status, nothing changed."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from bot.app.setup import MIGRATIONS
from bot.cli.main import main
from queueing.store.engines import open_database
from queueing.store.sql.migrations import MADE_BEFORE
from tests.fakes.programs import pgbouncer
from tests.fakes.programs.postgres_server import USER, PostgresServer

pytest.importorskip("psycopg")

from queueing.store.postgres import session  # an extra

SECRET = "s3cret-pa55word"
CONFIG = """
database: "{url}"
hosts: {{here: {{vram: 1GB, backends: {{stand-in: {{kind: demo}}}}}}}}
models: {{flux: {{backends: [stand-in]}}}}
chats: {{web: {{port: 0}}}}
"""
RUN, CHECK, DB_CHECK = ("run",), ("check",), ("db", "check")
COPY_INTO, COPY_OUT = ("db", "copy", "{sqlite}"), ("db", "copy", "{url}", "{new}")
ALL = (RUN, CHECK, DB_CHECK, COPY_INTO, COPY_OUT)
WRITING = (RUN, CHECK, COPY_INTO, COPY_OUT)
"""A newer schema is sound for reading, and a pooler harms no reader."""


@dataclass
class Trouble:
    """A database that cannot be used; `name` is its name on the server."""

    url: str
    sentence: str
    commands: Sequence[Sequence[str]] = ALL
    name: str | None = None


class Troubles:
    """The ways in which a database on a server can be unusable, each made when it is asked for."""

    def __init__(
        self,
        server: PostgresServer,
        filled: str,
        opened: ExitStack,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        self._server = server
        self._filled = filled  # the address of one with all tables
        self._opened = opened
        self._monkeypatch = monkeypatch

    def absent(self) -> Trouble:
        host = f"127.0.0.1:{self._server.port}"
        url = f"postgresql://{USER}:{SECRET}@{host}/absent"
        return Trouble(url, "there is no such database or account on the server")

    def wrong_option(self) -> Trouble:
        url = f"postgresql://{USER}:{SECRET}@127.0.0.1/usher?nonsense=1"
        return Trouble(url, "this is not the address of a PostgreSQL database")

    def away(self) -> Trouble:
        return Trouble("postgresql://127.0.0.1:1/usher", "the database server does not answer")

    def password(self) -> Trouble:
        self._role(f"PASSWORD '{SECRET}'", "asked")
        url = self._server.url("postgres", f"asked:not-{SECRET}")
        return Trouble(url, "the database server refuses the password")

    def rights(self) -> Trouble:
        name = self._name()
        url = self._server.url(name, self._role("", f"stranger_{uuid4().hex[:8]}"))
        return Trouble(url, "make it the owner of the database", name=name)

    def old(self) -> Trouble:
        self._monkeypatch.setattr(session, "OLDEST", 990_000)
        return Trouble(self._filled, "Usher needs 99 or newer", name=self._name())

    def foreign(self) -> Trouble:
        name = self._server.database()
        self._server.sql("CREATE TABLE jobs (id bigint)", database=name)
        return Trouble(self._server.url(name), "the tables of another program", name=name)

    def newer(self) -> Trouble:
        name = self._numbered(999)
        return Trouble(self._server.url(name), "written by a newer Usher", WRITING, name)

    def made_before(self) -> Trouble:
        name = self._numbered(10)
        return Trouble(self._server.url(name), MADE_BEFORE, name=name)

    def much_newer(self) -> Trouble:
        name = self._numbered(999)
        self._server.sql("ALTER TABLE jobs RENAME COLUMN finished_at TO ended", database=name)
        return Trouble(self._server.url(name), "written by a newer Usher", WRITING, name)

    def pooled_by_transaction(self) -> Trouble:
        return self._pooled("transaction")

    def pooled_by_statement(self) -> Trouble:
        return self._pooled("statement")

    def _pooled(self, mode: str) -> Trouble:
        if pgbouncer.program() is None:
            pytest.skip(pgbouncer.NOT_INSTALLED)
        url = self._opened.enter_context(pgbouncer.pooled(self._filled, mode=mode))
        return Trouble(url, "set its pool_mode to session", WRITING, self._name())

    def _numbered(self, number: int) -> str:
        name = self._server.database(template=self._name())
        version = f"UPDATE meta SET value = '{number}' WHERE key = 'schema:queue'"
        self._server.sql(version, database=name)
        return name

    def _name(self) -> str:
        return self._filled.rpartition("/")[2]

    def _role(self, words: str, name: str) -> str:
        self._server.sql(f"CREATE ROLE {name} LOGIN {words}")
        self._opened.callback(self._server.sql, f"DROP ROLE {name}")
        return name


@pytest.fixture
def troubles(
    postgres: PostgresServer, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Troubles]:
    monkeypatch.setattr(session, "PATIENCE_S", 0.0)
    with ExitStack() as opened:
        yield Troubles(postgres, postgres_url, opened, monkeypatch)


@pytest.fixture
async def sqlite(tmp_path: Path) -> Path:
    """Return the file of an installation that could be copied."""
    file = tmp_path / "source.sqlite"
    await (await open_database(f"sqlite:///{file}", migrations=(MIGRATIONS,))).aclose()
    return file


KINDS = sorted(name for name in vars(Troubles) if not name.startswith("_"))


@pytest.mark.parametrize("kind", KINDS)
def test_each_command_ends_with_one_sentence_and_changes_nothing(
    kind: str,
    troubles: Troubles,
    postgres: PostgresServer,
    sqlite: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """An operator would look for the mistake elsewhere, or find half a database."""
    trouble: Trouble = getattr(troubles, kind)()
    folder = sqlite.parent / "installation"
    folder.mkdir()
    file = folder / "config.yaml"
    file.write_text(CONFIG.format(url=trouble.url), encoding="utf-8")
    places = {"url": trouble.url, "sqlite": sqlite, "new": folder / "new.sqlite"}
    before = contents(postgres, trouble.name)
    for command in trouble.commands:
        words = [word.format(**places) for word in command]
        assert (words, main([*words, "-c", str(file)])) == (words, 2)
        out, errors = capfd.readouterr()
        told = next(line for line in out.splitlines() if "FAILED" in line) if out else ""
        (sentence,) = [*errors.splitlines(), *([told] if told else [])]
        assert trouble.sentence in sentence
        assert SECRET not in out + errors
    assert contents(postgres, trouble.name) == before
    assert [each.name for each in folder.iterdir()] == ["config.yaml"]


def contents(postgres: PostgresServer, name: str | None) -> object:
    """Return the tables of a database and their rows, each with the change that made it."""
    if name is None:
        return None
    tables = postgres.sql(
        "SELECT relname, xmin::text FROM pg_class WHERE relkind = 'r'"
        " AND relnamespace = 'public'::regnamespace ORDER BY relname",
        database=name,
    )
    rows = "SELECT xmin::text, rows::text FROM {} AS rows ORDER BY ctid"
    return tables, [postgres.sql(rows.format(table), database=name) for table, _ in tables]


def test_a_backup_of_a_server_is_the_servers_matter(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A file that looks like a backup would be empty; it is the same if the server is away."""
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG.format(url="postgresql://127.0.0.1:1/usher"), encoding="utf-8")
    assert main(["backup", str(tmp_path / "copy"), "-c", str(file)]) == 2
    assert "pg_dump copies it while Usher runs" in capfd.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["config.yaml"]


def test_an_address_of_nothing_is_a_mistake_in_the_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The password would be in the message, or the mistake look like a server that is away."""
    cases_0: list[list[str]] = [["run"], ["check"], ["backup", "copy"], ["db", "check"]]
    for command in cases_0:
        for url in (f"mysql://ada:{SECRET}@h/x", f"postgresql://u:{SECRET}@h:99999/x"):
            file = tmp_path / "config.yaml"
            file.write_text(CONFIG.format(url=url), encoding="utf-8")
            assert main([*command, "-c", str(file)]) == 1, command
            errors = capfd.readouterr().err
            assert errors.startswith(
                "config.yaml:2: database: must be a file, or an address such as"
            ), command
            assert SECRET not in errors, command


def test_a_copy_of_nothing_known_does_not_repeat_the_address(
    tmp_path: Path, sqlite: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The password would appear in the terminal's history twice."""
    assert main(["db", "copy", f"mysql://ada:{SECRET}@h/x", str(tmp_path / "new.sqlite")]) == 2
    assert main(["db", "copy", str(sqlite), f"mysql://ada:{SECRET}@h/x"]) == 2
    errors = capfd.readouterr().err
    assert errors.count("mysql://… is not a database this version knows") == 2
    assert SECRET not in errors
    assert not list(tmp_path.glob("new*"))


def test_a_pooler_in_session_mode_is_used(
    postgres: PostgresServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A managed service may offer nothing else."""
    if pgbouncer.program() is None:
        pytest.skip(pgbouncer.NOT_INSTALLED)
    file = tmp_path / "config.yaml"
    with pgbouncer.pooled(postgres.url(postgres.database()), mode="session") as url:
        file.write_text(CONFIG.format(url=url), encoding="utf-8")
        assert main(["check", "-c", str(file)]) == 0
        assert "its tables are created at the first start" in capfd.readouterr().out
        assert main(["db", "copy", url, str(tmp_path / "new.sqlite")]) == 0
