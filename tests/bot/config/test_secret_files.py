"""Secrets as files, as Docker, Podman and systemd provide them: one file per secret."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.config.loader import Config, ConfigError, load
from bot.config.reading import environment
from bot.config.reading.environment import LARGEST
from bot.config.reading.values import DatabaseServer

DOCS = (Path(__file__).parents[3] / "docs/postgresql.md").read_text(encoding="utf-8")
CONFIG = """\
hosts: {home: {vram: 24GB, backends: {stand-in: {kind: openai, url: "http://127.0.0.1:9", token: "${TOKEN}"}}}}
chats: {web: {}}
"""


@pytest.fixture
def mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "config.yaml").write_text(CONFIG, encoding="utf-8")
    folder = tmp_path / "secrets"
    folder.mkdir()
    monkeypatch.setattr(environment, "FOLDER", folder)
    return folder


def token(config: Config) -> str:
    found = config.hosts["home"].backends["stand-in"].token
    assert found is not None
    return found.get_secret_value()


def loaded(mounted: Path, **environ: str) -> Config:
    return load(mounted.parent / "config.yaml", environ)


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_secret_of_a_container_is_read_from_its_file(mounted: Path, end: str) -> None:
    """The token would have to be in the container's environment, where `inspect` shows it."""
    (mounted / "TOKEN").write_bytes(f"canary-1{end}".encode())
    config = loaded(mounted)
    assert token(config) == "canary-1"
    assert "canary-1" in config.secrets()
    assert config.warnings == ()


def test_a_credential_of_systemd_is_read_from_its_file(mounted: Path, tmp_path: Path) -> None:
    """A unit with `LoadCredential=TOKEN` would start without the token."""
    given = tmp_path / "credentials"
    given.mkdir()
    (given / "TOKEN").write_text("canary-1", encoding="utf-8")
    (mounted / "TOKEN").write_text("of a container", encoding="utf-8")
    assert token(loaded(mounted, CREDENTIALS_DIRECTORY=str(given))) == "canary-1"


def test_what_a_person_wrote_down_comes_before_it(mounted: Path) -> None:
    """A token that was changed in usher.env would have no effect."""
    (mounted / "TOKEN").write_text("mounted", encoding="utf-8")
    assert token(loaded(mounted, TOKEN="environment")) == "environment"
    beside = mounted.parent / "usher.env"
    beside.write_text("TOKEN=beside", encoding="utf-8")
    beside.chmod(0o600)
    assert token(loaded(mounted)) == "beside"


@pytest.mark.parametrize("said", [b"\xff", b"x" * (LARGEST + 1)])
def test_a_file_that_is_no_secret_is_told_where_it_is_missed(mounted: Path, said: bytes) -> None:
    """The start would end in a traceback, or with half a token."""
    (mounted / "TOKEN").write_bytes(said)
    assert token(loaded(mounted, TOKEN="x")) == "x"
    with pytest.raises(ConfigError, match="TOKEN: cannot be read: it "):
        loaded(mounted)


def test_what_lies_beside_the_secrets_is_passed_over(mounted: Path) -> None:
    """The container engine's own folder would keep the bot from starting."""
    (mounted / "TOKEN").mkdir()
    (mounted / "rhsm").mkdir()
    (mounted / ".hidden").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="TOKEN is not set") as caught:
        loaded(mounted)
    assert len(caught.value.problems) == 1


def test_a_folder_of_the_systems_own_is_a_reason_only_where_a_variable_is_missing(
    mounted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing would start on a machine that keeps other accounts out of /run/secrets."""

    def kept_out(_: Path) -> Iterator[Path]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", kept_out)
    assert token(loaded(mounted, TOKEN="x")) == "x"
    with pytest.raises(ConfigError, match="secrets: cannot be read: Permission denied"):
        loaded(mounted)


def test_the_password_of_the_database_is_kept_out_of_the_configuration(mounted: Path) -> None:
    """The address that docs/postgresql.md shows would be refused, or its password be logged."""
    file = mounted.parent / "config.yaml"
    line = next(line for line in DOCS.splitlines() if line.startswith("database: postgresql"))
    file.write_text(f"{CONFIG}{line}\n", encoding="utf-8")
    (mounted / "TOKEN").write_text("x", encoding="utf-8")
    (mounted / "USHER_DB_PASSWORD").write_text("canary-1", encoding="utf-8")
    config = loaded(mounted)
    assert isinstance(config.database, DatabaseServer)
    assert "usher:canary-1@" in config.database.url.get_secret_value()
    assert "canary-1" in config.secrets()
