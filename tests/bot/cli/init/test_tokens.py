"""Tokens of chats: tried at once, never shown; and who becomes an admin."""

import asyncio
from collections.abc import Mapping, Sequence

import pytest
from pydantic import TypeAdapter

from bot.cli.init import chats
from bot.cli.init.chats import ChatKind, ChatPlan, PagePlan
from bot.cli.init.terminal import InitFailed, NoQuestions, Terminal
from bot.config.reading.tokens import Token
from bot.core.errors import ChatRefused, ChatUnavailable
from bot.core.platform import ChatAccount, ChatPerson
from tests.fakes.discord.discord import FakeDiscord
from tests.fakes.discord.discord_state import APPLICATION_ID
from tests.fakes.ports import port_of
from tests.fakes.telegram.telegram import FakeTelegram
from tests.fakes.terminal import ScriptedTerminal
from tests.patience import runs_out

Answers = Mapping[str, str | Sequence[str]]
WRONG = "1234567:canary-of-a-wrong-token"


async def planned(
    name: str, terminal: Terminal, given: Mapping[str, str] | None = None, api: str | None = None
) -> ChatPlan | None:
    kind = next(each for each in chats.kinds(api) if each.name == name)
    return await asyncio.to_thread(chats.plan, kind, terminal, given or {})


async def admins_of(
    chat: ChatPlan, answers: Answers, api: str | None = None
) -> tuple[tuple[str, ...], ScriptedTerminal]:
    terminal = ScriptedTerminal(answers)
    found = await asyncio.to_thread(chats.admins, [chat], [], terminal, api, PagePlan())
    return tuple(each.id for each in found), terminal


async def test_a_telegram_token_is_tried_and_the_bot_named() -> None:
    """An invalid token, or one of another bot, would only be noticed after the start."""
    async with FakeTelegram() as fake:
        terminal = ScriptedTerminal({"Telegram bot token": [WRONG, "two words", fake.token]})
        chat = await planned("telegram", terminal, api=fake.url)
    assert chat is not None
    assert chat.account is not None
    assert chat.token == fake.token
    assert chat.account.invite == f"https://t.me/{chat.account.name.removeprefix('@')}"
    assert len(terminal.asked_secretly) == 3
    refusals = [line for line in terminal.told if line.startswith("  ")]
    assert len(refusals) == 2
    assert "Telegram does not accept this token: ask @BotFather" in refusals[0]
    assert "canary" not in terminal.shown
    assert fake.token not in terminal.shown


async def test_a_discord_token_is_tried_and_the_invitation_shown() -> None:
    """The address of the invitation would have to be put together by hand."""
    async with FakeDiscord() as fake:
        terminal = ScriptedTerminal({"Discord bot token": ["wrong.canary.token", fake.token]})
        chat = await planned("discord", terminal)
    assert chat is not None
    assert chat.account is not None
    invite = chat.account.invite
    assert invite.startswith("https://discord.com/oauth2/authorize?")
    assert f"client_id={APPLICATION_ID}" in invite
    assert "scope=bot+applications.commands" in invite
    assert "permissions=274878008320" in invite
    assert chat.account.owner is not None
    assert chat.account.owner.id == "discord:1"
    assert "canary" not in terminal.shown


async def test_a_token_of_the_environment_is_taken_without_a_question() -> None:
    """A script would wait for an answer that no one gives."""
    async with FakeTelegram() as fake:
        chat = await planned(
            "telegram", NoQuestions(), {"TELEGRAM_TOKEN": fake.token}, api=fake.url
        )
        assert chat is not None
        assert chat.token == fake.token
        assert await planned("telegram", NoQuestions(), {}, api=fake.url) is None
        with pytest.raises(InitFailed, match="TELEGRAM_TOKEN: Telegram does not accept") as caught:
            await planned("telegram", NoQuestions(), {"TELEGRAM_TOKEN": WRONG}, api=fake.url)
    assert "canary" not in str(caught.value)


async def test_a_wrong_token_of_the_environment_is_asked_for_again() -> None:
    """A person would be asked again and again, without knowing where the token came from."""
    async with FakeTelegram() as fake:
        terminal = ScriptedTerminal({"Telegram bot token": fake.token})
        chat = await planned("telegram", terminal, {"TELEGRAM_TOKEN": WRONG}, api=fake.url)
    assert chat is not None
    assert chat.token == fake.token
    assert "(from TELEGRAM_TOKEN)" in terminal.shown


@pytest.mark.parametrize(("keep", "kept"), [("yes", True), ("no", False)])
async def test_without_a_network_the_token_may_be_kept_untried(keep: str, kept: bool) -> None:
    """No chat could be set up on a machine that has no connection yet."""
    nowhere = (
        f"http://127.0.0.1:{port_of(test_a_wrong_token_of_the_environment_is_asked_for_again)}"
    )
    terminal = ScriptedTerminal({"Telegram bot token": [WRONG, ""], "Keep this token": keep})
    chat = await planned("telegram", terminal, api=nowhere)
    assert (chat is not None) is kept
    assert chat is None or chat.account is None
    assert "Could not check the token with Telegram" in terminal.shown
    assert "canary" not in terminal.shown


