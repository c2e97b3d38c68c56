"""What a person asks for, what a backend receives and what comes back.

Requests are validated records because they are stored as JSON and read back by later versions. They
hold parameters only: picture bytes travel as `File`s beside them.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter

SEED_MAX = 2**64 - 1  # the range of ComfyUI's seed inputs; -1 is refused there


class Capability(StrEnum):
    """What a model can do."""

    TEXT_TO_IMAGE = "text-to-image"
    IMAGE_TO_IMAGE = "image-to-image"
    TEXT_TO_TEXT = "text-to-text"
    VISION = "vision"
    UPSCALE = "upscale"  # enlarges a picture
    EMBEDDING = "embedding"  # turns texts into vectors
    IMAGE_EMBEDDING = "image-embedding"  # turns pictures into vectors


class Record(BaseModel):
    """Base of the validated, immutable records at the edges."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class TextToImage(Record):
    """Draw pictures from a prompt; `None` leaves the model's own default in force.

    `width` and `height` are pixels; `strength` (0 to 1) counts only with an input picture, which is
    the first of the job's files. With `upscale` that picture is enlarged, nothing is drawn, and the
    prompt only describes it. `original` is what the person wrote if a text model improved it into
    `prompt`. `source` is the job of the same person whose picture this one came from.
    """

    kind: Literal["text-to-image"] = "text-to-image"
    prompt: str
    negative: str | None = None
    width: int | None = Field(default=None, ge=64, le=8192)
    height: int | None = Field(default=None, ge=64, le=8192)
    steps: int | None = Field(default=None, ge=1, le=200)
    seed: int = Field(default=0, ge=0, le=SEED_MAX)
    count: int = Field(default=1, ge=1, le=4)
    guidance: float | None = Field(default=None, ge=0, le=100)
    strength: float | None = Field(default=None, ge=0, le=1)
    lora: str | None = None
    upscale: bool = False
    original: str | None = None
    source: int | None = None


class ChatMessage(Record):
    """One turn of a conversation; `pictures` are indexes into the job's files.

    `name` is the speaker, if several people talk with a model.
    """

    role: Literal["system", "user", "assistant"]
    text: str
    pictures: tuple[int, ...] = ()
    name: str | None = None

    @property
    def told(self) -> str:
        """The words a model reads, after their speaker's name if there is one."""
        return self.text if self.name is None else f"{self.name}: {self.text}"


class PassedOn(Record):
    """A completion as a program asked for it; a server gets these fields as they are.

    `body` names no model and no address. A picture in its messages is
    `{"type": "picture", "file": n}`, where n is an index into the job's files. With `text` it is a
    completion of a prompt and no conversation.
    """

    body: dict[str, JsonValue]
    text: bool = False


class Chat(Record):
    """Answer the last message of a conversation.

    With `passed_on`, a program asked: `messages` only show what about, and the answer comes back
    with all that its server said (`Output.answer`).
    """

    kind: Literal["chat"] = "chat"
    messages: tuple[ChatMessage, ...] = Field(min_length=1)
    temperature: float | None = Field(default=None, ge=0, le=2)
    max_tokens: int | None = Field(default=None, ge=1)
    passed_on: PassedOn | None = None


class PictureInput(Record):
    """A picture to embed, an index into the job's files, with the words that belong to it."""

    picture: int = Field(ge=0)
    text: str = ""


EmbedInput = str | tuple[int, ...] | PictureInput
"""What becomes one vector: a text, the tokens of one, or a picture."""


class Embed(Record):
    """Turn inputs into vectors, one for each and in their order: a batch is one job.

    `dimensions` is the length of the vectors; None leaves the model's own in force. Tokens are the
    numbers of the model's own tokenizer.
    """

    kind: Literal["embedding"] = "embedding"
    inputs: tuple[EmbedInput, ...] = Field(min_length=1)
    dimensions: int | None = Field(default=None, ge=1)


Request = Annotated[TextToImage | Chat | Embed, Field(discriminator="kind")]
REQUESTS: TypeAdapter[TextToImage | Chat | Embed] = TypeAdapter(Request)  # reads one back from JSON


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """A named piece of bytes: a picture from a person, or a result."""

    name: str
    mime: str
    data: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """One attempt at one request, as a backend receives it.

    `key` is a canonical UUID derived from database, job and attempt: the server's id for the
    attempt is known before it is sent and after any crash.
    """

    key: str
    request: Request
    files: tuple[File, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Output:
    """Everything a person can receive: a text, files, or both.

    The vectors of an embedding are one file (`queueing.core.vectors`).
    `missing` is the code of a `queueing.core.problems.Problem`: why some files are not among them.
    `answer` is what a server said beside the text, as JSON, where a program asked: the calls of
    tools, the reason for the end, the counts of tokens.
    """

    text: str = ""
    files: tuple[File, ...] = ()
    missing: str = ""
    answer: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """How far a running attempt is; never stored.

    `text` is the whole answer so far, not the newest piece; `preview` a small picture. `ahead`
    counts the prompts of other clients before it in the server's own queue; it has not begun then. `chunks`
    are the pieces of a passed-on answer since the last report, each as the server's JSON: unlike all
    else here, none of them is reported twice.
    """

    fraction: float | None = None
    step: tuple[int, int] | None = None
    text: str | None = None
    preview: File | None = None
    ahead: int | None = None
    chunks: tuple[str, ...] = ()
