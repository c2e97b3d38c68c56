"""Every command refuses a file made before 0.1.0 with one sentence, and leaves it as it is."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bot.cli.main import main
from queueing.store.sql.migrations import MADE_BEFORE

CONFIG = """
database: usher.sqlite
hosts: {here: {vram: 1GB, backends: {stand-in: {kind: demo}}}}
models: {flux: {backends: [stand-in]}}
chats: {web: {port: 0}}
"""
OLD = """
PRAGMA journal_mode = WAL;
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
INSERT INTO meta VALUES ('schema:queue', '1'), ('schema:bot', '3');
CREATE TABLE jobs (id INTEGER PRIMARY KEY);
"""


@pytest.mark.parametrize(
    "command",
    [
        "run -c {config}",
        "check -c {config}",
        "backup {new} -c {config}",
        "db check -c {config}",
        "db check {old}",
        "db copy {old} {new}",
        "db copy {new} {old}",
    ],
)
def test_each_command_refuses_it_with_one_sentence(
    command: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """An operator would read of a table that does not exist, or find the file half changed."""
    old, new, config = tmp_path / "usher.sqlite", tmp_path / "new.sqlite", tmp_path / "config.yaml"
    config.write_text(CONFIG, encoding="utf-8")
    with closing(sqlite3.connect(old)) as connection:
        connection.executescript(OLD)
    if command.startswith("db copy {new}"):
        new.touch()
    before = old.read_bytes()
    assert main(command.format(config=config, old=old, new=new).split()) == 2
    out, errors = capfd.readouterr()
    lines = [line for line in (out + errors).splitlines() if "before Usher" in line]
    assert [line.endswith(MADE_BEFORE) for line in lines] == [True]
    assert "Traceback" not in out + errors
    assert "usher.sqlite" in lines[0]
    assert old.read_bytes() == before
