"""What every chat platform promises, with its service's fake; also for the chat of the tests."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import product

import pytest

import bot.platforms.discord.platform as discord_module
import bot.platforms.telegram.updates as telegram_module
from backends.common.file_types import mime_of
from bot.commands.registry import COMMANDS
from bot.core.attachments import SPOKEN, VIDEO_KINDS, AttachmentKind
from bot.core.content import Button, Content, Moment
from bot.core.errors import (
    ChatError,
    ChatGone,
    ChatUnavailable,
    ContentRefused,
    MessageGone,
    ServedElsewhere,
    SlowDown,
    TooLarge,
)
from bot.core.platform import ChatPlatform, Invocation, MessageRef
from tests.backends.media import papers
from tests.bot.platforms.discord.discord_bot import RecordingHandler
from tests.contracts.chat.chat_harness import (
    RETRY_AFTER_S,
    STAGES,
    FakeLease,
    Stage,
    image,
    running,
    words,
)

CANCEL = Button(command="cancel", job_id=7, label="Cancel", danger=True)
FAILURES = (SlowDown, ChatGone, ContentRefused, TooLarge, ChatUnavailable, MessageGone)


@pytest.fixture(params=list(STAGES))
async def stage(request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    async with STAGES[request.param].opened() as opened:
        yield opened


@pytest.fixture
def handler() -> RecordingHandler:
    return a_handler()


def a_handler() -> RecordingHandler:
    return RecordingHandler(commands=COMMANDS)


@pytest.fixture
async def platform(stage: Stage, handler: RecordingHandler) -> AsyncIterator[ChatPlatform]:
    async with running(stage, handler) as up:
        yield up


# ---------------------------------------------------------------- what goes out


async def test_a_message_shows_its_words_and_then_others(
    stage: Stage, platform: ChatPlatform
) -> None:
    """A status message would never become its result."""
    ref = await platform.send(stage.chat, words("⏳ #3"))
    assert (ref.platform, ref.chat) == (platform.name, stage.chat)
    assert await stage.reads(ref) == "⏳ #3"
    await platform.edit(ref, words("🎨 done"))
    assert await stage.reads(ref) == "🎨 done"
    assert await stage.count() == 1


async def test_an_edit_may_be_repeated(stage: Stage, platform: ChatPlatform) -> None:
    """An edit whose answer was lost is repeated; it must do nothing and raise nothing."""
    ref = await platform.send(stage.chat, words("⏳"))
    for content in (words("done", button=CANCEL), words("drawn", files=[image()]), words("end")):
        for _ in range(3):
            await platform.edit(ref, content)
    assert await stage.reads(ref) == "end"
    assert await stage.count() == 1


async def test_words_are_shown_as_they_are(stage: Stage, platform: ChatPlatform) -> None:
    """A prompt would become a mention, a link or formatting."""
    literal = "*a* _b_ ~~c~~ `d` <b>e</b> [f](g) \\h"
    ref = await platform.send(stage.chat, words(literal))
    shown = await stage.reads(ref)
    assert shown is not None
    assert shown.replace("\\", "") == literal.replace("\\", "")


async def test_a_moment_of_another_day_is_shown_with_its_day(
    stage: Stage, platform: ChatPlatform
) -> None:
    """A server paused until the day after tomorrow would seem to come back this afternoon."""
    for hours, clock in product((20, 72, -20), (True, False)):
        at = float(int(time.time())) + hours * 3600
        ref = await platform.send(stage.chat, words("⏳"))
        await platform.edit(ref, Content(body=("until ", Moment(at, clock=clock))))
        assert await stage.tells_day(ref, at), (hours, clock)


async def test_a_result_comes_as_an_edit_with_its_files(
    stage: Stage, platform: ChatPlatform
) -> None:
    """An image would be lost, or come as a second message."""
    ref = await platform.send(stage.chat, words("⏳"))
    files = [image(number) for number in range(min(4, platform.limits.files_per_edit))]
    await platform.edit(ref, words("done", files=files))
    assert await stage.files(ref) == len(files)
    assert await stage.count() == 1


async def test_a_text_of_the_most_that_is_promised_is_taken(
    stage: Stage, platform: ChatPlatform
) -> None:
    """An answer that was cut to fit would be refused all the same."""
    for letter, units in (("x", 1), ("🎨", 2)):
        text = letter * (platform.limits.text // units)
        ref = await platform.send(stage.chat, words(text))
        assert await stage.reads(ref) == text


async def test_a_deleted_message_is_gone(stage: Stage, platform: ChatPlatform) -> None:
    """A message would not be deleted, or a repeated deletion fail."""
    ref = await platform.send(stage.chat, words("secret"))
    await platform.delete(ref)
    assert await stage.reads(ref) is None
    await platform.delete(ref)
    for content in (words("again"), words("again", files=[image()])):
        with pytest.raises(MessageGone):
            await platform.edit(ref, content)


async def test_a_reply_to_a_message_that_is_gone_comes_all_the_same(
    stage: Stage, platform: ChatPlatform
) -> None:
    """A result would be refused because its question has been deleted."""
    asked = await platform.send(stage.chat, words("question"))
    await platform.delete(asked)
    ref = await platform.send(stage.chat, words("answer"), reply_to=asked)
    assert await stage.reads(ref) == "answer"


async def test_a_repeated_send_is_found_again_where_it_can_be(
    stage: Stage, platform: ChatPlatform
) -> None:
    """A crash between sending and noting would leave two messages."""
    first = await platform.send(stage.chat, words("once"), nonce="job-7-a-name-of-some-length")
    again = await platform.send(stage.chat, words("once"), nonce="job-7-a-name-of-some-length")
    assert (first == again) is stage.finds_again
    other = await platform.send(stage.chat, words("once"), nonce="job-8-a-name-of-some-length")
    assert other not in {first, again}


async def test_a_repeated_send_shows_what_is_new(stage: Stage, platform: ChatPlatform) -> None:
    """A job that ended between a send and its repeat would stay "in line" forever."""
    if not stage.finds_again:
        return
    first = await platform.send(stage.chat, words("in line"), nonce="job-9")
    again = await platform.send(stage.chat, words("an answer"), nonce="job-9")
    assert first == again
    assert await stage.reads(first) == "an answer"


async def test_several_images_with_buttons_are_shown_and_taken_back(
    stage: Stage, platform: ChatPlatform
) -> None:
    """Images that a person deleted would stay, or a repeat would send them again."""
    rows = tuple((replace(CANCEL, command="vary", number=n, label=f"Vary {n}"),) for n in (1, 2))
    images = (image(1), image(2))[: platform.limits.files_per_edit]
    shown = replace(words("two cats"), files=images, buttons=((CANCEL,), *rows))
    ref = await platform.send(stage.chat, words("⏳"), nonce="job-10")
    await platform.edit(ref, shown)
    if stage.finds_again:
        assert await platform.send(stage.chat, shown, nonce="job-10") == ref
    assert await stage.reads(ref) == "two cats"
    assert await stage.files(ref) == len(images)
    await platform.edit(ref, words("deleted"))
    assert await stage.reads(ref) == "deleted"
    if platform.limits.files_per_edit > 1:  # on Telegram, a photo message cannot lose its picture
        assert await stage.files(ref) == 0


async def test_chats_know_whether_several_people_read_them(
    stage: Stage, platform: ChatPlatform
) -> None:
    """A group would have the budget and mentions of a private chat."""
    assert not platform.is_group(stage.chat)
    assert stage.group is None or platform.is_group(stage.group)


# ---------------------------------------------------------------- what goes wrong


async def test_each_failure_is_the_error_that_says_how_to_react(
    stage: Stage, platform: ChatPlatform
) -> None:
    """A penalised call would be repeated at once, an outage given up, a refusal retried forever."""
    ref = await platform.send(stage.chat, words("⏳"))
    for error, method in product(FAILURES, ("send", "edit")):
        if (error, method) == (MessageGone, "send") or not stage.fail(error, method):
            continue  # that never happens there
        request = platform.edit(ref, words("more")) if method == "edit" else None
        with pytest.raises(ChatError) as failure:
            await (request or platform.send(stage.chat, words("more")))
        assert type(failure.value) is error, method
        if isinstance(failure.value, SlowDown):
            assert failure.value.retry_after_s == pytest.approx(RETRY_AFTER_S)
            assert not failure.value.old_message
        if isinstance(failure.value, ChatUnavailable) and method == "edit":
            assert not failure.value.unclear, "an edit may always be repeated"
        told = f"all is well after {error.__name__} of {method}"
        await platform.edit(ref, words(told))
        assert await stage.reads(ref) == told


async def test_a_chat_we_cannot_write_to_is_called_gone(
    stage: Stage, platform: ChatPlatform
) -> None:
    """It would be tried every second for a day."""
    if stage.stranger is None:
        pytest.skip("every chat can be written to")
    with pytest.raises(ChatGone):
        await platform.send(stage.stranger, words("hello"))


async def test_while_it_does_not_run_nothing_is_sent_and_nothing_is_unclear(stage: Stage) -> None:
    """A delivery before the start or after the stop would be lost, or count as sent."""
    platform = stage.platform()
    if "fake" in platform.name:
        pytest.skip("it is connected from the beginning")
    with pytest.raises(ChatUnavailable) as early:
        await platform.send(stage.chat, words("⏳"))
    assert not early.value.unclear
    async with running(stage, a_handler(), platform):
        ref = await platform.send(stage.chat, words("⏳"))
        assert platform.connected.is_set()
    assert not platform.connected.is_set()
    for request in (
        platform.send(stage.chat, words("more")),
        platform.edit(ref, words("more")),
        platform.delete(ref),
    ):
        with pytest.raises(ChatUnavailable) as failure:
            await request
        assert not failure.value.unclear
    assert await stage.reads(ref) == "⏳"


# ---------------------------------------------------------------- what comes in

SENT_FILES = {
    "ogg": ("voice.ogg", "audio/ogg", SPOKEN),
    "mp4": ("holiday.mp4", "video/mp4", VIDEO_KINDS),
    "docx": ("paper.docx", "", {AttachmentKind.DOCUMENT}),
}


async def test_a_call_can_be_answered_and_its_answer_edited(
    stage: Stage, handler: RecordingHandler, platform: ChatPlatform
) -> None:
    """A person would ask and get no answer, or the status message never change."""
    await stage.says("/queue")
    call = await handler.called()
    assert (call.command, call.platform) == ("queue", platform.name)
    assert call.user.startswith(f"{platform.name}:")
    assert call.key.startswith(f"{platform.name}:")
    assert call.group is platform.is_group(call.chat)
    ref = await call.respond(words("⏳"), False)
    assert ref is not None
    await platform.edit(ref, words("done"))
    assert await stage.reads(ref) == "done"
    more = await platform.send(call.chat, words("more"), reply_to=call.request)
    assert await stage.reads(more) == "more"


async def test_what_a_person_sends_can_be_read_whole(
    stage: Stage, handler: RecordingHandler, platform: ChatPlatform
) -> None:
    """A voice message, a video or a paper would be named but never used."""
    videos = pytest.importorskip("tests.backends.media.recorded_videos")
    for kind, (name, mime, known) in SENT_FILES.items():
        data = papers.docx(papers.paragraph("hello")) if kind == "docx" else videos.video(kind)
        await stage.sends("/ask what is this?", name, mime, data)
        call = await handler.called(len(handler.calls) + 1)
        (file,) = call.files
        assert (call.command, file.kind in known, file.replied) == ("ask", True, False), kind
        assert 0 < file.size <= platform.limits.download, kind
        read = await file.read()
        assert (kind == "docx" and read == data) or mime_of(read) == mime, kind


async def test_calls_have_keys_of_their_own_that_stay_when_they_come_again(stage: Stage) -> None:
    """A request that is delivered twice would be drawn twice, or two count as one."""
    handler = a_handler()
    async with running(stage, handler):
        await stage.says("/queue")
        await handler.called(1)
        await stage.says("/queue")
        await handler.called(2)
    first, second = (call.key for call in handler.calls)
    assert first != second
    told = handler.calls[0].comes_again
    handler = a_handler()
    async with running(stage, handler):
        if await stage.repeats():
            again = await handler.called()
            assert (again.key, again.comes_again) == (second, True)
        else:
            assert not told, "nothing is ever delivered twice there"


async def test_a_button_works_after_a_restart(stage: Stage) -> None:
    """No button in the chat would work after an update of the bot."""
    async with running(stage, a_handler()) as platform:
        ref = await platform.send(stage.chat, words("⏳", button=CANCEL))
        await platform.edit(ref, words("⏳ #2", button=CANCEL))
    handler = a_handler()
    async with running(stage, handler):
        await stage.presses(ref, CANCEL.label, CANCEL)
        call = await handler.called()
        assert (call.command, call.button) == ("cancel", True)
        assert str(call.options["id"]) == "7"
        assert call.replied_to == MessageRef(
            platform=ref.platform, chat=ref.chat, message=ref.message
        )


async def test_a_failed_answer_can_be_given_again(
    stage: Stage, handler: RecordingHandler, platform: ChatPlatform
) -> None:
    """After one refusal at the wrong moment, a person would never get an answer."""
    await stage.says("/queue")
    call = await handler.called()
    if stage.fail(ChatUnavailable, "send"):
        async with asyncio.timeout(60):
            try:
                ref = await call.respond(words("⏳"), False)
            except ChatUnavailable:
                ref = await call.respond(words("⏳"), False)
        assert ref is not None
        assert await stage.reads(ref) == "⏳"
        assert platform.connected.is_set()


# ---------------------------------------------------------------- whose chat it is


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry failed calls at once."""
    monkeypatch.setattr(discord_module, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(telegram_module, "FIRST_PAUSE_S", 0.01)


async def test_without_its_post_a_platform_says_nothing(stage: Stage) -> None:
    """A process that was frozen would overwrite what the next holder shows."""
    lease, handler = FakeLease(), a_handler()
    async with running(stage, handler, stage.platform(lease)) as platform:
        ref = await platform.send(stage.chat, words("⏳"))
        await stage.says("/queue")
        call = await handler.called()
        count = await stage.count()
        lease.mine = False
        for request in (
            platform.send(stage.chat, words("more")),
            platform.edit(ref, words("more")),
            platform.delete(ref),
            call.respond(words("more"), False),
            call.respond(words("more"), True),
        ):
            with pytest.raises(ServedElsewhere) as failure:
                await request
            assert not failure.value.unclear
        assert await stage.reads(ref) == "⏳"
        assert await stage.count() == count
        lease.mine = True
        await platform.edit(ref, words("done"))
        assert await stage.reads(ref) == "done"


@pytest.mark.usefixtures("hurried")
async def test_without_its_post_a_platform_hands_no_call_over(stage: Stage) -> None:
    """A call would be carried out by two processes."""
    lease, handler, held = FakeLease(), a_handler(), list[bool]()

    async def note(_call: Invocation) -> None:
        held.append(lease.mine)

    handler.then = note
    async with running(stage, handler, stage.platform(lease)):
        await stage.says("/queue")
        await handler.called()
        await stage.listening()
        lease.mine = False
        looked = asyncio.ensure_future(lease.asked())
        await stage.says("/models")
        await looked
        lease.mine = True
        await stage.says("/status")
        await handler.called(3 if stage.tells_again else 2)
    again = ["models"] if stage.tells_again else []
    assert [call.command for call in handler.calls] == ["queue", *again, "status"]
    assert all(held)


@pytest.mark.usefixtures("hurried")
async def test_without_its_post_a_platform_does_not_begin_to_listen(stage: Stage) -> None:
    """Two processes would get each call, or end each other's connections forever."""
    lease = FakeLease()
    async with running(stage, a_handler(), stage.platform(lease)):
        listened = stage.listened
        lease.mine = False
        if await stage.cut():
            await lease.asked(5)
        assert stage.listened == listened
    assert not lease.mine
