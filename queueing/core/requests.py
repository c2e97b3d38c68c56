"""What a person asks for, what a backend receives and what comes back.

Requests are validated records because they are stored as JSON and read back by later versions. They
hold parameters only: image bytes travel as `File`s beside them.

The vectors of embeddings are one file, all of one length: 32-bit floats, little-endian, or the
base64 text of each vector as a server sent it, which callers mostly ask for and which then needs no
reading at all; the file's type tells which.
"""

import sys
from array import array
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter

SEED_MAX = 2**64 - 1  # the range of ComfyUI's seed inputs; -1 is refused there
REFERENCES_MOST = 4  # images that one edit may combine
LORAS_MOST = 4
VIDEO_S_MOST = 60
MUSIC_S_MOST = 600


class Capability(StrEnum):
    """What a model can do."""

    TEXT_TO_IMAGE = "text-to-image"
    IMAGE_TO_IMAGE = "image-to-image"
    TEXT_TO_TEXT = "text-to-text"
    VISION = "vision"
    UPSCALE = "upscale"  # enlarges an image
    IMAGE_EDIT = "image-edit"  # changes images as a prompt says
    TEXT_TO_VIDEO = "text-to-video"
    IMAGE_TO_VIDEO = "image-to-video"
    TEXT_TO_AUDIO = "text-to-audio"  # music and sounds
    TEXT_TO_SPEECH = "text-to-speech"
    SPEECH_TO_TEXT = "speech-to-text"
    EMBEDDING = "embedding"  # turns texts into vectors
    IMAGE_EMBEDDING = "image-embedding"  # turns images into vectors


class Record(BaseModel):
    """Base of the validated, immutable records at the edges."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class LoraWeight(Record):
    """A LoRA by the name people use for it, and how strongly it acts."""

    name: str = Field(min_length=1)
    weight: float = Field(default=1.0, ge=-4, le=4)


class Generation(Record):
    """The fields that requests for images, videos and music share.

    `None` leaves the model's own default in force. `original` is what the person wrote if a text
    model improved it into `prompt`. `source` is the job of the same person that this one came from.
    """

    prompt: str
    negative: str | None = None
    steps: int | None = Field(default=None, ge=1, le=200)
    seed: int = Field(default=0, ge=0, le=SEED_MAX)
    guidance: float | None = Field(default=None, ge=0, le=100)
    lora: tuple[LoraWeight, ...] = Field(default=(), max_length=LORAS_MOST)
    original: str | None = None
    source: int | None = None


class TextToImage(Generation):
    """Draw images from a prompt, or from a prompt and images, the job's files.

    `width` and `height` are pixels. Without `edit` the one input image is where drawing starts,
    and `strength` (0 to 1) says how far it goes from there. With `edit` the files are up to
    `REFERENCES_MOST` images that the prompt changes or combines; with `mask` as well, the last
    file is a mask of the first image's size: what is transparent in it is painted, the rest stays.
    With `upscale` the image is enlarged, nothing is drawn, and the prompt only describes it.
    """

    kind: Literal["text-to-image"] = "text-to-image"
    width: int | None = Field(default=None, ge=64, le=8192)
    height: int | None = Field(default=None, ge=64, le=8192)
    count: int = Field(default=1, ge=1, le=4)
    strength: float | None = Field(default=None, ge=0, le=1)
    upscale: bool = False
    edit: bool = False
    mask: bool = False


class TextToVideo(Generation):
    """Make a video from a prompt, or from a prompt and images, the job's files.

    The first file is the video's first image, a second one its last. `seconds` is its length;
    frames follow from it and `fps` in the steps that the model's family accepts.
    """

    kind: Literal["text-to-video"] = "text-to-video"
    width: int | None = Field(default=None, ge=64, le=4096)
    height: int | None = Field(default=None, ge=64, le=4096)
    seconds: float | None = Field(default=None, gt=0, le=VIDEO_S_MOST)
    fps: float | None = Field(default=None, ge=1, le=120)


class TextToAudio(Generation):
    """Make music or a sound of `seconds` from a description, with sung words if there are any."""

    kind: Literal["text-to-audio"] = "text-to-audio"
    lyrics: str | None = None
    seconds: float | None = Field(default=None, gt=0, le=MUSIC_S_MOST)


SpeechFormat = Literal["mp3", "opus", "aac", "flac", "wav", "pcm"]


class TextToSpeech(Record):
    """Read a text aloud; `None` leaves the model's own default in force.

    `speed` is a factor. `format` is what a program asked for. `source` is the job whose answer is
    read.
    """

    kind: Literal["text-to-speech"] = "text-to-speech"
    text: str = Field(min_length=1)
    voice: str | None = None
    speed: float | None = Field(default=None, ge=0.25, le=4)
    instructions: str | None = None
    format: SpeechFormat | None = None
    source: int | None = None


class SpeechToText(Record):
    """Write down what is said in a sound, the job's only file.

    `language` is an ISO 639-1 code, None lets the model find out; `prompt` are words that may occur.
    With `translate` the text is English. With `timestamps`, `Output.answer` holds the segments as
    OpenAI's `verbose_json` has them, if the server knows any.
    """

    kind: Literal["speech-to-text"] = "speech-to-text"
    language: str | None = None
    prompt: str | None = None
    temperature: float | None = Field(default=None, ge=0, le=1)
    translate: bool = False
    timestamps: bool = False


class ChatMessage(Record):
    """One turn of a conversation; `images` and `sounds` are indexes into the job's files.

    `name` is the speaker, if several people talk with a model. `sounds` are recordings that another
    model writes down; `heard` is what is said in them, None until then, and part of the text.
    """

    role: Literal["system", "user", "assistant"]
    text: str
    images: tuple[int, ...] = ()
    name: str | None = None
    sounds: tuple[int, ...] = ()
    heard: str | None = None

    @property
    def told(self) -> str:
        """The words a model reads, after their speaker's name if there is one."""
        return self.text if self.name is None else f"{self.name}: {self.text}"


