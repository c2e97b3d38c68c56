"""The conversations of the web chat's people: their chats, names, and what is new in them.

A person's first conversation is the chat with the person's id. The chat of another one is
"<person>/<key>", so a configuration's rules for the person apply in all of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bot.platforms.web.chat import sql
from queueing.store.sql.database import Connection, Database

FIRST = "first"  # the key of a person's first conversation
MOST = 500  # conversations of a person
WORDS_KEPT = 4_000  # characters of a message that the search looks at
TAKEN_AT_ONCE = 40  # found conversations


@dataclass(frozen=True, kw_only=True, slots=True)
class ConversationHead:
    """A conversation in a list. `first` is its first message as stored.

    `name` is empty unless the person chose one. `at` is the time of its newest message. `unread` is the
    number of the newest result that the person has not seen, and 0 without one.
    """

    chat: str
    name: str
    at: float
    unread: int
    first: str


def chat_of(person: str, key: str) -> str:
    """Return the chat of a person's conversation."""
    return person if key == FIRST else f"{person}/{key}"


def person_of(chat: str) -> str:
    """Return the id of the person whose chat it is."""
    return chat.partition("/")[0]


def key_of(chat: str) -> str:
    """Return the key of a chat's conversation."""
    return chat.partition("/")[2] or FIRST


def searched(text: str) -> str:
    """Return a text as the search compares it."""
    return text[:WORDS_KEPT].casefold()


class Conversations:
    """Reads and changes the list of a person's conversations. The log's messages create them.

    `revision` grows with every change that a list may show. Calls are durable on return.
    """

    def __init__(self, database: Database) -> None:
        self.revision = 0
        self._database = database

    async def newest(self, person: str, limit: int) -> Sequence[ConversationHead]:
        """Return at most `limit` conversations, the one with the newest message first."""
        rows = await self._database.rows(sql.CONVERSATIONS, (person, limit))
        return list(map(_head, rows))

    async def found(self, person: str, text: str) -> Sequence[ConversationHead]:
        """Return the newest conversations with a text in their name or in a message."""
        wanted = searched(text)
        chats = await self._with_words(person, wanted)
        fits = (
            head
            for head in await self.newest(person, MOST)
            if head.chat in chats or wanted in searched(head.name)
        )
        return [head for head, _ in zip(fits, range(TAKEN_AT_ONCE), strict=False)]

    async def _with_words(self, person: str, words: str) -> frozenset[str]:
        rows = await self._database.rows(sql.CHATS_WITH_WORDS, (person, words))
        return frozenset(chat for (chat,) in rows)

    async def rename(self, chat: str, name: str) -> None:
        """Name a conversation; an empty name removes the earlier one."""
        await self._database.execute(sql.RENAME_CONVERSATION, (name, chat))
        self.revision += 1

    async def see(self, chat: str) -> None:
        """Record that the person has seen what is in a conversation."""
        await self._database.execute(sql.NOTE_SEEN, (chat,))
        self.revision += 1

    async def has_room(self, chat: str) -> bool:
        """Return whether a chat exists or its person may begin another one."""

        def query(connection: Connection) -> bool:
            if connection.execute(sql.HAS_CONVERSATION, (chat,)).fetchone() is not None:
                return True
            (count,) = connection.execute(sql.COUNT_CONVERSATIONS, (person_of(chat),)).fetchone()
            return int(count) < MOST

        return await self._database.read(query)

    async def in_work(self, chat: str) -> bool:
        """Return whether a job whose message is in the chat has not been delivered yet."""
        return await self._database.row(sql.IN_WORK, (chat,)) is not None


def _head(row: tuple[str, str, float, int, str]) -> ConversationHead:
    chat, name, at, unread, first = row
    return ConversationHead(chat=chat, name=name, at=at, unread=unread, first=first)
