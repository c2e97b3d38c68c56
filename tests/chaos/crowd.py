"""Many people on a fake Telegram who ask, cancel, and see what they are given.

What each request came to is read from the chats alone, as a person would.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random

from tests.chaos.neighbours import is_whole_answer, number_in, number_of_picture
from tests.fakes.telegram import FakeTelegram, Person
from tests.fakes.telegram_state import BOT_ID, FakeChat, FakeMessage

PEOPLE = 16
GROUP = -1001
CANCELS = 0.08
IN_GROUP = 0.04


@dataclass(kw_only=True, eq=False)
class Asked:
    """A request somebody made; `pressed` tells that they pressed Cancel afterwards."""

    number: int
    model: str
    person: Person
    chat: FakeChat
    message: FakeMessage
    pressed: bool = False


class Crowd:
    """People who go on asking until they are told to stop."""

    def __init__(
        self, telegram: FakeTelegram, random: Random, pictures: Sequence[str], texts: Sequence[str]
    ) -> None:
        self._telegram = telegram
        self._random = random
        self._commands = [(f"/image {name}", name) for name in pictures]
        self._commands += [(f"/ask {name}", name) for name in texts]
        self._group = telegram.group(GROUP)
        self._people = [telegram.person(number) for number in range(1, PEOPLE + 1)]
        self.asked: list[Asked] = []

    async def go_on(self, pause_s: float, most: int) -> None:
        """Ask at random moments, on average one request each so many seconds, `most` in all."""
        async with asyncio.TaskGroup() as group:
            while len(self.asked) < most:
                request = self._ask()
                if self._random.random() < CANCELS:
                    group.create_task(self._cancel(request))
                await asyncio.sleep(self._random.expovariate(1 / pause_s))

    def _ask(self) -> Asked:
        number = len(self.asked) + 1
        command, model = self._random.choice(self._commands)
        person = self._random.choice(self._people)
        chat = self._group if self._random.random() < IN_GROUP else person.chat
        message = person.says(f"{command} request number {number}", chat=chat)
        request = Asked(number=number, model=model, person=person, chat=chat, message=message)
        self.asked.append(request)
        return request

    async def _cancel(self, request: Asked) -> None:
        """Press Cancel some time after the button appears, if it still shows then."""
        with suppress(AssertionError):  # it was never shown in time
            await self._telegram.wait_for(lambda: self._with_button(request), timeout_s=20)
            await asyncio.sleep(self._random.choice([0.0, 0.2, 1.0]))
            for message in self._with_button(request):
                request.pressed = True
                request.person.presses(message, "Cancel")

    def _with_button(self, request: Asked) -> list[FakeMessage]:
        return [
            message
            for message in replies(request)
            if any(button.label == "Cancel" for button in message.buttons)
        ]


def replies(request: Asked) -> list[FakeMessage]:
    """Return what the bot wrote in answer to a request."""
    return [m for m in request.chat.from_bot if m.reply_to == request.message.id]


def results(request: Asked) -> list[FakeMessage]:
    """Return the messages that show a result, whoever's it is, in answer to a request."""
    return [message for message in replies(request) if shown_number(message) is not None]


def shown_number(message: FakeMessage) -> int | None:
    """Return the number of the request whose result a message shows, None where it shows none."""
    if message.file is not None:
        return number_of_picture(message.file.data)
    if is_whole_answer(message.shown):
        return number_in(message.shown.partition("This answers")[2])
    return None


def was_cancelled(request: Asked) -> bool:
    """Return whether a request was ended by its button, as its chat shows."""
    ended = [m.shown.casefold() for m in replies(request)]
    return request.pressed and any("cancelled" in text or "stopped" in text for text in ended)


def has_ended(request: Asked) -> bool:
    """Return whether a person has what they asked for, or the word that it was cancelled."""
    return bool(results(request)) or was_cancelled(request)


def strangers(chats: Sequence[FakeChat], asked: Sequence[Asked]) -> Iterator[str]:
    """Yield a line for every result that is where nobody asked for it."""
    by_message = {request.message.id: request for request in asked}
    for chat in chats:
        for message in chat.messages:
            number = shown_number(message) if message.sender == BOT_ID else None
            if number is None:
                continue
            request = by_message.get(message.reply_to or 0)
            if request is None or request.number != number or request.chat is not chat:
                yield f"the result of {number} is in chat {chat.id}: {message.shown!r}"
