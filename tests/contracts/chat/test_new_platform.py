"""A chat added as docs/extending.md says is safe by its settings alone: this adds one."""

import asyncio
import io
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from bot.app import logs
from bot.app.app import App, BotParts
from bot.app.setup import BotSetup
from bot.config.chats import ChatConfig, ChatsConfig
from bot.config.checks import problems
from bot.config.config import Config
from bot.config.reading.tokens import Token
from bot.config.reading.values import Url
from bot.core.platform import ChatPlatform
from bot.people.names import IdForm, NameForms
from bot.platforms import registry
from bot.platforms.registry import PLATFORMS, PlatformParts
from tests.fakes.chat import FakeChat

TOKEN, PASSWORD = "canary-of-the-pigeons", "canary%20feather"


class PigeonConfig(ChatConfig):
    """The settings of a new chat: a token, its address, and who may call."""

    naming = NameForms(
        person=IdForm(pattern=r"pigeon:[0-9]+", example="pigeon:7"),
        rights=(IdForm(pattern=r"pigeon:keepers@[0-9]+", example="pigeon:keepers@5"),),
    )
    token: Token
    home: Url
    allow: tuple[str, ...] = ()
    allow_roles: tuple[str, ...] = ()


class WithPigeons(ChatsConfig):
    """All chats there are, and one more."""

    pigeon: PigeonConfig | None = None


class ConfigWithPigeons(Config):
    """The whole configuration with that chat."""

    chats: WithPigeons = WithPigeons()


class Pigeon(FakeChat):
    """The new chat; like some libraries, it logs what it should not."""

    def __init__(self, settings: PigeonConfig) -> None:
        super().__init__("pigeon")
        logging.getLogger("pigeon").error("flies with %s to %s", settings.token, settings.home)
        logging.getLogger("pigeon").error("%s", settings.token.get_secret_value())


def made(chats: ChatsConfig, _: PlatformParts) -> ChatPlatform | None:
    settings = getattr(chats, "pigeon", None)
    return Pigeon(settings) if isinstance(settings, PigeonConfig) else None


def config(**more: Any) -> ConfigWithPigeons:
    written: dict[str, Any] = {
        "hosts": {"gpu-1": {"vram": "24GB", "backends": {"studio": {"kind": "demo"}}}},
        "models": {"llama": {"backends": ["studio"], "capabilities": ["text-to-text"]}},
        "chats": {"pigeon": {"token": TOKEN, "home": f"http://ada:{PASSWORD}@loft.example"}},
    }
    written["chats"]["pigeon"] |= more.pop("pigeon", {})
    return ConfigWithPigeons.model_validate(written | more)


@asynccontextmanager
async def usher(given: Config, folder: Path) -> AsyncIterator[tuple[BotParts, Pigeon]]:
    app = App(BotSetup(given, database_url=f"sqlite:///{folder}/usher.sqlite"))
    async with app.running() as parts, asyncio.TaskGroup() as group:
        working = group.create_task(parts.queue.run())
        (chat,) = parts.platforms
        assert isinstance(chat, Pigeon)
        yield parts, chat
        working.cancel()


@pytest.fixture(autouse=True)
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the line in the registry."""
    monkeypatch.setattr(registry, "PLATFORMS", {**PLATFORMS, "pigeon": made})


def test_every_platform_has_its_settings_and_says_how_people_are_named() -> None:
    """A chat would be missing in one of two lists, and never be run or never be tested."""
    assert set(PLATFORMS) == set(ChatsConfig.model_fields) == set(ChatsConfig.naming())
    for name, field in ChatsConfig.model_fields.items():
        (kind,) = (each for each in get_args(field.annotation) if each is not type(None))
        assert issubclass(kind, ChatConfig)
        assert ChatsConfig.naming()[name].person.example.startswith(f"{name}:")


async def test_who_may_call_follows_from_the_settings(tmp_path: Path) -> None:
    """A new chat would be open to everyone, whatever its `allow` says."""
    given = config(pigeon={"allow": ["5"], "allow_roles": ["pigeon:keepers@5"]})
    assert problems(given) == []
    async with usher(given, tmp_path) as (parts, chat):
        keeper = frozenset({"pigeon:keepers@5"})
        calls = [("6", keeper), ("5", frozenset[str]()), ("5", keeper)]
        for place, rights in calls:
            call = chat.call("/ask why?", user="pigeon:7", chat=place, rights=rights)
            await parts.dispatcher.call(call)
        await parts.presenter.settle(10)
        asked = await parts.queue.jobs.history("pigeon:7", limit=9)
    told = [text for _, text in chat.private]
    assert len(told) == 2
    assert told[0].startswith("Usher isn't open to this chat.")
    assert told[1].startswith("Usher is only open to people with certain roles")
    assert len(asked) == 1


async def test_its_rooms_hold_with_everything_they_are_part_of(tmp_path: Path) -> None:
    """The operator's words would not apply in a new chat, or not in a part of it."""
    given = config(rooms={"pigeon:5": {"words": ["cat"]}, "pigeon": {"words": ["hawk"]}})
    assert problems(given) == []
    async with usher(given, tmp_path) as (parts, chat):
        for text, within in (("cat", ("5",)), ("hawk", ("5",)), ("hawk", ()), ("cat", ())):
            call = chat.call(f"/ask {text}?", user="pigeon:7", chat="perch", within=within)
            await parts.dispatcher.call(call)
        await parts.presenter.settle(10)
    assert [text for _, text in chat.private] == [
        "“cat” isn't allowed in this chat.",
        "“hawk” isn't allowed in this chat.",
    ]


@pytest.mark.parametrize("form", ["text", "json"])
async def test_its_token_is_never_in_the_log(form: Any, tmp_path: Path) -> None:
    """Every traceback would show a new chat's token."""
    given, log = config(), io.StringIO()
    logs.set_up(level="debug", form=form, secrets=given.secrets(), stream=log)
    async with usher(given, tmp_path):
        pass
    assert "flies with" in log.getvalue()
    assert "canary" not in log.getvalue()


def test_its_people_and_rights_are_checked_by_its_own_forms() -> None:
    """A typing error in an admin's id would only be found for the older chats."""
    given = config(
        admins=["pigeon:7", "pigeon:keepers@5", "pigeon:keepers", "pigeon:ada"],
        rooms={"hawk:5": {}},
        pigeon={"allow_roles": ["pigeon:7"]},
    )
    assert {problem.path for problem in problems(given)} == {
        ("admins", 2),
        ("admins", 3),
        ("rooms", "hawk:5"),
        ("chats", "pigeon", "allow_roles", 0),
    }
    with pytest.raises(ValidationError):
        config(pigeon={"token": "two\nlines"})
