"""Turns what a person types or presses on the page into calls, each exactly once.

Knows nothing of HTTP. A page resends anything not confirmed; equal keys mean the same call.
"""

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from uuid import uuid4

from bot.core.asker import Asker
from bot.core.attachments import AttachmentKind, kind_of
from bot.core.errors import ChatError
from bot.core.live_settings import LiveSettings
from bot.core.platform import Attachment, CommandHandler, Invocation, MessageRef, Respond, ShowForm
from bot.http.clients import TokenBucket, sparing
from bot.people.upload_quota import Received
from bot.people.web_people import WebPerson
from bot.platforms.web.chat.chat_log import (
    ChatLog,
    ShownButton,
    ShownFile,
    ShownMessage,
    TextPart,
    text_of,
)
from bot.platforms.web.chat.conversations import FIRST, ConversationHead, chat_of
from bot.platforms.web.chat.protocol import (
    MAX_FILES,
    NotTaken,
    PressFrame,
    Remove,
    Rename,
    Say,
    Submit,
    TakenFrame,
)
from bot.platforms.web.chat.renderer import shown_file, split_command
from queueing.core.errors import Fenced, StoreError
from queueing.core.ports import Clock
from queueing.core.requests import File

_log = sparing(logging.getLogger(__name__))

DONE_KEPT = 200  # calls per person; a page repeats only its newest ones
CALLS_PER_S = 2.0
CALLS_BURST = 20
UPLOADS_KEPT_BYTES = 256 * 1024 * 1024  # for all people together


@dataclass(slots=True)
class _Caller:
    """A person's recent calls and their rate limit.

    The lock keeps one person's calls in order, and makes a repeated call wait for the first.
    """

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    searching: asyncio.Lock = field(default_factory=asyncio.Lock)
    bucket: TokenBucket = field(
        default_factory=lambda: TokenBucket(per_s=CALLS_PER_S, burst=CALLS_BURST)
    )
    done: OrderedDict[str, None] = field(default_factory=OrderedDict)

    def remember(self, key: str) -> None:
        self.done[key] = None
        if len(self.done) > DONE_KEPT:
            self.done.popitem(last=False)


