"""The web chat of a trial: its people, who write and press on their own pages, and what they see.

One is the operator, who has the token of the configuration and invites the other by chat.
"""

import asyncio
import re
from collections.abc import Iterator
from random import Random
from typing import Any, Self

from tests.chaos.people.chats import Asked, Seen, Words
from tests.chaos.people.crowd import STOPPING
from tests.chaos.people.page import Entry, Page
from tests.chaos.servers import number_in
from tests.fakes.ports import port_of

TOKEN = "the-operators-own-token"
INVITED = "Ada"
ANSWERED_WITHIN_S = 3.0  # an answer without a result may be lost with a run
SAME_WITHIN_S = 10.0
NOT_STORED = "not-stored"
_KEY = re.compile(r"ush_[\w-]{43}")
_LINK = re.compile(r"\?token=([\w-]+)")


class OnWeb:
    """People on pages: "web local", and "web ada" as soon as she has her link."""

    keeps_calls = True

    def __init__(self, random: Random, *, database_goes: bool = False) -> None:
        self._excused = {"button-gone", *([NOT_STORED] if database_goes else [])}
        self.port = port_of(self)
        self._random = random
        self._tokens = {"local": lambda: TOKEN, "ada": self._newest_link}
        self.pages = {name: self._page(name) for name in self._tokens}
        self._tasks: list[asyncio.Task[None]] = []
        self._link: str | None = None
        self._key: str | None = None

    def _page(self, name: str) -> Page:
        return Page(f"http://127.0.0.1:{self.port}/", self._tokens[name], self._random)

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(page.run()) for page in self.pages.values()]
        self._tasks.append(asyncio.create_task(self._invite()))
        self._tasks.append(asyncio.create_task(self._make_key()))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _invite(self) -> None:
        """Ask for the other person's link until it is there."""
        local = self.pages["local"]
        while self._newest_link() is None:
            if not local.outbox:
                local.say(f"/invite {INVITED}")
            await asyncio.sleep(ANSWERED_WITHIN_S)

    def _newest_link(self) -> str | None:
        """Return the token of the newest link that the operator has seen; she keeps it."""
        found = (_LINK.search(text_of(entry)) for entry in _in_order(self.pages["local"]))
        self._link = next((link[1] for link in reversed(list(found)) if link), self._link)
        return self._link

    async def _make_key(self) -> None:
        """Ask for an API key until there is one."""
        local = self.pages["local"]
        while self.key() is None:
            if not local.outbox:
                local.say("/key new")
            await asyncio.sleep(ANSWERED_WITHIN_S)

    def key(self) -> str | None:
        """Return the operator's newest API key, or None."""
        found = (_KEY.search(text_of(entry)) for entry in _in_order(self.pages["local"]))
        self._key = next((key[0] for key in reversed(list(found)) if key), self._key)
        return self._key

    # ------------------------------------------------------------ as the crowd uses it

    def is_there(self) -> bool:
        return True

    def someone(self, number: int, *, in_group: bool) -> tuple[Any, str]:
        name = "ada" if number % 2 and self._newest_link() else "local"
        return self.pages[name], f"web {name}"

    async def ask(self, request: Asked, words: Words) -> None:
        options = "".join(f" --{name} {value}" for name, value in words.options.items())
        request.call = request.person.say(f"/{words.command} {words.model} {words.prompt}{options}")

    def replies(self, request: Asked) -> list[Seen]:
        page: Page = request.person
        if page.refused.get(request.call) == NOT_STORED:
            return [Seen(chat=request.chat, text=STOPPING, images=(), buttons=(), raw=None)]
        return [
            self._seen(request.chat, page, entry)
            for entry in _in_order(page)
            if entry["shown"]["author"] == "usher" and _answers(page, entry, request)
        ]

    async def press_cancel(self, request: Asked, message: Seen) -> None:
        rows = message.raw["shown"]["buttons"]
        buttons = [each for row in rows for each in row if each["label"] == "Cancel"]
        assert buttons, "it went at the last moment"
        request.person.press(message.raw["message"], buttons[0])

    def everything(self) -> Iterator[Seen]:
        for name, page in self.pages.items():
            for entry in _in_order(page):
                if entry["shown"]["author"] == "usher":
                    yield self._seen(f"web {name}", page, entry)

    def unread(self) -> int:
        return sum(1 + len(page.outbox) for page in self.pages.values() if not page.is_settled)

    def _seen(self, chat: str, page: Page, entry: Entry) -> Seen:
        files = (page.files.get(file["id"]) for file in entry["shown"]["files"])
        return Seen(
            chat=chat,
            text=text_of(entry),
            images=tuple(data for data in files if data is not None),
            buttons=tuple(each["label"] for row in entry["shown"]["buttons"] for each in row),
            raw=entry,
        )

    # ------------------------------------------------------------ once all is quiet

    async def last_look(self) -> list[str]:
        """Return a sentence for each page that differs from a new page of the same person.

        The pages then stay as they are.
        """
        faults = []
        for name, page in self.pages.items():
            new = self._page(name)
            task = asyncio.create_task(new.run())
            try:
                async with asyncio.timeout(SAME_WITHIN_S):
                    while not (new.is_settled and new.entries == _kept(page)):  # noqa: ASYNC110
                        await asyncio.sleep(0.05)
            except TimeoutError:
                different = _differing(_kept(page), new.entries)
                faults.append(f"the page of {name} is not as a new one, in {different}")
            task.cancel()
            await asyncio.wait([task])
            refused = {k: why for k, why in page.refused.items() if why not in self._excused}
            faults += [
                f"the page of {name} was refused {key}: {why}" for key, why in refused.items()
            ]
        await self._close()
        broken = [task for task in self._tasks if task.done() and not task.cancelled()]
        faults += [
            f"a page broke down: {error!r}" for each in broken if (error := each.exception())
        ]
        return faults


def _kept(page: Page) -> dict[str, Entry]:
    """Return a page's contents without what is only shown once and not stored, such as a key."""
    return {name: entry for name, entry in page.entries.items() if not name.startswith("once-")}


def _differing(one: dict[str, Entry], other: dict[str, Entry]) -> list[tuple[Any, Any]]:
    keys = [key for key in one | other if one.get(key) != other.get(key)]
    return [(one.get(key), other.get(key)) for key in keys]


def _answers(page: Page, entry: Entry, request: Asked) -> bool:
    """Return whether a message answers a request: by the job of its buttons or by its text."""
    job = page.jobs.get(entry["message"])
    if job is not None and request.job is not None:
        return job == request.job
    return number_in(text_of(entry)) == request.number


def _in_order(page: Page) -> list[Entry]:
    return sorted(page.entries.values(), key=lambda entry: entry["place"])


def text_of(entry: Entry) -> str:
    """Return the text that a message shows."""
    return "".join(part.get("text", "<moment>") for part in entry["shown"]["body"])
