"""An answer that grows as a draft becomes one message, whatever happens in between."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from bot.core.content import Content
from bot.core.errors import ChatError, ChatUnavailable, ContentRefused, SlowDown
from bot.core.platform import MessageRef
from bot.texts.catalogue import plain
from queueing.core.events import Progressed
from queueing.core.requests import Progress
from tests.bot.delivery.test_chats_that_refuse import installation
from tests.fakes.chat import LIMITS, FakeChat
from tests.simulation.bot_installation import Bot, bot, quiet
from tests.simulation.installation import until
from tests.simulation.loop import in_virtual_time, run


@dataclass
class Drafts:
    """What a chat shows as drafts; the first is answered with `refusal`, if there is one."""

    refusal: ChatError | None = None
    shown: list[str] = field(default_factory=list)

    async def show(self, chat: str, number: int, content: Content) -> None:
        if self.refusal is not None:
            refusal, self.refusal = self.refusal, None
            raise refusal
        assert not content.buttons
        self.shown.append(plain(content.body))


def asked(
    drafts: Drafts,
    *,
    chat: str = "1",
    prompt: str = "/ask llama why",
    then: Callable[[FakeChat], None] = lambda _chat: None,
    service_s: float = 5.0,
) -> FakeChat:
    """Have an answer of two words written, and return what the chat shows in the end."""
    service = FakeChat(limits=replace(LIMITS, draft=drafts.show))
    world = installation()
    world.servers["comfy"].service_s = service_s

    async def play() -> None:
        async with bot(world, service) as running:
            await running.dispatcher.call(service.call(prompt, chat=chat))
            await until(lambda: any("writing" in m.text for m in service.messages.values()))
            for count in range(8):
                await _written(running, "because so" + " it is" * count)
                await asyncio.sleep(0.5)
            then(service)
            await quiet(running)
            await asyncio.sleep(60)

    run(play())
    return service


async def _written(running: Bot, text: str) -> None:
    [job] = await running.queue.jobs.open_jobs()
    running.presenter.on_event(Progressed(job_id=job.id, progress=Progress(text=text)))


def test_the_answer_takes_the_place_of_the_draft() -> None:
    """A person would read the answer twice: in its message, and in the draft below it."""
    drafts = Drafts()
    [answer] = asked(drafts).messages.values()
    assert len(drafts.shown) > 1
    assert all(text.startswith("because so") for text in drafts.shown)
    assert answer.texts[0] == drafts.shown[-1]
    assert answer.contents[-1].buttons[0][0].command == "again"
    assert len(answer.texts) == 2


@pytest.mark.parametrize("refusal", [ContentRefused("no"), SlowDown(2.0)])
def test_a_chat_that_takes_no_drafts_sees_edits(refusal: ChatError) -> None:
    """The answer would stop growing, or each update be refused again."""
    drafts = Drafts(refusal=refusal)
    [answer] = asked(drafts).messages.values()
    assert not drafts.shown
    assert any(text.startswith("because so") for text in answer.texts)


def test_a_group_sees_edits() -> None:
    """Telegram refuses drafts in groups."""
    drafts = Drafts()
    [answer] = asked(drafts, chat="g1").messages.values()
    assert not drafts.shown
    assert any(text.startswith("because so") for text in answer.texts)


def test_an_answer_that_cannot_be_sent_at_once_comes_later_and_once() -> None:
    """The message above would be gone, and the answer lost or sent twice."""

    def away(service: FakeChat) -> None:
        service.failures += [ChatUnavailable("the network is away")] * 2

    [answer] = asked(Drafts(), then=away).messages.values()
    assert answer.contents[-1].buttons[0][0].command == "again"


@pytest.mark.parametrize(("chat", "messages"), [("1", 1), ("g1", 2)])
def test_an_answer_that_is_a_new_message_is_announced_by_no_other(chat: str, messages: int) -> None:
    """A person who waited long would be notified twice of one answer."""
    service = asked(Drafts(), chat=chat, service_s=90.0)
    assert len(service.messages) == messages


def test_an_answer_takes_the_place_of_a_message_too_old_to_be_deleted() -> None:
    """Deleting it would be retried for a day and then given up."""

    def keep(service: FakeChat) -> None:
        async def delete(ref: MessageRef) -> None:
            raise ContentRefused(f"message {ref.message} can't be deleted for everyone")

        service.delete = delete  # type: ignore[method-assign]

    [answer] = asked(Drafts(), then=keep).messages.values()
    assert answer.contents[-1].buttons[0][0].command == "again"


@in_virtual_time
async def test_the_message_above_a_draft_never_says_that_the_answer_waits() -> None:
    """After a failed attempt it would say "loading" while the answer grows below it."""
    drafts, world = Drafts(), installation()
    service = FakeChat(limits=replace(LIMITS, draft=drafts.show))
    async with bot(world, service) as running:
        await running.dispatcher.call(service.call("/ask llama why"))
        for attempt in ("first", "second"):
            await until(lambda: bool(world.servers["comfy"].running))
            for count in range(4):
                await _written(running, f"{attempt} try" + " it is" * count)
                await asyncio.sleep(1)
            assert drafts.shown[-1].startswith(attempt)
            [above] = service.messages.values()
            assert above.text == "✍️ llama is writing"
            if attempt == "first":
                world.servers["comfy"].die()
        await quiet(running)
    [answer] = service.messages.values()
    assert answer.contents[-1].buttons[0][0].command == "again"
