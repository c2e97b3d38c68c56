"""What a person requests, what a backend receives and what it returns.

Requests are validated records, because they are stored as JSON and read by later versions. They
hold parameters only: image bytes travel separately as `File`s.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter

SEED_MAX = 2**64 - 1  # the range of ComfyUI's seed inputs; -1 is refused there
REFERENCES_MOST = 4  # images that one edit may combine
LORAS_MOST = 4
CHOICE_MOST = 60  # characters of a sampler's name
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
    """Base of the validated, immutable records at the queue's boundaries."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class LoraWeight(Record):
    """A LoRA by the name people use for it, and how strongly it acts."""

    name: str = Field(min_length=1)
    weight: float = Field(default=1.0, ge=-4, le=4)


class RequestKind(Record):
    """Properties of each kind of request.

    `capabilities` are what a model needs: the first without files, the second with files.
    `usual_sides` are the width and height to assume where the model's own are unknown.
    """

    capabilities: ClassVar[tuple[Capability, Capability]]
    gives_files: ClassVar[bool] = False
    """Whether the result is files, not a text."""
    is_seen: ClassVar[bool] = False
    """Whether the result is something to look at: images or a video."""
    usual_sides: ClassVar[tuple[float, float]] = (0, 0)

    @property
    def words(self) -> str:
        """The text a person typed, "" if there is none."""
        return ""

    @property
    def needs_files(self) -> bool:
        """Whether the request is certain to mean something else without its files."""
        return False

    def needs(self, *, has_files: bool) -> Capability:
        """Return the capability a model needs, with or without files."""
        return self.capabilities[has_files]


class Generation(RequestKind):
    """The fields that requests for images, videos and music share.

    `None` keeps the model's own default. `original` is the person's prompt if a text model has
    enhanced it into `prompt`. `source` is the job of the same person that this one derives from.
    """

    prompt: str
    negative: str | None = None
    steps: int | None = Field(default=None, ge=1, le=200)
    seed: int = Field(default=0, ge=0, le=SEED_MAX)
    guidance: float | None = Field(default=None, ge=0, le=100)
    sampler: str | None = None
    scheduler: str | None = None
    lora: tuple[LoraWeight, ...] = Field(default=(), max_length=LORAS_MOST)
    original: str | None = None
    source: int | None = None

    gives_files: ClassVar[bool] = True

    @property
    def words(self) -> str:
        """The person's prompt, before enhancement."""
        return self.original or self.prompt


class TextToImage(Generation):
    """Draw images from a prompt, or from a prompt and images (the job's files).

    - `width` and `height` are pixels.
    - Without `edit`, the single input image is the start of the drawing, and `strength` (0 to 1) is
      how far the result departs from it.
    - With `edit`, the files are up to `REFERENCES_MOST` images that the prompt changes or combines.
    - With `mask` as well, the last file is a mask of the first image's size. Its transparent parts
      are painted, the rest stays.
    - With `upscale`, the image is enlarged, nothing is drawn, and the prompt only describes it.
    """

    kind: Literal["text-to-image"] = "text-to-image"
    width: int | None = Field(default=None, ge=64, le=8192)
    height: int | None = Field(default=None, ge=64, le=8192)
    count: int = Field(default=1, ge=1, le=4)
    strength: float | None = Field(default=None, ge=0, le=1)
    upscale: bool = False
    edit: bool = False
    mask: bool = False

    capabilities: ClassVar = (Capability.TEXT_TO_IMAGE, Capability.IMAGE_TO_IMAGE)
    is_seen: ClassVar[bool] = True
    usual_sides: ClassVar[tuple[float, float]] = (1024, 1024)

    @property
    def needs_files(self) -> bool:
        """True for edits, upscales and a set strength; otherwise it may not have had an image."""
        return self.upscale or self.edit or self.strength is not None

    def needs(self, *, has_files: bool) -> Capability:
        """Return the capability a model needs, with or without files."""
        if self.upscale:
            return Capability.UPSCALE
        return Capability.IMAGE_EDIT if self.edit else super().needs(has_files=has_files)


