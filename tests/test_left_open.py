"""The rule about what tests leave open names the test that did so, and no other."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = """\
import gc, socket, sqlite3
import pytest

@pytest.fixture(scope="module")
def server():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening

@pytest.fixture
def forgotten():
    return socket.socket()

def test_socket(server):
    global kept
    kept = socket.socket()

def test_of_a_fixture(forgotten):
    pass

def test_connection(tmp_path):
    global kept
    kept = sqlite3.connect(tmp_path / "a.db")

def test_closed(server, tmp_path):
    sqlite3.connect(tmp_path / "a.db").close()
    socket.socket().close()
"""
CYCLE = """\
import asyncio, gc

def test_cycle():
    gc.disable()  # it would be collected earlier by chance
    around = [open(__file__)]
    around.append(around)
"""
LATER = """\
import gc

def test_later():
    gc.enable()
    gc.collect()

async def test_nothing_is_left_of_a_loop():
    pass
"""


def test_what_is_left_open_fails_the_test_that_left_it(tmp_path: Path) -> None:
    """A later test would fail, only on a busy machine, and no one would know why."""
    for name, text in {"test_a": TESTS, "test_b": CYCLE, "test_c": LATER}.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    told = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-rE", "-p", "tests.left_open"),
            *("-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml")),
            *("--rootdir", str(tmp_path), str(tmp_path)),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    failed = re.findall(r"^ERROR \S*?(\w+\.py::\w+)", told, re.MULTILINE)
    assert failed == [
        "test_a.py::test_socket",
        "test_a.py::test_of_a_fixture",
        "test_a.py::test_connection",
        "test_b.py::test_cycle",
    ], told
    assert "opened at" in told
