"""The platform of `usher demo --say`: sends its lines and shows their results.

A terminal shows each message in its place, in its latest state. Other outputs receive the first and
the last state of each message. Results are saved if an output folder is named.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from rich.console import Group
from rich.live import Live
from rich.text import Text

from bot.app.console import Cropped, console
from bot.app.logs import harmless
from bot.core.content import Content
from bot.core.platform import ChatLimits, CommandHandler, Invocation, MessageRef
from bot.platforms.web.chat.renderer import split_command
from bot.texts.catalogue import dated, plain

_CHAT = "you"
_USER = "demo:you"

CANCEL = "cancel"  # the command of a button that only messages of open jobs have


class Show(Protocol):
    """Shows the state of a named item; it is `passing` if another will follow."""

    def __call__(self, name: str, state: str, *, passing: bool = False) -> None:
        """Show a state. Raises `OSError` if nobody reads any more."""


@contextmanager
def display() -> Iterator[Show]:
    """Yield a function that shows states: in place on a terminal, otherwise one after another."""
    out = console()
    if not out.is_interactive:
        yield _Printer()
        return
    states: dict[str, Text] = {}
    with Live(console=out, auto_refresh=False) as live:

        def show(name: str, state: str, *, passing: bool = False) -> None:  # noqa: ARG001  # all are
            states[name] = Text(harmless(state))
            live.update(Cropped(Group(*states.values()), latest=True), refresh=True)

        try:
            yield show
        finally:  # lets the person scroll back to what did not fit the screen
            live.update(Group(*states.values()))


class _Printer:
    """Prints the first state of each item, and then those that no other will follow."""

    def __init__(self) -> None:
        self._begun: set[str] = set()

    def __call__(self, name: str, state: str, *, passing: bool = False) -> None:
        if passing and name in self._begun:
            return
        self._begun.add(name)
        print(harmless(state), flush=True)


class Transcript:
    """A chat of one scripted person. Implements `ChatPlatform`.

    `failed` says whether a line was refused or a file could not be saved. `unread` is set once the
    output has lost its reader.
    """

    name = "demo"
    limits = ChatLimits(
        text=100_000,
        caption=100_000,
        upload=1_000_000_000,
        image=1_000_000_000,
        download=1_000_000_000,
        edit_every_s=0.2,
        chat_every_s=0.0,
        overall_per_s=1000.0,
        pings=False,
    )

    def __init__(self, lines: Sequence[str], *, out: Path | None, show: Show) -> None:
        self.connected = asyncio.Event()
        self.connected.set()
        self._lines = tuple(lines)
        self._out = out
        self._show = show
        self._count = 0
        self._last: dict[str, str] = {}
        self.failed = False
        self.all_said, self.unread = asyncio.Event(), asyncio.Event()

    async def run(self, handler: CommandHandler) -> None:
        """Send every line, each after the previous one was answered, then wait until cancelled."""
        for number, line in enumerate(self._lines, start=1):
            self._tell(f"> {number}", f"> {line}")
            answered = asyncio.Event()
            await handler.call(self._invocation(number, line, answered))
            await answered.wait()
        self.all_said.set()
        await asyncio.Event().wait()

    def _invocation(self, number: int, line: str, answered: asyncio.Event) -> Invocation:
        async def respond(content: Content, private: bool) -> MessageRef | None:
            self.failed |= content.refused
            ref = await self.send(_CHAT, content)
            answered.set()
            return None if private else ref

        command, text = split_command(line)
        return Invocation(
            key=f"demo:{number}",
            platform=self.name,
            user=_USER,
            user_name="you",
            chat=_CHAT,
            group=False,
            command=command,
            text=text,
            respond=respond,
        )

    async def send(
        self,
        chat: str,
        content: Content,
        *,
        reply_to: MessageRef | None = None,  # noqa: ARG002  # a transcript has no threads
        nonce: str | None = None,  # noqa: ARG002  # showing cannot fail half-way
    ) -> MessageRef:
        """Show a new message."""
        self._count += 1
        ref = MessageRef(platform=self.name, chat=chat, message=str(self._count))
        await self.edit(ref, content)
        return ref

    async def edit(self, ref: MessageRef, content: Content) -> None:
        """Show a message's new state if it differs from the previous one."""
        saved = [await self._save(ref, file.name, file.data) for file in content.files]
        text = "\n".join([plain(dated(content.body, time.time()), local=True), *saved]).strip()
        if self._last.get(ref.message) == text:
            return
        self._last[ref.message] = text
        passing = any(button.command == CANCEL for row in content.buttons for button in row)
        state = f"[{ref.message}] " + text.replace("\n", "\n    ")
        self._tell(ref.message, state, passing=passing)

    def _tell(self, name: str, state: str, *, passing: bool = False) -> None:
        try:
            self._show(name, state, passing=passing)
        except OSError:  # for example `| head`: the reader has stopped reading
            self.unread.set()

    async def _save(self, ref: MessageRef, name: str, data: bytes) -> str:
        if self._out is None:
            return f"({name}, {len(data)} bytes)"
        path = self._out / f"{ref.message}-{Path(name).name}"
        try:
            await asyncio.to_thread(path.write_bytes, data)
        except OSError as error:
            self.failed = True
            return f"({path} cannot be written: {error.strerror})"
        return f"({path})"

    async def delete(self, ref: MessageRef) -> None:
        """Show that a message was deleted."""
        self._tell(ref.message, f"[{ref.message}] (deleted)")

    async def check(self) -> str:
        """Return the speaker's name."""
        return "a transcript"

    def is_group(self, chat: str) -> bool:  # noqa: ARG002  # the protocol's signature
        """Return False: there is only one person."""
        return False
