"""Many people in the chats who ask, cancel, and see results.

What became of each request is read only from the chats, as a person would.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from random import Random

from tests.chaos.people.chats import Asked, Chats, Seen, Words
from tests.chaos.people.program_media import STAND_INS

MOST_OPEN = 24  # requests; the backlog of a slow machine must not keep growing
STOPPING = "Nothing was accepted; please try again"
CANCELS = 0.08
IN_GROUP = 0.04

NumberOf = Callable[[Seen], int | None]
"""Tells whose result a message shows, None where it shows none."""


class Crowd:
    """People who keep asking until they are told to stop.

    `database_goes`: without the database nothing is accepted in any chat, and people are told so.
    """

    def __init__(
        self,
        chats: Sequence[Chats],
        random: Random,
        words: Callable[[Random, int], Words],
        *,
        database_goes: bool = False,
    ) -> None:
        self.database_goes = database_goes
        self._chats = chats
        self._random = random
        self._words = words
        self._numbers = 0
        self.ended = 0  # of what was asked, as far as is known
        self.asked: list[Asked] = []
        self.unheard = 0  # calls that reached no one: the person was told so

    async def go_on(self, pause_s: float, most: int) -> None:
        """Ask at random moments, on average once in this many seconds, at most `most` times."""
        async with asyncio.TaskGroup() as group:
            while self._numbers < most:
                if len(self.asked) - self.ended < MOST_OPEN:
                    request = await self._ask()
                    if request is not None and self._random.random() < CANCELS:
                        group.create_task(self._cancel(request))
                await asyncio.sleep(self._random.expovariate(1 / pause_s))

    async def _ask(self) -> Asked | None:
        # The platform that is away most often counts twice: so all are asked about as much.
        there = [each for each in (*self._chats, self._chats[-1]) if each.is_there()]
        chats = self._random.choice(there)
        self._numbers += 1
        words = self._words(self._random, self._numbers)
        in_group = self._random.random() < IN_GROUP
        person, chat = chats.someone(self._random.randrange(100), in_group=in_group)
        request = Asked(
            number=self._numbers, model=words.model, chats=chats, person=person, chat=chat
        )
        try:
            await chats.ask(request, words)
        except (ConnectionError, TimeoutError):
            self.unheard += 1
            return None
        self.asked.append(request)
        return request

    async def _cancel(self, request: Asked) -> None:
        """Press Cancel some time after the button appears, if it is still shown then."""
        # It was never shown in time, or is gone at the last moment, or no one is there to hear it.
        with suppress(AssertionError, ConnectionError, TimeoutError):
            async with asyncio.timeout(20):
                while not _with_button(request):  # noqa: ASYNC110  two fakes, one look
                    await asyncio.sleep(0.05)
            await asyncio.sleep(self._random.choice([0.0, 0.2, 1.0]))
            for message in _with_button(request):
                request.pressed = True
                await request.chats.press_cancel(request, message)

    def know(self, jobs: dict[int, int]) -> None:
        """Record which job each request became."""
        for request in self.asked:
            request.job = jobs.get(request.number)

    def count_out(self, jobs: dict[int, int]) -> None:
        """Record which job each request became; drop those that were never accepted.

        A chat that keeps no calls tells the person at once that no one answered, or a stopping
        program, or one without a database, says so; an answer with a place in the queue counts,
        whatever followed.
        """
        self.know(jobs)
        kept = []
        for request in self.asked:
            ignored = not request.chats.keeps_calls and not replies(request)
            may_be_refused = self.database_goes or not request.chats.keeps_calls
            if request.job is None and (ignored or (may_be_refused and was_refused(request))):
                self.unheard += 1
            else:
                kept.append(request)
        self.asked = kept


def _with_button(request: Asked) -> list[Seen]:
    return [message for message in replies(request) if "Cancel" in message.buttons]


def replies(request: Asked) -> list[Seen]:
    """Return what the bot wrote in answer to a request."""
    return request.chats.replies(request)


def results(request: Asked, number_of: NumberOf) -> list[Seen]:
    """Return the messages that show a result, of whichever owner, in answer to a request."""
    return [message for message in replies(request) if number_of(message) is not None]


def was_refused(request: Asked) -> bool:
    """Return whether a person was only told that nothing was accepted."""
    told = replies(request)
    return bool(told) and all(STOPPING in message.text for message in told)


def was_cancelled(request: Asked) -> bool:
    """Return whether a request was ended by its button, as its chat shows."""
    ended = [message.text.casefold() for message in replies(request)]
    return request.pressed and any("cancelled" in text or "stopped" in text for text in ended)


def has_ended(request: Asked, number_of: NumberOf) -> bool:
    """Return whether a person has what they asked for, or was told that it was cancelled."""
    return bool(results(request, number_of)) or was_cancelled(request) or was_given_up(request)


def was_given_up(request: Asked) -> bool:
    """Return whether a demo server's job was given up as interrupted too often.

    It dies with the program each time; other servers go on, and their work is found again.
    """
    told = [message.text for message in replies(request)]
    often = any("kept being interrupted" in text for text in told)
    return often and request.model in STAND_INS


def strangers(chats: Sequence[Chats], asked: Sequence[Asked], number_of: NumberOf) -> Iterator[str]:
    """Yield a line for every result that appears where no one asked for it."""
    belongs: Counter[tuple[int, int]] = Counter()
    for request in asked:
        belongs.update((id(seen.raw), request.number) for seen in replies(request))
    for seen in (message for each in chats for message in each.everything()):
        number = number_of(seen)
        if number is not None and not belongs[id(seen.raw), number]:
            yield f"the result of {number} is in {seen.chat}: {seen.text!r}"
