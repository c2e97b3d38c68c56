"""The messages of the web chat in memory, for tests of the page that need no database."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

from bot.platforms.web.chat.chat_log import ChatLog, Entry, FileHead, ShownMessage, is_news, text_of
from bot.platforms.web.chat.conversations import (
    MOST,
    ConversationHead,
    Conversations,
    person_of,
    searched,
)
from bot.platforms.web.platform import Web
from queueing.core.requests import File


def web_chat(**settings: Any) -> Web:
    """Return a web chat whose messages last as long as it does."""
    return Web(log=MemoryLog(), **settings)


@dataclass(slots=True)
class _Chat:
    entries: dict[str, Entry] = field(default_factory=dict)  # by message, in the order of `place`
    files: dict[str, File] = field(default_factory=dict)
    name: str = ""
    seen: int = 0

    @property
    def shown(self) -> list[ShownMessage]:
        return [entry.shown for entry in self.entries.values() if entry.shown is not None]

    @property
    def news(self) -> int:
        news = (each.number for each in self.entries.values() if each.shown and is_news(each.shown))
        return max(news, default=0)


class MemoryLog(ChatLog):
    """A log that lasts as long as the test; the contract suite of `ChatLog` runs on it as well."""

    def __init__(self, *, keep: int = 1000) -> None:
        self.id = uuid4().hex
        self._keep = keep
        self._number = 0
        self._chats: dict[str, _Chat] = {}
        self.conversations = _MemoryConversations(self._chats)

    async def put(
        self, chat: str, message: str, at: float, shown: ShownMessage, files: Sequence[File]
    ) -> Entry:
        """Add a message unless it is there."""
        kept = self._chats.setdefault(chat, _Chat())
        if message in kept.entries:
            return kept.entries[message]
        number = self._next()
        entry = Entry(chat=chat, message=message, number=number, place=number, at=at, shown=shown)
        kept.entries[message] = entry
        _replace_files(kept, None, entry, files)
        self._forget_oldest(kept)
        self.conversations.revision += 1
        return entry

    async def edit(
        self, chat: str, message: str, shown: ShownMessage, files: Sequence[File]
    ) -> Entry | None:
        """Make a message show this."""
        old = await self.get(chat, message)
        if old is None or old.shown == shown:
            return old
        kept = self._chats[chat]
        kept.entries[message] = entry = replace(old, number=self._next(), shown=shown)
        _replace_files(kept, old, entry, files)
        self.conversations.revision += 1
        return entry

    async def delete(self, chat: str, message: str) -> None:
        """Leave a mark in place of the message, so that pages learn of its deletion."""
        old = await self.get(chat, message)
        if old is not None:
            kept = self._chats[chat]
            kept.entries[message] = entry = replace(old, number=self._next(), shown=None)
            _replace_files(kept, old, entry, ())
            self.conversations.revision += 1

    async def forget(self, chat: str, messages: Sequence[str]) -> None:
        """Leave a mark in place of each message."""
        for message in messages:
            await self.delete(chat, message)

    async def clear(self, chat: str) -> None:
        """Leave a mark in place of each message."""
        for each in [each for each in self._chats if person_of(each) == person_of(chat)]:
            await self.remove(each)

    async def remove(self, chat: str) -> None:
        """Leave a mark in place of each message."""
        await self.forget(chat, list(self._chats.get(chat, _Chat()).entries))
        self._chats.get(chat, _Chat()).name = ""

    async def get(self, chat: str, message: str) -> Entry | None:
        """Return a message, unless it was deleted."""
        entry = self._chats.get(chat, _Chat()).entries.get(message)
        return entry if entry is not None and entry.shown is not None else None

    async def since(self, chat: str, number: int, limit: int) -> Sequence[Entry]:
        """Return what changed, or the newest messages."""
        entries = self._chats.get(chat, _Chat()).entries.values()
        if number == 0:
            there = [entry for entry in entries if entry.shown is not None][-limit:]
            return sorted(there, key=_by_number)
        return sorted((entry for entry in entries if entry.number > number), key=_by_number)[:limit]

    async def before(self, chat: str, place: int, limit: int) -> Sequence[Entry]:
        """Return earlier messages."""
        entries = self._chats.get(chat, _Chat()).entries.values()
        return [entry for entry in entries if entry.place < place and entry.shown][-limit:]

    async def file(self, chat: str, file: str) -> File | None:
        """Return a file."""
        return self._chats.get(chat, _Chat()).files.get(file)

    async def file_head(self, person: str, file: str) -> FileHead | None:
        """Return a file's properties."""
        for chat, kept in self._chats.items():
            if person_of(chat) == person and file in kept.files:
                found = kept.files[file]
                size = len(found.data)
                return FileHead(chat=chat, name=found.name, mime=found.mime, size=size)
        return None

    async def file_piece(self, chat: str, file: str, start: int, length: int) -> bytes | None:
        """Return some bytes of a file."""
        kept = await self.file(chat, file)
        return None if kept is None else kept.data[start : start + length]

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _forget_oldest(self, kept: _Chat) -> None:
        while len(kept.entries) > self._keep:
            oldest = kept.entries.pop(next(iter(kept.entries)))
            _replace_files(kept, oldest, None, ())


class _MemoryConversations(Conversations):
    """The conversations of a `MemoryLog`."""

    def __init__(self, chats: dict[str, _Chat]) -> None:
        self.revision = 0
        self._chats = chats

    async def newest(self, person: str, limit: int) -> Sequence[ConversationHead]:
        heads = [
            ConversationHead(
                chat=chat,
                name=kept.name,
                at=max(entry.at for entry in kept.entries.values()),
                unread=kept.news if kept.news > kept.seen else 0,
                first=kept.shown[0].model_dump_json(),
            )
            for chat, kept in self._chats.items()
            if person_of(chat) == person and kept.shown
        ]
        return sorted(heads, key=lambda head: (-head.at, head.chat))[:limit]

    async def _with_words(self, person: str, words: str) -> frozenset[str]:
        return frozenset(
            chat
            for chat, kept in self._chats.items()
            if any(words in searched(text_of(shown)) for shown in kept.shown)
        )

    async def rename(self, chat: str, name: str) -> None:
        self._chats.get(chat, _Chat()).name = name
        self.revision += 1

    async def see(self, chat: str) -> None:
        kept = self._chats.get(chat, _Chat())
        kept.seen = kept.news
        self.revision += 1

    async def has_room(self, chat: str) -> bool:
        mine = [each for each in self._chats if person_of(each) == person_of(chat)]
        return chat in mine or len(mine) < MOST

    async def in_work(self, chat: str) -> bool:
        return False


def _by_number(entry: Entry) -> int:
    return entry.number


def _replace_files(
    kept: _Chat, old: Entry | None, new: Entry | None, files: Sequence[File]
) -> None:
    if old is not None and old.shown is not None:
        for shown in old.shown.files:
            kept.files.pop(shown.id, None)
    if new is not None and new.shown is not None:
        ids = (shown.id for shown in new.shown.files)
        kept.files.update(zip(ids, files, strict=True))