async def test_a_chat_that_hangs_is_told_like_one_that_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The set-up would wait forever behind a firewall that drops packets."""
    runs_out(monkeypatch, chats, "TRY_S")

    async def hangs(_: str) -> ChatAccount:
        await asyncio.Event().wait()
        raise AssertionError

    kind = ChatKind(
        name="telegram",
        title="Telegram",
        variable="T",
        made="",
        form=TypeAdapter(Token),
        account=hangs,
    )
    terminal = ScriptedTerminal({"Keep this token": "yes"})
    chat = await asyncio.to_thread(chats.plan, kind, terminal, {"T": "x"})
    assert chat is not None
    assert "with Telegram: no answer" in terminal.shown


# ---------------------------------------------------------------- admins


def telegram(token: str) -> ChatPlan:
    account = ChatAccount(name="@usher_bot", invite="https://t.me/usher_bot")
    kind = next(each for each in chats.kinds(None) if each.name == "telegram")
    return ChatPlan(kind=kind, token=token, account=account)


async def test_the_person_who_writes_the_word_is_the_admin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A person would have to find out their id; or a stranger who wrote first would be admin."""
    monkeypatch.setattr("bot.platforms.telegram.platform.ASK_EVERY_S", 0.01)
    async with FakeTelegram() as fake:
        fake.person(7, "Stranger").says("hello")
        fake.person(7).says("/start 0123456789abcdef")
        fake.group(-5)
        terminal = ScriptedTerminal({"Make yourself an admin": "yes"})
        asking = asyncio.create_task(
            asyncio.to_thread(
                chats.admins, [telegram(fake.token)], [], terminal, fake.url, PagePlan()
            )
        )
        await fake.wait_for(lambda: fake.api.polls > 0)
        (link,) = [line for line in terminal.told if "?start=" in line]
        word = link.partition("?start=")[2].split()[0]
        fake.person(42, "an\x1b[2J\nadmins: []").says(f"/start {word}")
        found = await asking
    assert [each.id for each in found] == ["telegram:42", "web:local"]
    assert "That is an?[2J admins: [] (telegram:42)." in terminal.shown
    assert len(fake.api.updates) == 3  # none was taken from the bot


async def test_the_owner_of_a_discord_application_is_offered_as_admin() -> None:
    """The one person whom Discord names would have to look up their id."""
    account = ChatAccount(name="Usher#1", invite="", owner=ChatPerson(id="discord:80", name="an"))
    kind = next(each for each in chats.kinds(None) if each.name == "discord")
    chat = ChatPlan(kind=kind, token="x", account=account)
    assert (await admins_of(chat, {"Make an, who owns": "yes"}))[0] == ("discord:80", "web:local")
    assert (await admins_of(chat, {"Make an, who owns": "no"}))[0] == ("web:local",)


async def test_an_id_can_be_typed_and_is_checked() -> None:
    """A name instead of an id would make no one an admin."""
    answers = {"Make yourself": "no", "Your id on Telegram": ["@an", "42"]}
    found, terminal = await admins_of(telegram("x"), answers)
    assert found == ("telegram:42", "web:local")
    assert any("must be an id such as" in line for line in terminal.told)
    found, _ = await admins_of(telegram("x"), {"Make yourself": "no", "Your id": ""})
    assert found == ("web:local",)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (TimeoutError(), "No message came."),
        (ChatUnavailable("no route"), "Could not ask Telegram: no route"),
        (ChatRefused("no"), "Could not ask Telegram: no"),
    ],
)
async def test_where_no_message_comes_the_id_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, error: Exception, told: str
) -> None:
    """The set-up would end there, and everything typed before would be lost."""

    async def fails(*_: object) -> ChatPerson:
        raise error

    monkeypatch.setattr(chats, "writer_of", fails)
    answers = {"Make yourself": "yes", "Your id on Telegram": "42"}
    found, terminal = await admins_of(telegram("x"), answers)
    assert found[0] == "telegram:42"
    assert told in terminal.shown


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("telegram:42", "telegram:42"),
        ("discord-role:165511591545143296", "discord-role:165511591545143296"),
        ("discord:manage-guild@4177", "discord:manage-guild@4177"),
        ("web:local", "web:local"),
        ("42", None),
        ("an", None),
        ("telegram:an", None),
        ("telegram:42]", None),
    ],
)
def test_an_admin_is_a_person_or_a_right(given: str, read: str | None) -> None:
    """A word that is no id would be written, and the configuration refused at its first check."""
    if read is not None:
        assert chats.known_id(given) == read
        return
    with pytest.raises(ValueError, match="must be an id such as"):
        chats.known_id(given)
