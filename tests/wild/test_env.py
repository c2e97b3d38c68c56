"""Tokens as people and programs write them into `usher.env` and the environment.

Each file of `env/` has the text of a `file` or the value in the `environ`, and the `chat` (or
server) it is for. What is expected is the `token`, or the message if it is `refused`, and what is
`warned` about.
"""

from pathlib import Path
from typing import Any

import pytest

from bot.config.loader import Config, ConfigError, load
from tests.samples import in_turn
from tests.wild.cases import cases, read_case

CASES = cases("env")
SERVER = """\
hosts:
  home: {vram: 24GB, backends: {stand-in: {kind: openai, url: "http://127.0.0.1:9"%s}}}
"""


def read(odd: dict[str, Any], folder: Path) -> Config:
    in_server = odd["chat"] == "server"
    text = SERVER % (", token: '${TOKEN}'" if in_server else "")
    text += "chats: {%s}\n" % (
        "web: {}" if in_server else f"{odd['chat']}: {{token: '${{TOKEN}}'}}"
    )
    (folder / "config.yaml").write_text(text, encoding="utf-8")
    if "file" in odd:
        file = folder / "usher.env"
        file.write_text(odd["file"], encoding="utf-8")
        file.chmod(0o600)
    return load(folder / "config.yaml", {"TOKEN": odd["environ"]} if "environ" in odd else {})


def token(config: Config, chat: str) -> str | None:
    settings = config.hosts["home"].backends["stand-in"]
    found = settings.token if chat == "server" else getattr(config.chats, chat).token
    return None if found is None else str(found.get_secret_value())


@in_turn("case", CASES)
def test_a_token_is_read_as_meant_or_refused_before_anyone_is_asked(
    case: Path, tmp_path: Path
) -> None:
    """People would revoke a good token, make another one, and fail again."""
    odd = read_case(case)
    (folder := tmp_path / case.stem).mkdir()
    if "refused" in odd:
        with pytest.raises(ConfigError) as caught:
            read(odd, folder)
        assert odd["refused"] in caught.value.problems[0]
        assert "AAEhBP0av28f" not in str(caught.value)
        return
    config = read(odd, folder)
    assert token(config, odd["chat"]) == odd["token"]
    assert [each for each in config.warnings if odd.get("warned", "\n") not in each] == []
    assert bool(config.warnings) == ("warned" in odd)
