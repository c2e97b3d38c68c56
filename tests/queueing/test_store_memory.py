"""What the store keeps in memory of what went through it."""

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
    """The last result of each kind would be held until the next one, up to 100 MB of each."""
    done = subprocess.run(
        [sys.executable, "-c", LARGE, str(tmp_path / "files.sqlite")],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert int(done.stdout) < 40


def test_a_row_that_is_undone_leaves_nothing_but_the_files(tmp_path: Path) -> None:
    """A file would be stored twice, once empty, where its row has no key of its own."""
    connection = SqliteConnection(tmp_path / "files.sqlite", isolation_level=None)
    connection.execute("CREATE TABLE files (id INTEGER PRIMARY KEY, data BLOB)")
    connection.execute("BEGIN")
    connection.insert_files("INSERT INTO files (data) VALUES (?)", [(b"a",), (b"x" * 100_000,)])
    connection.insert_files("INSERT INTO files (data) VALUES (?)", [])
    connection.execute("COMMIT")
    found = connection.execute("SELECT id, length(data) FROM files").fetchall()
    connection.close()
    assert found == [(1, 1), (2, 100_000)]
