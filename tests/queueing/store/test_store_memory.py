"""What the store keeps in memory of the data that passes through it."""

import subprocess
import sys
from pathlib import Path

import pytest

from queueing.store.sqlite.connection import SqliteConnection

LARGE = """
import re, sqlite3, sys
from pathlib import Path
from queueing.store.sqlite.connection import SqliteConnection

def held_mb():
    return int(re.search(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024

connection = sqlite3.connect(sys.argv[1], isolation_level=None, factory=SqliteConnection)
connection.execute("CREATE TABLE files (id INTEGER PRIMARY KEY, data BLOB)")
before = held_mb()
connection.execute("BEGIN")
connection.insert_files("INSERT INTO files VALUES (?, ?)", [(1, bytes(1)), (2, b"x" * 80_000_000)])
connection.execute("COMMIT")
print(held_mb() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_a_large_file_is_not_held_once_it_is_stored(tmp_path: Path) -> None:
    """The last result of each kind would stay in memory until the next one, up to 100 MB each."""
    done = subprocess.run(
        [sys.executable, "-c", LARGE, str(tmp_path / "files.sqlite")],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert int(done.stdout) < 40


def test_large_files_are_stored_as_they_are(tmp_path: Path) -> None:
    """They are written into existing rows, even if those had another file before."""
    connection = SqliteConnection(tmp_path / "files.sqlite", isolation_level=None)
    connection.execute("CREATE TABLE files (id INTEGER PRIMARY KEY, name TEXT UNIQUE, data BLOB)")
    put = (
        "INSERT INTO files (name, data) VALUES (?, ?)"
        " ON CONFLICT (name) DO UPDATE SET data = excluded.data"
    )
    files = {"a": b"a", "b": b"b" * 100_000, "c": b"", "d": b"d" * 200_000}
    again = {"a": b"x" * 90_000, "b": b"y", "d": b"z" * 300_000}
    connection.execute("BEGIN")
    for rows in (files, {}, again):
        connection.insert_files(put, list(rows.items()))
    connection.execute("COMMIT")
    found = connection.execute("SELECT name, data FROM files").fetchall()
    connection.close()
    assert dict(found) == files | again
    assert len(found) == len(files)