class TextToVideo(Generation):
    """Make a video from a prompt, or from a prompt and images (the job's files).

    The first file is the video's first image, a second one its last. `seconds` is its length. The
    number of frames follows from it and `fps`, in the steps that the model's family accepts.
    """

    kind: Literal["text-to-video"] = "text-to-video"
    width: int | None = Field(default=None, ge=64, le=4096)
    height: int | None = Field(default=None, ge=64, le=4096)
    seconds: float | None = Field(default=None, gt=0, le=VIDEO_S_MOST)
    fps: float | None = Field(default=None, ge=1, le=120)

    capabilities: ClassVar = (Capability.TEXT_TO_VIDEO, Capability.IMAGE_TO_VIDEO)
    is_seen: ClassVar[bool] = True
    usual_sides: ClassVar[tuple[float, float]] = (832, 480)


class TextToAudio(Generation):
    """Make music or a sound of `seconds` length from a description, with sung words if given."""

    kind: Literal["text-to-audio"] = "text-to-audio"
    lyrics: str | None = None
    seconds: float | None = Field(default=None, gt=0, le=MUSIC_S_MOST)

    capabilities: ClassVar = (Capability.TEXT_TO_AUDIO, Capability.TEXT_TO_AUDIO)


SpeechFormat = Literal["mp3", "opus", "aac", "flac", "wav", "pcm"]


class TextToSpeech(RequestKind):
    """Read a text aloud; `None` keeps the model's own default.

    `speed` is a factor. `format` is the format a program asked for. `source` is the job whose
    answer is read aloud.
    """

    kind: Literal["text-to-speech"] = "text-to-speech"
    text: str = Field(min_length=1)
    voice: str | None = None
    speed: float | None = Field(default=None, ge=0.25, le=4)
    instructions: str | None = None
    format: SpeechFormat | None = None
    source: int | None = None

    capabilities: ClassVar = (Capability.TEXT_TO_SPEECH, Capability.TEXT_TO_SPEECH)
    gives_files: ClassVar[bool] = True

    @property
    def words(self) -> str:
        """The text to read aloud."""
        return self.text


class SpeechToText(RequestKind):
    """Transcribe the speech in a sound, the job's only file.

    - `language` is an ISO 639-1 code; None lets the model detect it.
    - `prompt` contains words that may occur.
    - With `translate` the text is English.
    - With `timestamps`, `Output.answer` holds the segments in the form of OpenAI's `verbose_json`,
      if the server returns any.
    """

    kind: Literal["speech-to-text"] = "speech-to-text"
    language: str | None = None
    prompt: str | None = None
    temperature: float | None = Field(default=None, ge=0, le=1)
    translate: bool = False
    timestamps: bool = False

    capabilities: ClassVar = (Capability.SPEECH_TO_TEXT, Capability.SPEECH_TO_TEXT)

    @property
    def needs_files(self) -> bool:
        """It always needs its sound."""
        return True


class ChatMessage(Record):
    """One turn of a conversation; `images` and `sounds` are indexes into the job's files.

    `name` is the speaker, if several people talk with a model. `sounds` are recordings that another
    model transcribes. `heard` is their transcript, None until then, and part of the text.
    """

    role: Literal["system", "user", "assistant"]
    text: str
    images: tuple[int, ...] = ()
    name: str | None = None
    sounds: tuple[int, ...] = ()
    heard: str | None = None

    @property
    def told(self) -> str:
        """The text for the model, after the speaker's name if there is one."""
        return self.text if self.name is None else f"{self.name}: {self.text}"


class PassedOn(Record):
    """A completion as a program requested it; its fields are passed to the server unchanged.

    `body` contains no model and no address. An image in its messages has this form, where n is an
    index into the job's files: `{"type": "image", "file": n}`. With `text` it is a completion of a
    prompt instead of a conversation.
    """

    body: dict[str, JsonValue]
    text: bool = False


