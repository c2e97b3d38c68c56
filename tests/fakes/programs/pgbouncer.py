"""A throw-away pgbouncer in front of a throw-away PostgreSQL server, where it is installed."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tests.fakes.ports import free_port
from tests.fakes.programs.postgres_server import USER, ordinary

NOT_INSTALLED = "pgbouncer is not installed here (Debian: apt install pgbouncer), so not tried"
_SETTINGS = """
[databases]
* = host=127.0.0.1 port={server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/users
pool_mode = {mode}
logfile = {folder}/log
"""
PATIENCE_S = 30.0


def program() -> str | None:
    """Return the path of pgbouncer, or None where it is not installed."""
    return shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/bin")


@contextmanager
def pooled(url: str, *, mode: str) -> Iterator[str]:
    """Run one in a mode; yield the address of a database behind it."""
    server = urlsplit(url)
    found = program()
    assert found is not None
    folder, port = Path(tempfile.mkdtemp(prefix="usher-pooler-")), free_port()
    folder.chmod(0o777)  # another account runs it
    settings = {"server": server.port, "port": port, "folder": folder, "mode": mode}
    (folder / "settings").write_text(_SETTINGS.format(**settings), encoding="utf-8")
    (folder / "users").write_text(f'"{USER}" ""\n', encoding="utf-8")
    running = subprocess.Popen(
        [found, str(folder / "settings")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        **ordinary(),  # type: ignore[call-overload]  # user and group, or neither
    )
    try:
        assert running.stderr is not None
        for line in running.stderr:  # its log, which says when it listens
            if "process up" in line:
                break
        yield f"postgresql://{USER}@127.0.0.1:{port}{server.path}"
    finally:
        running.terminate()
        running.communicate(timeout=PATIENCE_S)
        shutil.rmtree(folder, ignore_errors=True)
