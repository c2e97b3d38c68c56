"""A throw-away PostgreSQL server for tests, started by them as an ordinary user on a free port."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.fakes.ports import free_port

if TYPE_CHECKING:
    import psycopg

NOT_INSTALLED = (
    "PostgreSQL is not installed here (Debian: apt install postgresql), so not tried on it"
)
USER = "usher"
_QUICK = (
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "autovacuum=off",
    "shared_buffers=32MB",
    "max_connections=60",
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
)
ACCESS = """
host all asked    127.0.0.1/32 scram-sha-256
host all excluded 127.0.0.1/32 reject
host all all      127.0.0.0/8  trust
host all all      10.213.7.0/30 trust
host replication all 127.0.0.1/32 trust
"""
_END_FROZEN = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    " AND (state = 'idle in transaction' OR state = 'active' AND wait_event = 'ClientRead')"
)
_EMPTY = """
DO $$ DECLARE filled text; BEGIN
    SET LOCAL session_replication_role = replica;  -- no trigger sees it
    FOR filled IN SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = 'public'
        AND tablename NOT IN ('meta', 'deleted_jobs')
    LOOP EXECUTE 'DELETE FROM ' || filled; END LOOP;
    DELETE FROM meta WHERE key = 'database_id';
    UPDATE deleted_jobs SET highest = 0, reserved = 0;
END $$
"""
_TRIES = 5  # of starting: the free port may be taken meanwhile


def binaries() -> Path | None:
    """Return the folder with `initdb` and its like, or None where PostgreSQL is not installed."""
    beside = shutil.which("initdb")
    if beside is not None:
        return Path(beside).parent
    versions = [
        (int(folder.parent.name), folder)
        for folder in Path("/usr/lib/postgresql").glob("*/bin")
        if folder.parent.name.isdigit() and (folder / "initdb").exists()
    ]
    return max(versions)[1] if versions else None


def ordinary() -> dict[str, str | int]:
    """Return the user who runs the server: root may not."""
    if os.getuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            account = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": account.pw_uid, "group": account.pw_gid}
    return {"user": 65534, "group": 65534}


class PostgresServer:
    """A running server; databases are copies of an empty one or of one that was made before."""

    def __init__(self, folder: Path, programs: Path, settings: Sequence[str]) -> None:
        self._folder = folder
        self._programs = programs
        self._settings = settings
        self._names = (f"test_{number}" for number in count())
        self.port = 0

    def make(self) -> None:
        """Make the cluster's files."""
        options = f"-D {self._folder}/data -U {USER} -A trust -E UTF8 --locale=C.UTF-8 --no-sync"
        self._run("initdb", *options.split(), "--no-instructions", "--wal-segsize=4")
        access = self._folder / "data" / "pg_hba.conf"
        access.write_text(ACCESS, encoding="utf-8")

    def start(self) -> None:
        """Start it on a free port, or again on the one it had."""
        for _ in range(_TRIES):
            port = self.port or free_port()
            options = " ".join(f"-c {setting}" for setting in (*self._settings, f"port={port}"))
            log = f"{self._folder}/log"
            done = self._run("pg_ctl", "start", "-w", "-o", options, "-l", log, must=False)
            if done.returncode == 0:
                self.port = port
                return
        raise RuntimeError((self._folder / "log").read_text(encoding="utf-8", errors="replace"))

    def stop(self, how: str = "fast") -> None:
        """Stop it: `fast` in order, `immediate` as a crash would."""
        self._run("pg_ctl", "stop", "-w", "-m", how, must=False)

    def replica(self) -> "PostgresServer":
        """Return a replica of the current state, which receives no later commits."""
        folder = self._folder / "replica"
        folder.mkdir()
        if account := ordinary():
            os.chown(folder, int(account["user"]), int(account["group"]))
        made = PostgresServer(folder, self._programs, self._settings)
        address = f"-h 127.0.0.1 -p {self.port} -U {USER} --no-sync -R -c fast"
        made._run("pg_basebackup", *address.split())
        return made

    def promote(self, port: int) -> None:
        """Start a replica at a port, as the primary that it becomes."""
        self.port = port
        self.start()
        self._run("pg_ctl", "promote", "-w")

    def url(self, database: str, user: str = USER) -> str:
        """Return the address of a database."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def database(self, template: str = "template0") -> str:
        """Make a database and return its name."""
        name = next(self._names)
        self.sql(f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    def empty(self, database: str) -> None:
        """Delete every row and leave the tables as they were made; each use gets a new id."""
        self.sql(_EMPTY, database=database)

    def connect(self, database: str) -> "psycopg.Connection[tuple[Any, ...]]":
        """Return a connection of the superuser."""
        import psycopg  # noqa: PLC0415  # an extra: the tests of SQLite need none

        return psycopg.connect(
            self.url(database), autocommit=True, cursor_factory=psycopg.RawCursor
        )

    def sql(self, *statements: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run statements as the superuser; return the rows of the last one."""
        with self.connect(database) as connection:
            found = [connection.execute(statement) for statement in statements][-1]
            return found.fetchall() if found.description else []

    def _run(
        self, program: str, *options: str, must: bool = True
    ) -> subprocess.CompletedProcess[str]:
        data = () if program == "initdb" else ("-D", f"{self._folder}/data")
        done: subprocess.CompletedProcess[str] = subprocess.run(
            [_found(self._programs, program), *data, *options],
            check=must,
            cwd=self._folder,
            stdout=subprocess.DEVNULL,  # a pipe would stay open for as long as the server runs
            stderr=subprocess.DEVNULL,
            text=True,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
            **ordinary(),  # type: ignore[call-overload]  # user and group, or neither
        )
        return done


def _found(programs: Path, program: str) -> Path:
    """Return a program; a folder of links may lack some, which are beside the server itself."""
    beside = programs / program
    return beside if beside.exists() else (programs / "initdb").resolve().parent / program


def end_leases(url: str) -> None:
    """End every lease of a role now, as time would.

    A session that was frozen within a transaction locks the row of its role, and is ended: the
    server itself waits for as long as a lease. A lease short enough to end soon would also limit
    the time of a statement.
    """
    import psycopg  # noqa: PLC0415  # an extra: the tests of SQLite need none

    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("SET lock_timeout = '1s'")
        while True:
            try:
                admin.execute("UPDATE roles SET until = 0")
            except psycopg.errors.LockNotAvailable:
                admin.execute(_END_FROZEN)
            else:
                return


@contextmanager
def running_server(programs: Path, *settings: str) -> Iterator[PostgresServer]:
    """Run a server in a separate folder, which is deleted afterwards."""
    # Not pytest's folder: another account must be able to reach it.
    folder = Path(tempfile.mkdtemp(prefix="usher-pg-"))
    folder.chmod(0o755)
    account = ordinary()
    if account:
        os.chown(folder, int(account["user"]), int(account["group"]))
    server = PostgresServer(folder, programs, (*_QUICK, *settings))
    try:
        server.make()
        server.start()
        yield server
    finally:
        server.stop("immediate")
        shutil.rmtree(folder, ignore_errors=True)
