"""`usher.env`: the secrets beside the configuration."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from bot.config.loader import Config, ConfigError, load
from bot.config.reading.environment import LARGEST

CONFIG = """\
hosts: {home: {vram: 24GB, backends: {stand-in: {kind: openai, url: "http://127.0.0.1:9", token: "${TOKEN}"}}}}
chats: {web: {}}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "config.yaml").write_text(CONFIG, encoding="utf-8")
    return tmp_path / "usher.env"


def loaded(file: Path, text: str | None = None, **environ: str) -> Config:
    if text is not None:
        file.write_text(text, encoding="utf-8")
        file.chmod(0o600)
    return load(file.parent / "config.yaml", environ)


def token(config: Config) -> str:
    found = config.hosts["home"].backends["stand-in"].token
    assert found is not None
    return found.get_secret_value()


def test_its_variables_count_as_the_environment_does(file: Path) -> None:
    """The token that was written down would have to be exported before each start."""
    cases: list[str] = [
        "TOKEN=canary-1",
        "\ufeff# a comment\r\n\r\n; another\r\n  TOKEN=canary-1  \r\n",
        "export TOKEN='canary-1'",
        'OTHER=x\nTOKEN="canary-1"\n',
        "TOKEN=first\nTOKEN=canary-1",
    ]
    for text in cases:
        config = loaded(file, text)
        assert token(config) == "canary-1", text
        assert config.warnings == (), text
        assert "canary-1" in config.secrets(), text


def test_the_environment_comes_first_unless_it_is_empty(file: Path) -> None:
    """A container could not be given another token than the file's."""
    assert token(loaded(file, "TOKEN=file", TOKEN="environment")) == "environment"
    assert token(loaded(file, "TOKEN=file", TOKEN="")) == "file"


def test_a_line_that_programs_read_differently_is_passed_over_and_told(file: Path) -> None:
    """Usher would log in with another value than systemd gives it, or refuse another's file."""
    cases: list[str] = [
        "just words",
        "=x",
        "TOKEN = x",
        'TOKEN="a"b',
        'TOKEN="a$HOME"',
        "TOKEN=a\\",
    ]
    for line in cases:
        config = loaded(file, f"TOKEN=canary-1\n{line}\n")
        assert token(config) == "canary-1", line
        assert config.warnings == ("usher.env:2: must be NAME=value; the line is ignored",), line


def test_what_is_wrong_is_told_without_the_values(file: Path) -> None:
    """A badly pasted token would appear on the screen."""
    with pytest.raises(ConfigError) as caught:
        loaded(file, "TOKEN: canary-1\n")
    assert caught.value.problems[1:] == ("usher.env:1: must be NAME=value; the line is ignored",)
    assert "canary-1" not in str(caught.value)
    assert "TOKEN is not set: add it to the environment" in caught.value.problems[0]


@pytest.mark.skipif(os.name != "posix", reason="other systems have other rights")
def test_a_file_that_all_accounts_can_read_is_told(file: Path) -> None:
    """Everyone with an account on the machine could read the token."""
    cases: list[tuple[int, bool]] = [(0o600, False), (0o640, False), (0o604, True)]
    for mode, open_to_all in cases:
        loaded(file, "TOKEN=x")
        file.chmod(mode)
        assert bool(loaded(file).warnings) is open_to_all, mode


def _pipe(file: Path) -> None:
    os.mkfifo(file)


def _large(file: Path) -> None:
    file.write_text("#" * (LARGEST + 1))


def _foreign(file: Path) -> None:
    file.write_bytes(b"\xff\xfe")


def _folder(file: Path) -> None:
    file.mkdir()


@pytest.mark.skipif(os.name != "posix", reason="other systems have other files")
@pytest.mark.parametrize("make", [_pipe, _large, _foreign, _folder])
def test_what_is_no_such_file_is_a_reason_only_where_a_variable_is_missing(
    file: Path, make: Callable[[Path], None]
) -> None:
    """The start would hang at a pipe, or be prevented by a file of the service manager."""
    make(file)
    assert token(loaded(file, TOKEN="x")) == "x"
    with pytest.raises(ConfigError, match=r"usher\.env: (cannot be read|is not UTF-8)"):
        loaded(file)