class Chat(RequestKind):
    """Answer the last message of a conversation.

    With `passed_on`, the request comes from a program: `messages` only show the topic, and the
    server's full answer is returned as `Output.answer`.
    """

    kind: Literal["chat"] = "chat"
    messages: tuple[ChatMessage, ...] = Field(min_length=1)
    temperature: float | None = Field(default=None, ge=0, le=2)
    max_tokens: int | None = Field(default=None, ge=1)
    passed_on: PassedOn | None = None

    capabilities: ClassVar = (Capability.TEXT_TO_TEXT, Capability.VISION)

    @property
    def words(self) -> str:
        """The question."""
        return self.messages[-1].text

    @property
    def needs_files(self) -> bool:
        """Whether it is about images, or about recordings without a transcript."""
        return any(turn.images or (turn.sounds and turn.heard is None) for turn in self.messages)

    def needs(self, *, has_files: bool) -> Capability:
        """Return the capability a model needs.

        Recordings do not count, as another model transcribes them.
        """
        if any(turn.sounds for turn in self.messages):
            has_files = any(turn.images for turn in self.messages)
        return super().needs(has_files=has_files)


class ImageInput(Record):
    """An image to embed, an index into the job's files, with the text that belongs to it."""

    image: int = Field(ge=0)
    text: str = ""


EmbedInput = str | tuple[int, ...] | ImageInput
"""The source of one vector: a text, the tokens of one, or an image."""


class Embed(RequestKind):
    """Turn inputs into vectors, one each and in order: a batch is one job.

    `dimensions` is the length of the vectors; None keeps the model's own. Tokens are numbers of the
    model's own tokenizer.
    """

    kind: Literal["embedding"] = "embedding"
    inputs: tuple[EmbedInput, ...] = Field(min_length=1)
    dimensions: int | None = Field(default=None, ge=1)

    capabilities: ClassVar = (Capability.EMBEDDING, Capability.IMAGE_EMBEDDING)


AnyRequest = TextToImage | TextToVideo | TextToAudio | TextToSpeech | SpeechToText | Chat | Embed
Request = Annotated[AnyRequest, Field(discriminator="kind")]
REQUESTS: TypeAdapter[AnyRequest] = TypeAdapter(Request)  # reads one back from JSON


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """A named sequence of bytes: an image from a person, or a result."""

    name: str
    mime: str
    data: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """One attempt at one request, as a backend receives it.

    `key` is a canonical UUID derived from database, job and attempt. It is the server's id for the
    attempt, so it is known before sending and after any crash.
    """

    key: str
    request: Request
    files: tuple[File, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Output:
    """Everything a person can receive: a text, files, or both.

    - The vectors of an embedding are one file (`backends.common.vectors`).
    - `missing` is the code of a `queueing.core.errors.Problem`: why some files are missing, or which
      images of the request were not looked at.
    - `answer` is the rest of the server's answer as JSON, if a program asked: tool calls, the
      finish reason, token counts.
    """

    text: str = ""
    files: tuple[File, ...] = ()
    missing: str = ""
    answer: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultFile:
    """A result file without its bytes; `owner` is the job's."""

    owner: str
    name: str
    mime: str
    size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """A job's output, without the bytes of its files."""

    text: str = ""
    answer: str = ""
    files: tuple[ResultFile, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """How far a running attempt is; never stored.

    - `text` is the whole answer so far, not the newest piece.
    - `preview` is a small image.
    - `ahead` counts other clients' prompts before this one in the server's own queue. While it is
      set, the attempt has not begun.
    - `chunks` are the pieces of a passed-on answer since the last report, each as the server's
      JSON. Unlike the other fields, they are increments: no chunk is reported twice.
    """

    fraction: float | None = None
    step: tuple[int, int] | None = None
    text: str | None = None
    preview: File | None = None
    ahead: int | None = None
    chunks: tuple[str, ...] = ()
