"""The messages between the operator's page and the server over its WebSocket.

The page sends a `Submit` for each act and gets `TakenFrame` or `NotTaken`, as the chat page does;
besides these it gets the frames of `OperatorPicture` and the records here.
"""

from pydantic import TypeAdapter

from bot.platforms.web.chat_log import ShownPart
from bot.platforms.web.protocol import Submit
from queueing.core.requests import Record

ACTS = frozenset(
    {"preload", "unload", "pause", "resume", "drain", "move", "cancel", "ban", "unban"}
)
"""The commands that the page has buttons for. It carries out no other."""

FROM_OPERATOR = TypeAdapter(Submit)


class Answered(Record):
    """What a command has answered so far, by the key of its act; a later answer replaces it."""

    type: str = "answer"
    key: str
    body: tuple[ShownPart, ...]


class Readable(Record):
    """Whether everything could be read last time; otherwise the page shows what is older."""

    type: str = "readable"
    readable: bool