class Calls:
    """Makes calls for the people of one web chat. Calls `posted` for each chat with a new message.

    `respond` creates the function that answers a call, from a chat and the call's key.
    """

    def __init__(
        self,
        *,
        platform: str,
        handler: CommandHandler,
        log: ChatLog,
        clock: Clock,
        respond: Callable[[str, str], Respond],
        posted: Callable[[str], None],
        received: Received | None = None,
    ) -> None:
        self.handler = handler
        self.log = log
        self.platform = platform
        self._clock = clock
        self._respond = respond
        self._posted = posted
        self._received = received or Received(LiveSettings(), clock)
        self._callers: dict[str, _Caller] = {}
        self._uploads: OrderedDict[tuple[str, str], File] = OrderedDict()

    def allowed(self, person: WebPerson) -> bool:
        """Count one more call or upload of a person. Returns False if they come too fast."""
        return self._caller(person).bucket.take(asyncio.get_running_loop().time())

    async def language_of(self, person: WebPerson) -> str | None:
        """Return the language a person chose, or None."""
        return await self.handler.language_of(self.user(person))

    def user(self, person: WebPerson) -> str:
        """Return a person's user id, such as "web:ada"."""
        return f"{self.platform}:{person.id}"

    def asker(self, person: WebPerson) -> Asker:
        """Return a person in their chat, which has the same name."""
        user = self.user(person)
        return Asker(user=user, rooms=(user, self.platform))

    async def say(
        self, person: WebPerson, say: Say, language: str | None, show_form: ShowForm
    ) -> TakenFrame | NotTaken:
        """Show a person's text in their chat and run it.

        Idempotent by `say.key`: within this process no call runs twice, and after a restart the
        call has the same key as before.
        """
        caller = self._caller(person)
        async with caller.lock:
            if say.key in caller.done:
                return TakenFrame(key=say.key)
            shown = await self._put_line(person, say)
            if isinstance(shown, NotTaken):
                return shown
            call = self._line_call(person, say, shown, language)
            chat = chat_of(person.id, say.conversation)
            quoted, files = await self._replied_to(chat, say.reply_to)
            files = (*call.files, *files)
            await self.handler.call(replace(call, show_form=show_form, quoted=quoted, files=files))
            caller.remember(say.key)
            return TakenFrame(key=say.key)

    async def press(
        self, person: WebPerson, press: PressFrame, language: str | None, show_form: ShowForm
    ) -> TakenFrame | NotTaken:
        """Run a button's command in the person's conversation. Idempotent by `press.key`."""
        caller = self._caller(person)
        async with caller.lock:
            if press.key in caller.done:
                return TakenFrame(key=press.key)
            if not await self._has_button(chat_of(person.id, press.conversation), press):
                return NotTaken(key=press.key, reason="button-gone")
            if not self.allowed(person):
                return NotTaken(key=press.key, reason="too-fast")
            call = self._press_call(person, press, language)
            await self.handler.call(replace(call, show_form=show_form))
            caller.remember(press.key)
            return TakenFrame(key=press.key)

    async def submit(
        self,
        person: WebPerson,
        submit: Submit,
        language: str | None,
        changed: Callable[[Invocation], Invocation] = lambda call: call,
    ) -> TakenFrame | NotTaken:
        """Run a submitted form, as `changed` returns its call. Idempotent by `submit.key`.

        A form can do no more than a typed command, because the handler checks its values in the
        same way.
        """
        caller = self._caller(person)
        async with caller.lock:
            if submit.key in caller.done:
                return TakenFrame(key=submit.key)
            if not self.allowed(person):
                return NotTaken(key=submit.key, reason="too-fast")
            chat = chat_of(person.id, submit.conversation)
            if not await self.log.conversations.has_room(chat):
                return NotTaken(key=submit.key, reason="too-many")
            await self.handler.call(changed(self._form_call(person, submit, language)))
            caller.remember(submit.key)
            return TakenFrame(key=submit.key)

    def reading(self, person: WebPerson, command: str, language: str | None) -> Invocation:
        """Return a call that only reads what its command would show."""
        return self._call(person, uuid4().hex, FIRST, command, language)

    async def rename(self, person: WebPerson, rename: Rename) -> TakenFrame | NotTaken:
        """Name a conversation."""
        if not self.allowed(person):
            return NotTaken(key=rename.key, reason="too-fast")
        chat = chat_of(person.id, rename.conversation)
        await self.log.conversations.rename(chat, " ".join(rename.name.split()))
        self._posted(chat)
        return TakenFrame(key=rename.key)

    async def remove(self, person: WebPerson, remove: Remove) -> TakenFrame | NotTaken:
        """Delete a conversation, unless one of its jobs still has a message to change."""
        if not self.allowed(person):
            return NotTaken(key=remove.key, reason="too-fast")
        chat = chat_of(person.id, remove.conversation)
        if await self.log.conversations.in_work(chat):
            return NotTaken(key=remove.key, reason="in-work")
        await self.log.remove(chat)
        self._posted(chat)
        return TakenFrame(key=remove.key)

    async def see(self, person: WebPerson, chat: str) -> None:
        """Record that a person has seen a conversation, and notify their other pages."""
        if self.allowed(person):
            await self.log.conversations.see(chat)
            self._posted(chat)

    async def find(self, person: WebPerson, text: str) -> Sequence[ConversationHead]:
        """Return the conversations with a text. A person's pages search one after the other."""
        async with self._caller(person).searching:
            return await self.log.conversations.found(person.id, text)

    async def answer_to(self, person: WebPerson, key: str) -> ShownMessage | None:
        """Return the current answer to a call in the person's first conversation, if any."""
        entry = await self.log.get(person.id, answer_id(self._call_key(person, key)))
        return None if entry is None else entry.shown

    def upload(self, person: WebPerson, file: File) -> str:
        """Keep a file until the person's next message uses it. Returns its id."""
        upload = uuid4().hex
        self._uploads[person.id, upload] = file
        own = [key for key in self._uploads if key[0] == person.id]
        for key in own[:-MAX_FILES]:
            del self._uploads[key]
        while (sizes := self._upload_sizes()).total() > UPLOADS_KEPT_BYTES:
            ((largest, _),) = sizes.most_common(1)
            del self._uploads[next(key for key in self._uploads if key[0] == largest)]
        return upload

    def _upload_sizes(self) -> Counter[str]:
        """Return the bytes of each person's uploads. The largest total is dropped first."""
        sizes: Counter[str] = Counter()
        for (person, _), file in self._uploads.items():
            sizes[person] += len(file.data)
        return sizes

    def _caller(self, person: WebPerson) -> _Caller:
        return self._callers.setdefault(person.id, _Caller())

    async def _put_line(self, person: WebPerson, say: Say) -> ShownMessage | NotTaken:
        chat = chat_of(person.id, say.conversation)
        there = await self.log.get(chat, line_id(say.key))
        if there is not None and there.shown is not None:
            # Sent before a restart without being confirmed.
            return there.shown
        keys = [(person.id, upload) for upload in say.uploads]
        if not say.text.strip() and not keys:
            return NotTaken(key=say.key, reason="empty")
        if any(key not in self._uploads for key in keys):
            return NotTaken(key=say.key, reason="upload-gone")
        if not self.allowed(person):
            return NotTaken(key=say.key, reason="too-fast")
        if not await self.log.conversations.has_room(chat):
            return NotTaken(key=say.key, reason="too-many")
        return await self._store_line(person, say, keys)

    async def _store_line(
        self, person: WebPerson, say: Say, uploads: list[tuple[str, str]]
    ) -> ShownMessage | NotTaken:
        chat, message = chat_of(person.id, say.conversation), line_id(say.key)
        files = [self._uploads[key] for key in uploads]
        size = sum(len(file.data) for file in files)
        if self._received.fits_at(person.id, size) is not None:
            return NotTaken(key=say.key, reason="too-much")
        shown = await asyncio.to_thread(_shown_line, chat, message, say, files)
        try:
            await self.log.put(chat, message, self._clock.now(), shown, files)
        except Fenced:
            raise  # the page repeats it to the process that now serves the chat
        except StoreError:
            _log.exception("web chat: could not store a message from %s", person.id)
            return NotTaken(key=say.key, reason="not-stored")
        self._received.note(person.id, size)
        for key in uploads:  # only after storing, because until then the page may retry
            self._uploads.pop(key, None)
        self._posted(chat)
        return shown

    def _line_call(
        self, person: WebPerson, say: Say, shown: ShownMessage, language: str | None
    ) -> Invocation:
        command, text = split_command(say.text)
        call = self._call(person, say.key, say.conversation, command, language)
        return replace(
            call,
            text=text,
            files=tuple(self._attachment(call.chat, file) for file in shown.files),
            request=self._ref(call.chat, line_id(say.key)),
            replied_to=self._ref(call.chat, say.reply_to) if say.reply_to else None,
        )

    def _press_call(self, person: WebPerson, press: PressFrame, language: str | None) -> Invocation:
        call = self._call(person, press.key, press.conversation, press.command, language)
        return replace(
            call,
            options={"id": press.job} | ({} if press.number is None else {"number": press.number}),
            replied_to=self._ref(call.chat, press.message),
            button=True,
        )

    def _form_call(self, person: WebPerson, submit: Submit, language: str | None) -> Invocation:
        call = self._call(person, submit.key, submit.conversation, submit.command, language)
        return replace(
            call,
            options={**submit.values, **({} if submit.job is None else {"id": submit.job})},
            form=True,
        )

    def _call(
        self, person: WebPerson, key: str, conversation: str, command: str, language: str | None
    ) -> Invocation:
        key, chat = self._call_key(person, key), chat_of(person.id, conversation)
        return Invocation(
            key=key,
            platform=self.platform,
            user=self.user(person),
            user_name=person.name,
            chat=chat,
            group=False,
            command=command,
            language=language,
            respond=self._respond(chat, key),
            lasting=True,
        )

    def _call_key(self, person: WebPerson, key: str) -> str:
        # The page chooses its keys. The person's id in them prevents reuse of someone else's key.
        return f"{self.platform}:{person.id}:{key}"

    def _ref(self, chat: str, message: str) -> MessageRef:
        return MessageRef(platform=self.platform, chat=chat, message=message)

    def _attachment(self, chat: str, file: ShownFile, *, replied: bool = False) -> Attachment:
        async def read() -> bytes:
            kept = await self.log.file(chat, file.id)
            if kept is None:
                raise ChatError(f"file {file.name!r} has been deleted")
            return kept.data

        return Attachment(
            kind=kind_of(file.name, file.mime),
            name=file.name,
            mime=file.mime,
            size=file.size,
            read=read,
            replied=replied,
        )

    async def _replied_to(
        self, chat: str, message: str | None
    ) -> tuple[str, tuple[Attachment, ...]]:
        """Return the text and files of a message that is replied to."""
        entry = await self.log.get(chat, message) if message else None
        shown = entry.shown if entry is not None else None
        if shown is None:
            return "", ()
        files = (self._attachment(chat, file, replied=True) for file in shown.files)
        ours = shown.author == "usher"  # the bot's own long answers, sent as files, are left out
        return text_of(shown), tuple(
            file for file in files if not (ours and file.kind is AttachmentKind.TEXT)
        )

    async def _has_button(self, chat: str, press: PressFrame) -> bool:
        entry = await self.log.get(chat, press.message)
        if entry is None or entry.shown is None:
            return False
        return any(_is(button, press) for row in entry.shown.buttons for button in row)


def line_id(key: str) -> str:
    """Return the id of the message for a person's line.

    The page knows it before the server does.
    """
    return f"line-{key}"


def answer_id(nonce: str) -> str:
    """Return the id of a message sent with a nonce.

    The nonce of a call's first answer is its key.
    """
    return f"msg-{sha256(nonce.encode()).hexdigest()[:20]}"


def _shown_line(chat: str, message: str, say: Say, files: list[File]) -> ShownMessage:
    return ShownMessage(
        author="person",
        body=(TextPart(text=say.text),) if say.text else (),
        files=tuple(shown_file(chat, message, file) for file in files),
        reply_to=say.reply_to,
    )


def _is(button: ShownButton, press: PressFrame) -> bool:
    asked = (press.command, press.job, press.number)
    return (button.command, button.job, button.number) == asked
