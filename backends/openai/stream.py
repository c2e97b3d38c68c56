"""Reads a streamed chat completion: server-sent events in, the answer so far out. Pure.

One reader serves all servers; it handles what they have been seen to send (see the tests) and never
decides what an error means: that is up to `errors`.
"""

from pydantic import JsonValue, ValidationError

from backends.common.replies import ServerReply
from queueing.core.errors import Unavailable

ANSWER_LIMIT = 400_000  # characters; a model that repeats itself endlessly is stopped here
PLAIN_LIMIT = 1_000_000  # characters of an answer that is not an event stream
THINK, THOUGHT = "<think>", "</think>"


class Piece(ServerReply):
    """The newest piece of an answer, or a whole one; reasoning has two names."""

    content: JsonValue = None
    reasoning_content: JsonValue = None
    reasoning: JsonValue = None

    @property
    def text(self) -> str:
        """The visible part; some servers send null or parts here."""
        return self.content if isinstance(self.content, str) else ""

    @property
    def thinks(self) -> bool:
        """Whether it holds reasoning."""
        return bool(self.reasoning_content or self.reasoning)


class Choice(ServerReply):
    """One alternative; only the first is asked for."""

    delta: Piece | None = None
    message: Piece | None = None
    text: JsonValue = None  # of a completion of a prompt
    finish_reason: str | None = None


class Chunk(ServerReply):
    """One event of a stream, or a whole answer to a request that was not streamed."""

    model: str | None = None
    choices: tuple[Choice, ...] | None = None
    error: JsonValue = None


class StreamError(Exception):
    """The server reported an error inside its 200 answer; `body` is its text."""

    def __init__(self, body: JsonValue) -> None:
        super().__init__("error inside the stream")
        self.body = body


class Garbage(Unavailable):
    """The server streamed something that is not an answer."""


class AnswerReader:
    """Takes the lines of a response one by one and holds the answer so far.

    `finished` is the server's reason for the end ("stop", "length"), None until it is given;
    `model` is the name of the model that answers; `ended` means that further lines do not matter;
    `silent` that no event came; `thinks` that reasoning was left out.
    """

    def __init__(self) -> None:
        self.finished: str | None = None
        self.model: str | None = None
        self.ended = False
        self.silent = True
        self.thinks = False
        self._parts: list[str] = []
        self._length = 0
        self._plain: list[str] = []
        self._plain_length = 0

    @property
    def text(self) -> str:
        """The visible answer so far, without a leading block of reasoning."""
        return without_thoughts("".join(self._parts), over=self.finished is not None)

    def feed(self, line: str) -> bool:
        """Take one line; return whether it is a sign of progress.

        Raises `StreamError` for an error event, `Garbage` for anything that is no event.
        """
        name, colon, value = line.partition(":")
        if not line or not name or self.ended:  # a line that begins with a colon is a comment
            return False
        value = value.removeprefix(" ")
        match name:
            case "data" if colon:
                return self._event(value)
            case "error" if colon:  # llama.cpp before 2025-08 named errors this way
                raise StreamError(value)
            case "event" | "id" | "retry" if colon:
                return False
        return self._keep(line)

    def take_chunks(self) -> tuple[str, ...]:
        """Return nothing: the text so far is what is reported."""
        return ()

    def close(self) -> None:
        """Note the end of the stream; an answer that was not streamed is read now.

        Raises the same errors as `feed`.
        """
        if self._plain and self.silent:
            self._take("\n".join(self._plain))

    def _event(self, data: str) -> bool:
        if data.strip() == "[DONE]":
            self.ended = True
            return False
        return self._take(data)

    def _take(self, data: str) -> bool:
        try:
            chunk = Chunk.model_validate_json(data)
        except ValidationError:
            raise Garbage(f"the server streamed garbage: {data[:200]!a}") from None
        if chunk.error:
            raise StreamError(chunk.error)
        self.silent = False
        self.model = chunk.model or self.model
        self._keep_chunk(data)
        if not chunk.choices:  # the usage chunk has none
            return False
        return self._choice(chunk.choices[0])

    def _keep_chunk(self, data: str) -> None:
        """Keep an event as it came; here for `PassedOnReader`."""

    def _choice(self, choice: Choice) -> bool:
        piece = choice.delta or choice.message or Piece(content=choice.text)
        self.finished = choice.finish_reason or self.finished
        self.thinks = self.thinks or piece.thinks
        self._say(piece.text)
        return bool(piece.text or piece.thinks)

    def _say(self, text: str) -> None:
        self._parts.append(text)
        self._length += len(text)
        if self._length > ANSWER_LIMIT:
            self.finished, self.ended = "length", True

    def _keep(self, line: str) -> bool:
        """Keep a line that is no event: LM Studio sends errors as plain JSON with status 200."""
        self._plain_length += len(line)
        if self._plain_length > PLAIN_LIMIT:
            raise Garbage("the server answered something that is no event stream")
        self._plain.append(line)
        return False


def without_thoughts(content: str, *, over: bool = True) -> str:
    """Return the answer without the reasoning that some servers leave in front of it.

    `over` means that nothing more will come; before that, text that may still become a block of
    reasoning is withheld.
    """
    text = content.lstrip()
    if text.startswith(THINK):
        return text.partition(THOUGHT)[2].lstrip()
    if not over and THINK.startswith(text):
        return ""
    # Templates that end in "<think>" leave only the closing tag to the model; on a line of its
    # own it is not a quotation.
    before, tag, after = text.partition(f"\n{THOUGHT}\n")
    return after.lstrip() if tag and THINK not in before else text
