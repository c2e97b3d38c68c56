"""`--roles` and `--api` of `usher run`: what one process of several does."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bot.app.runner import ProcessOptions
from bot.cli import main as cli
from bot.cli import this_process
from bot.cli.arguments import parser
from bot.config.loader import Config, ConfigError, parse

if TYPE_CHECKING:
    from collections.abc import Sequence

CONFIG = """\
database: {database}
hosts: {{home: {{vram: 24GB, backends: {{stand-in: {{kind: demo}}}}}}}}
models: {{flux: {{backends: [stand-in]}}}}
chats: {{web: {{port: 0}}, discord: {{token: '${{T}}'}}, telegram: {{token: '${{U}}'}}}}
"""
API = "api: {port: 8081, open: true}\n"
SERVER = "postgresql://usher@127.0.0.1/usher"


def read(database: str = SERVER, more: str = API) -> Config:
    return parse(
        CONFIG.format(database=database) + more, {"T": "a.b.c", "U": f"1234567:AAH{32 * 'a'}"}
    )


def told(*given: str) -> argparse.Namespace:
    return parser().parse_args(["run", *given])


def test_a_process_applies_for_the_posts_it_was_told() -> None:
    """A process for chats would also schedule."""
    cases: list[tuple[Sequence[str], set[str] | None]] = [
        ([], None),
        (["--roles", "queue"], {"queue"}),
        (["--roles", " web , telegram,web"], {"web", "telegram"}),
        (["--roles", "discord,queue"], {"discord", "queue"}),
        (["--roles", "none"], set()),
    ]
    for given, roles in cases:
        _, options = this_process.options(told(*given), read())
        assert options == ProcessOptions(roles=None if roles is None else frozenset(roles)), given


def test_the_api_of_a_process_is_where_it_was_told() -> None:
    """Two processes on one machine could not both serve it."""
    config, _ = this_process.options(told("--api", "127.0.0.2:9001"), read())
    assert config.api is not None
    assert (config.api.host, config.api.port, config.api.open) == ("127.0.0.2", 9001, True)
    config, _ = this_process.options(told("--api", "[::1]:9001"), read(database="usher.sqlite"))
    assert config.api is not None
    assert config.api.host == "::1"
    config, options = this_process.options(told("--api", "off"), read())
    assert (config.api is not None, options.serves_api) == (True, False)
    assert this_process.options(told(), read(more=""))[1].serves_api is False


IMPOSSIBLE = (
    (
        ["--roles", "queue,chef"],
        read(),
        "there is no role chef: this configuration has queue, discord, telegram, web, or none",
    ),
    (["--roles", "discord:0"], read(), "there is no role discord:0"),
    (["--roles", "disc"], read(), "there is no role disc"),
    (["--roles", ","], read(), "--roles: names no role: this configuration has queue"),
    (["--roles", "none,queue"], read(), "there is no role none"),
    (["--roles", "queue"], read(database="usher.sqlite"), "one process does everything"),
    (["--api", "off"], read(database="usher.sqlite"), "one process does everything"),
    (["--api", "127.0.0.1:1"], read(more=""), "--api: the configuration has no `api`"),
    (
        ["--api", "0.0.0.0:1"],
        read(),
        "--api: open: other machines can reach the API through its host",
    ),
    (["--roles", "none", "--api", "off"], read(), "would do nothing"),
    (["--roles", "none"], read(more=""), "would do nothing"),
)


def test_what_cannot_be_done_is_told_in_a_sentence(subtests: pytest.Subtests) -> None:
    """Because of a misspelt name, no process would perform a duty, without any message."""
    for given, config, sentence in IMPOSSIBLE:
        with subtests.test(str(given)):
            with pytest.raises(ConfigError) as refused:
                this_process.options(told(*given), config)
            assert sentence in str(refused.value)
            assert len(refused.value.problems) == 1


def test_an_address_that_is_none_is_a_wrong_command_line() -> None:
    """The process would serve the API elsewhere, or end in a traceback."""
    for place in ("8081", "host:", "host:x", "host:70000", ":1"):
        with pytest.raises(SystemExit) as stopped:
            told("--api", place)
        assert stopped.value.code == 2, place


def test_the_command_refuses_before_it_begins_anything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database would be created for a process that then ends."""
    monkeypatch.setenv("T", "a.b.c")
    monkeypatch.setenv("U", f"1234567:AAH{32 * 'a'}")
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG.format(database="usher.sqlite"), encoding="utf-8")
    assert cli.main(["run", "-c", str(file), "--roles", "queue"]) == 1
    assert "one process does everything" in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["config.yaml"]
