"""What goes wrong on Telegram: limits, outages, lost messages and chats, repeated updates."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any

import httpx
import pytest

import bot.platforms.telegram.platform as telegram_module
from bot.core.content import Button, Content, Markdown
from bot.core.errors import (
    ChatError,
    ChatGone,
    ChatMoved,
    ChatRefused,
    ChatUnavailable,
    ContentRefused,
    MessageGone,
    SlowDown,
    TooLarge,
)
from bot.core.platform import Invocation, MessageRef
from bot.platforms.telegram import updates as telegram_updates
from bot.platforms.telegram.platform import Telegram
from tests.bot.platforms.discord.discord_bot import RecordingHandler, says
from tests.bot.platforms.telegram.telegram_bot import image, running, telegram
from tests.fakes.ports import port_of
from tests.fakes.telegram.telegram import TOKEN, FakeTelegram
from tests.fakes.telegram.telegram_state import Limits
from tests.patience import AT_ONCE_S


@asynccontextmanager
async def bot_with_message(**how: Any) -> AsyncIterator[tuple[FakeTelegram, Telegram, MessageRef]]:
    async with FakeTelegram(**how) as fake, running(fake, RecordingHandler()) as chat:
        fake.group()
        yield fake, chat, await chat.send("-1001", says("⏳"))


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the pauses after failures so short that a test can wait for them."""
    monkeypatch.setattr(telegram_updates, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(telegram_updates, "LONGEST_PAUSE_S", 0.02)


# ---------------------------------------------------------------- updates


async def test_an_update_is_confirmed_only_when_it_is_durable() -> None:
    """A crash between receiving and storing would lose a person's request."""
    held = asyncio.Event()

    async def hold(_call: Invocation) -> None:
        await held.wait()

    async with FakeTelegram() as fake:
        handler = RecordingHandler(then=hold)
        async with running(fake, handler):
            fake.person(7).says("/image cat")
            first = await handler.called()
            polls = fake.api.polls
            await fake.wait_for(lambda: fake.api.polls > polls + 1)
            assert len(fake.api.updates) == 1
            assert len(handler.calls) == 1
        after = RecordingHandler()
        async with running(fake, after):
            again = await after.called()
            await fake.quiet()
    assert again.key == first.key
    assert again.text == "cat"


async def test_a_number_that_begins_anew_loses_nothing() -> None:
    """After a quiet week Telegram would count from a lower number, and commands be skipped."""
    handler = RecordingHandler()
    async with FakeTelegram() as fake, running(fake, handler):
        fake.person(7).says("/queue")
        await handler.called()
        await fake.quiet()
        polls = fake.api.polls
        fake.api.counters.updates = iter(range(17, 99))  # type: ignore[assignment]
        fake.person(7).says("/queue")
        await handler.called(2)
        fake.person(7).says("/queue")
        await handler.called(3)
        await fake.wait_for(lambda: fake.api.polls > polls)


async def test_many_waiting_updates_are_all_served() -> None:
    """Requests made during an outage would be served only in part."""
    handler = RecordingHandler()
    async with FakeTelegram() as fake:
        for number in range(250):
            fake.person(number % 7 + 1).says(f"/image {number}")
        async with running(fake, handler):
            await handler.called(250)
            await fake.quiet()
    for person in range(1, 8):
        mine = [int(call.text) for call in handler.calls if call.user == f"telegram:{person}"]
        assert mine == sorted(mine)
    assert len({call.key for call in handler.calls}) == 250


async def test_an_update_nobody_can_read_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    """One update that the library cannot read would block all later ones forever."""
    handler = RecordingHandler()
    async with FakeTelegram() as fake, running(fake, handler):
        fake.api.updates.append({"update_id": 5_000_001, "message": {"message_id": "?"}})
        next(fake.api.counters.updates)
        fake.person(7).says("/queue")
        await handler.called()
        await fake.quiet()
        fake.api.mismatches.clear()  # the unreadable update is no answer of the Bot API
    assert "dropped update 5000001" in caplog.text


async def test_a_broken_handler_does_not_end_the_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One bug in one command would stop the whole platform, or the update come again forever."""

    async def broken(_call: Invocation) -> None:
        raise ZeroDivisionError

    handler = RecordingHandler(then=broken)
    async with FakeTelegram() as fake, running(fake, handler):
        fake.person(7).says("/queue")
        await handler.called()
        await fake.quiet()
        handler.then = None
        fake.person(7).says("/queue")
        await handler.called(2)
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.usefixtures("hurried")
async def test_receiving_goes_on_after_an_outage() -> None:
    """After one failed request the bot would receive nothing any more."""
    cases: list[dict[str, Any]] = [
        {"status": 502, "page": "<html>Bad Gateway</html>"},
        {"status": 200, "page": "<html>hello</html>"},
        {"status": 200, "page": "[]"},
        {"status": 409, "text": "Conflict: terminated by other getUpdates request"},
        {"status": 429, "text": "Too Many Requests", "parameters": {"retry_after": 0.01}},
        {"drop": True},
    ]
    for how in cases:
        handler = RecordingHandler()
        async with FakeTelegram() as fake:
            fake.fail("getMe", times=3, status=502)
            fake.fail("getUpdates", times=3, **how)
            fake.person(7).says("/queue")
            task = asyncio.create_task(telegram(fake).run(handler))
            await handler.called()
            task.cancel()
            await asyncio.wait([task])
        assert task.cancelled(), how


def test_pauses_grow_and_end() -> None:
    """A bot without a network would call Telegram without pause, or not for hours."""
    assert list(islice(telegram_updates.pauses_s(), 8)) == [1, 2, 4, 8, 16, 32, 60, 60]


async def test_a_wrong_token_ends_the_platform_with_a_clear_error() -> None:
    """A wrong token would be tried forever, and no one would be told."""
    async with FakeTelegram(token="1:wrong") as fake:
        chat = telegram(fake)
        fake.api.token = "2:right"
        with pytest.raises(ChatRefused, match="token") as refusal:
            await chat.run(RecordingHandler())
    assert "wrong" not in str(refusal.value)


async def test_a_token_revoked_while_running_ends_the_platform() -> None:
    """With a revoked token the bot would keep trying forever."""
    async with FakeTelegram() as fake:
        fake.fail("getUpdates", status=401, text="Unauthorized")
        with pytest.raises(ChatRefused):
            await telegram(fake).run(RecordingHandler())


# ---------------------------------------------------------------- limits


async def test_the_fakes_limits_are_met_as_slow_down() -> None:
    """The fake would not refuse a request beyond Telegram's limits, or the bot not report it."""
    limits = Limits()
    async with bot_with_message(limits=limits) as (fake, chat, ref):
        for number in range(19):
            await chat.edit(ref, says(f"#{number}"))
        with pytest.raises(SlowDown) as failure:
            await chat.edit(ref, says("one too many"))
        assert 55 < failure.value.retry_after_s <= 61
        fake.person(7)
        await chat.send("7", says("one"))
        with pytest.raises(SlowDown):
            await chat.send("7", says("two"))
        fake.later(61)
        await chat.edit(ref, says("later"))
        assert limits.refused == {"group": 1, "private": 1}
        assert fake.api.answers_429 == 2


# ---------------------------------------------------------------- refusals

REFUSALS: list[tuple[int, str, type[ChatError]]] = [
    (400, "Bad Request: message to edit not found", MessageGone),
    (400, "Bad Request: message can't be edited", MessageGone),
    (400, "Bad Request: MESSAGE_ID_INVALID", MessageGone),
    (400, "Bad Request: chat not found", ChatGone),
    (400, "Bad Request: not enough rights to send text messages to the chat", ChatGone),
    (400, "Bad Request: message thread not found", ChatGone),
    (400, "Bad Request: CHAT_WRITE_FORBIDDEN", ChatGone),
    (403, "Forbidden: bot was blocked by the user", ChatGone),
    (403, "Forbidden: bot was kicked from the supergroup chat", ChatGone),
    (403, "Forbidden: user is deactivated", ChatGone),
    (400, "Bad Request: message is too long", TooLarge),
    (413, "Request Entity Too Large", TooLarge),
    (400, "Bad Request: BUTTON_DATA_INVALID", ContentRefused),
    (401, "Unauthorized", ChatUnavailable),
    (500, "Internal Server Error", ChatUnavailable),
    (502, "Bad Gateway", ChatUnavailable),
]


async def test_each_refusal_says_how_to_react() -> None:
    """A deleted chat would be tried forever, or a chat be given up for one deleted message."""
    async with bot_with_message() as (fake, chat, ref):
        for status, text, kind in REFUSALS:
            for method, call in (
                ("editMessageText", chat.edit(ref, says("new"))),
                ("sendMessage", chat.send("-1001", says("new"))),
            ):
                fake.fail(method, status=status, text=text)
                with pytest.raises(ChatError) as failure:
                    await call
                assert type(failure.value) is kind, text
                assert fake.token not in str(failure.value), text


async def test_a_group_that_moved_says_where_to() -> None:
    """A group that became a supergroup would never see its results."""
    async with bot_with_message() as (fake, chat, ref):
        fake.migrate(fake.group(), -1009)
        with pytest.raises(ChatMoved) as failure:
            await chat.edit(ref, says("new"))
        assert failure.value.new_chat == "-1009"
        await chat.send("-1009", says("new"))
        with pytest.raises(MessageGone):
            await chat.edit(
                MessageRef(platform="telegram", chat="-1009", message=ref.message), says("x")
            )


async def test_a_kicked_bot_is_told_so() -> None:
    """Jobs of a group that removed the bot would be tried forever."""
    async with bot_with_message() as (fake, chat, ref):
        fake.kick(fake.group())
        for call in (chat.edit(ref, says("x")), chat.send("-1001", says("x")), chat.delete(ref)):
            with pytest.raises(ChatGone):
                await call


async def test_a_message_too_old_to_delete_is_said() -> None:
    """A person would read that a message is deleted which everyone still sees."""
    async with bot_with_message() as (fake, chat, ref):
        fake.later(49 * 3600)
        with pytest.raises(ContentRefused):
            await chat.delete(ref)


async def test_formatting_that_is_refused_is_left_out() -> None:
    """An answer would be lost because Telegram refuses one of its entities."""
    styled = Content(body=(Markdown("**new**"),))
    text = "Bad Request: can't parse entities: unsupported type"
    async with bot_with_message() as (fake, chat, ref):
        fake.fail("editMessageText", status=400, text=text)
        await chat.edit(ref, styled)
        fake.fail("sendMessage", status=400, text=text)
        await chat.send("-1001", styled)
        assert [(each.shown, each.entities) for each in fake.group().from_bot] == [("new", [])] * 2


async def test_code_that_loses_its_formatting_mentions_nobody() -> None:
    """Code would be searched for mentions when Telegram refuses the formatting."""
    code = Content(body=(Markdown("`@durov`"),))
    text = "Bad Request: can't parse entities: unsupported type"
    async with bot_with_message() as (fake, chat, ref):
        fake.fail("editMessageText", status=400, text=text)
        await chat.edit(ref, code)
        [shown] = fake.group().from_bot
        assert shown.entities == []
        assert "@d" not in shown.text


# ---------------------------------------------------------------- unclear outcomes


async def test_a_send_whose_answer_was_lost_is_never_repeated() -> None:
    """A lost connection to Telegram would post a result twice."""
    cases: list[dict[str, Any]] = [
        {"drop": True},
        {"status": 502, "text": "Bad Gateway"},
        {"status": 200, "page": "<html>"},
        {"status": 200, "page": "{}"},
    ]
    async with bot_with_message() as (fake, chat, _):
        for sent, how in enumerate(cases, 1):
            fake.fail("sendMessage", acting=True, **how)
            with pytest.raises(ChatUnavailable) as failure:
                await chat.send("-1001", says("once"))
            assert failure.value.unclear, how
            shown = [each.shown for each in fake.group().from_bot]
            assert shown == ["⏳", *["once"] * sent], how


async def test_a_send_that_times_out_is_unclear(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow Telegram would make the bot post twice, or wait forever."""
    async with bot_with_message() as (fake, chat, ref):
        request = chat._connected().request
        assert isinstance(request, telegram_updates.Request)
        assert request._client.timeout.read == telegram_module.REQUEST_TIMEOUT_S
        monkeypatch.setattr(request._client, "timeout", httpx.Timeout(AT_ONCE_S))
        fake.fail("sendMessage", acting=True, hang_s=60.0)
        with pytest.raises(ChatUnavailable) as failure:
            await chat.send("-1001", says("once"))
        assert failure.value.unclear
        fake.fail("editMessageText", acting=True, hang_s=60.0)
        with pytest.raises(ChatUnavailable) as failure:
            await chat.edit(ref, says("new"))
        assert not failure.value.unclear


async def test_a_send_that_never_left_may_be_repeated() -> None:
    """While Telegram cannot be reached, results would be given up as perhaps delivered."""
    fake = FakeTelegram()
    async with fake, running(fake, RecordingHandler()) as chat:
        fake.person(7)
        await fake._runner.cleanup()  # no one listens there any more
        with pytest.raises(ChatUnavailable) as failure:
            await chat.send("7", says("hello"))
        assert not failure.value.unclear


async def test_a_telegram_that_cannot_be_reached_is_told_in_words() -> None:
    """A person who checks a configuration would read the name of a library's error."""
    fake = FakeTelegram()
    chat = Telegram(TOKEN, base_url=f"http://127.0.0.1:{port_of(fake)}/bot")
    with pytest.raises(ChatUnavailable, match=r"^cannot reach Telegram: "):
        await chat.check()


async def test_an_album_is_not_repeated_for_what_comes_after_it() -> None:
    """When the buttons beneath an album are refused, the album would be posted repeatedly."""
    button = Button(command="again", job_id=1, label="Again")
    content = Content(files=(image(), image()), body=("two",), buttons=((button,),))
    async with bot_with_message() as (fake, chat, _):
        fake.fail("sendMessage", status=429, text="Too Many", parameters={"retry_after": 5})
        with pytest.raises(ChatUnavailable) as failure:
            await chat.send("-1001", content)
        assert failure.value.unclear
        fake.fail("sendMediaGroup", status=429, text="Too Many", parameters={"retry_after": 5})
        with pytest.raises(SlowDown):
            await chat.send("-1001", content)


# ---------------------------------------------------------------- secrets


async def test_the_token_is_in_no_log_line(caplog: pytest.LogCaptureFixture) -> None:
    """Any reader of a debug log could take over the bot."""
    caplog.set_level("DEBUG")
    handler = RecordingHandler()
    async with FakeTelegram() as fake, running(fake, handler) as chat:
        fake.person(7).says("/image cat", photo=image().data)
        call = await handler.called()
        await call.files[0].read()
        await call.respond(says("ok"), False)
        fake.fail("sendMessage", status=503, page="<html>")
        fake.fail("sendMessage", drop=True)
        for _ in range(2):
            with pytest.raises(ChatUnavailable):
                await chat.send("7", says("hello"))
        assert caplog.records
        assert fake.token not in caplog.text
        assert fake.token.partition(":")[2] not in caplog.text
        assert fake.token not in repr(chat)


@pytest.mark.usefixtures("hurried")
async def test_the_end_of_an_outage_is_reported() -> None:
    """Results would wait for their own next try, although Telegram answers again."""
    handler = RecordingHandler()
    async with FakeTelegram() as fake:
        task = asyncio.create_task(telegram(fake).run(handler))
        await fake.wait_for(lambda: handler.answers)
        fake.person(7).says("/queue")
        await handler.called()
        assert handler.answers == ["telegram"], "each poll counted as the end of an outage"
        fake.fail("getUpdates", times=2, status=502)
        fake.person(7).says("/queue")  # ends the poll that waits
        async with asyncio.timeout(telegram_updates.POLL_S):  # not once a poll of silence is over
            await fake.wait_for(lambda: len(handler.answers) == 2)
        task.cancel()
        await asyncio.wait([task])