class PassedOn(Record):
    """A completion as a program asked for it; a server gets these fields as they are.

    `body` names no model and no address. An image in its messages is
    `{"type": "image", "file": n}`, where n is an index into the job's files. With `text` it is a
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


class ImageInput(Record):
    """An image to embed, an index into the job's files, with the words that belong to it."""

    image: int = Field(ge=0)
    text: str = ""


EmbedInput = str | tuple[int, ...] | ImageInput
"""What becomes one vector: a text, the tokens of one, or an image."""


class Embed(Record):
    """Turn inputs into vectors, one for each and in their order: a batch is one job.

    `dimensions` is the length of the vectors; None leaves the model's own in force. Tokens are the
    numbers of the model's own tokenizer.
    """

    kind: Literal["embedding"] = "embedding"
    inputs: tuple[EmbedInput, ...] = Field(min_length=1)
    dimensions: int | None = Field(default=None, ge=1)


AnyRequest = TextToImage | TextToVideo | TextToAudio | TextToSpeech | SpeechToText | Chat | Embed
Request = Annotated[AnyRequest, Field(discriminator="kind")]
REQUESTS: TypeAdapter[AnyRequest] = TypeAdapter(Request)  # reads one back from JSON


_NEEDS: Mapping[type[AnyRequest], tuple[Capability, Capability]] = {
    # without files, with files
    TextToImage: (Capability.TEXT_TO_IMAGE, Capability.IMAGE_TO_IMAGE),
    TextToVideo: (Capability.TEXT_TO_VIDEO, Capability.IMAGE_TO_VIDEO),
    TextToAudio: (Capability.TEXT_TO_AUDIO, Capability.TEXT_TO_AUDIO),
    TextToSpeech: (Capability.TEXT_TO_SPEECH, Capability.TEXT_TO_SPEECH),
    SpeechToText: (Capability.SPEECH_TO_TEXT, Capability.SPEECH_TO_TEXT),
    Chat: (Capability.TEXT_TO_TEXT, Capability.VISION),
    Embed: (Capability.EMBEDDING, Capability.IMAGE_EMBEDDING),
}


def needed(request: AnyRequest, *, has_files: bool) -> Capability:
    """Return what a model must be able to do for a request with or without files."""
    match request:
        case TextToImage(upscale=True):
            return Capability.UPSCALE
        case TextToImage(edit=True):
            return Capability.IMAGE_EDIT
        case Chat(messages=messages) if any(turn.sounds for turn in messages):
            has_files = any(turn.images for turn in messages)
    return _NEEDS[type(request)][has_files]


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """A named piece of bytes: an image from a person, or a result."""

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

    The vectors of an embedding are one file (`vectors_file`).
    `missing` is the code of a `queueing.core.errors.Problem`: why some files are not among them.
    `answer` is what a server said beside the text, as JSON, where a program asked: the calls of
    tools, the reason for the end, the counts of tokens.
    """

    text: str = ""
    files: tuple[File, ...] = ()
    missing: str = ""
    answer: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultFile:
    """A file of a job's result without its bytes; `owner` is the job's."""

    owner: str
    name: str
    mime: str
    size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What a job produced, without the bytes of its files."""

    text: str = ""
    answer: str = ""
    files: tuple[ResultFile, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """How far a running attempt is; never stored.

    `text` is the whole answer so far, not the newest piece; `preview` a small image. `ahead`
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


_FLOATS, _TEXTS = "application/octet-stream", "application/base64"
Part = bytes | memoryview  # of a file, which is not copied
Vector: TypeAlias = "array[float]"  # only checkers may subscript it before Python 3.12


def vectors_file(vectors: Iterable[Vector]) -> File:
    """Return vectors of one length as a file."""
    return File(name="embeddings.f32", mime=_FLOATS, data=b"".join(map(_packed, vectors)))


def texts_file(texts: Iterable[bytes]) -> File:
    """Return the base64 texts of vectors of one length as a file."""
    return File(name="embeddings.b64", mime=_TEXTS, data=b"".join(texts))


def vectors_of(file: File, count: int) -> Sequence[Part]:
    """Return the bytes of each of `count` vectors, in their order."""
    parts = _parts(file, count)
    return [b64decode(part) for part in parts] if file.mime == _TEXTS else parts


def texts_of(file: File, count: int) -> Sequence[Part]:
    """Return the base64 text of each of `count` vectors, in their order."""
    parts = _parts(file, count)
    return parts if file.mime == _TEXTS else [b64encode(part) for part in parts]


def numbers(packed: Part) -> list[float]:
    """Return the numbers of one vector."""
    return unpacked(packed).tolist()


def unpacked(packed: Part) -> Vector:
    """Return one vector. Raises `ValueError` if its bytes are no whole number of floats."""
    vector: Vector = array("f")
    vector.frombytes(packed)
    if sys.byteorder == "big":
        vector.byteswap()
    return vector


def _parts(file: File, count: int) -> Sequence[Part]:
    data, size = memoryview(file.data), len(file.data) // count
    return [data[at : at + size] for at in range(0, size * count, size)]


def _packed(vector: Vector) -> bytes:
    if sys.byteorder == "big":
        vector = array("f", vector)
        vector.byteswap()
    return vector.tobytes()
