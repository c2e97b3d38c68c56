"""Records of the native jobs API. The OpenAPI document is generated from them.

Times are ISO 8601 in UTC. Unknown values are null.
"""

from dataclasses import fields
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    TypeAdapter,
    model_validator,
)

from bot.api.openai.chat import ChatCompletions
from bot.api.openai.records import NAME_LIMIT, WORDS
from bot.api.runs.submitter import JobTime
from bot.api.runs.views import View
from bot.requests.creation import PROMPT_LIMIT, Creation, DrawingOptions
from bot.requests.options import loras_in
from queueing.core.bounded_json import BoundedRecord
from queueing.core.requests import (
    CHOICE_MOST,
    MUSIC_S_MOST,
    SEED_MAX,
    VIDEO_S_MOST,
    File,
    SpeechFormat,
    SpeechToText,
    TextToAudio,
    TextToSpeech,
    TextToVideo,
)


class UploadView(View):
    """An uploaded file, in OpenAI's format. Times are UNIX seconds."""

    object: Literal["file"] = "file"
    id: str
    bytes: int
    created_at: int
    expires_at: int
    filename: str
    mime: str
    purpose: Literal["vision"] = "vision"
    status: Literal["processed"] = "processed"


class UploadList(View):
    """All of the caller's files, newest first, on one page.

    `has_more` is always false, because OpenAI's clients request another page if it is missing.
    """

    object: Literal["list"] = "list"
    data: tuple[UploadView, ...]
    has_more: Literal[False] = False


class DeletedUpload(View):
    """Confirms that a file was deleted."""

    object: Literal["file"] = "file"
    id: str
    deleted: Literal[True] = True


FIRST_AND_LAST = 2
SPEECH_LIMIT = 20_000  # characters

WebhookAddress = Annotated[str, Field(max_length=2_000)]
"""URL to call when the job ends. Its origin must be listed in `api.webhooks`."""


def _loras(written: str) -> str:
    loras_in(written)
    return written


Loras = Annotated[str, AfterValidator(_loras), Field(max_length=NAME_LIMIT)]


class TimedJob(BoundedRecord):
    """When a job may run. With `later`, it runs when nothing else waits for the host.

    With `by`, it also runs when nothing else waits, but starts early enough to be done by then.
    """

    later: bool = False
    by: AwareDatetime | None = None

    @property
    def when(self) -> "JobTime":
        """The time options of the job; `by` implies `later`."""
        due_at = None if self.by is None else self.by.timestamp()
        return JobTime(later=self.later or due_at is not None, due_at=due_at)


class MediaJob(TimedJob):
    """Fields common to media jobs. Omitted fields use the person's or the model's defaults."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str | None = Field(default=None, min_length=1, max_length=NAME_LIMIT)
    webhook: WebhookAddress | None = None


class DrawnJob(MediaJob):
    """Fields common to images, videos and music."""

    prompt: str = Field(min_length=1, max_length=PROMPT_LIMIT)
    steps: int | None = Field(default=None, ge=1, le=200)
    seed: int | None = Field(default=None, ge=-1, le=SEED_MAX)
    negative: str | None = Field(default=None, max_length=PROMPT_LIMIT)
    guidance: float | None = Field(default=None, ge=0, le=100)
    sampler: str | None = Field(default=None, min_length=1, max_length=CHOICE_MOST)
    scheduler: str | None = Field(default=None, min_length=1, max_length=CHOICE_MOST)
    lora: Loras | None = None

    @property
    def size(self) -> tuple[int, int] | None:
        """The width and height, if they are given."""
        return None

    @property
    def options(self) -> DrawingOptions:
        """The parameters of the request, without the prompt."""
        lora = loras_in(self.lora) if self.lora else None
        return DrawingOptions(size=self.size, lora=lora, **self.model_dump(include=_OPTIONS))


_OPTIONS = {each.name for each in fields(DrawingOptions)} - {"size", "lora"}


class SizedJob(DrawnJob):
    """Fields common to images and videos."""

    model_config = ConfigDict(
        json_schema_extra={"dependentRequired": {"width": ["height"], "height": ["width"]}},
    )

    width: int | None = Field(default=None, ge=64, le=4096)
    height: int | None = Field(default=None, ge=64, le=4096)

    @model_validator(mode="after")
    def _both_sides(self) -> Self:
        if (self.width is None) != (self.height is None):
            raise ValueError("width and height must be given together")
        return self

    @property
    def size(self) -> tuple[int, int] | None:
        """The width and height, if they are given."""
        return (self.width, self.height) if self.width and self.height else None


class VideoJob(SizedJob):
    """A video to generate. `images` are its first and last frame, given as for an image job."""

    kind: Literal["video"]
    images: tuple[str, ...] = Field(default=(), max_length=FIRST_AND_LAST)
    seconds: float | None = Field(default=None, gt=0, le=VIDEO_S_MOST)
    fps: float | None = Field(default=None, ge=1, le=120)

    def drawing(self, files: tuple[File, ...]) -> Creation:
        """Build the request from these fields and the loaded images."""
        return Creation(
            prompt=self.prompt,
            makes=TextToVideo,
            model=self.model,
            options=self.options,
            files=files,
        )


class MusicJob(DrawnJob):
    """Music or a sound to generate. `lyrics` are sung."""

    kind: Literal["music"]
    lyrics: str | None = Field(default=None, max_length=PROMPT_LIMIT)
    seconds: float | None = Field(default=None, gt=0, le=MUSIC_S_MOST)

    def drawing(self) -> Creation:
        """Build the request from these fields."""
        return Creation(
            prompt=self.prompt, makes=TextToAudio, model=self.model, options=self.options
        )


class SpeechJob(MediaJob):
    """A text to read aloud. `speed` is a factor; 1 is normal speed.

    `format` is the file format. Servers that cannot produce it use their own.
    """

    kind: Literal["speech"]
    text: str = Field(min_length=1, max_length=SPEECH_LIMIT, pattern=WORDS)
    voice: str | None = Field(default=None, min_length=1, max_length=NAME_LIMIT)
    speed: float | None = Field(default=None, ge=0.25, le=4)
    instructions: str | None = Field(default=None, max_length=PROMPT_LIMIT)
    format: SpeechFormat | None = None

    @property
    def wanted(self) -> TextToSpeech:
        """The job's request."""
        return TextToSpeech(**self.model_dump(exclude={"kind", "model", "webhook", "later", "by"}))


class TranscriptionJob(MediaJob):
    """A recording to transcribe.

    `file` is a data URL, base64, the id of an uploaded file, or a file of an earlier result
    (`job-12/1`). A multipart form contains the file itself instead. With `timestamps`, the answer
    includes when each part was said, if the model supports that.
    """

    kind: Literal["transcription"]
    file: str | None = Field(default=None, min_length=1)
    language: str | None = Field(default=None, max_length=20, pattern=r"^[A-Za-z-]+$")
    prompt: str | None = Field(default=None, max_length=PROMPT_LIMIT)
    temperature: float | None = Field(default=None, ge=0, le=1)
    translate: bool = False
    timestamps: bool = False

    @property
    def wanted(self) -> SpeechToText:
        """The job's request."""
        return SpeechToText(
            **self.model_dump(exclude={"kind", "model", "webhook", "later", "by", "file"})
        )


IMAGES_LIMIT = 8


class ChatJob(TimedJob, ChatCompletions):
    """A conversation to answer. Takes the fields of `POST /v1/chat/completions`."""

    kind: Literal["chat"] = "chat"
    webhook: WebhookAddress | None = None


class ImageJob(SizedJob):
    """An image to generate. Omitted fields use the person's or the model's defaults.

    Each of `images` is a data URL, base64, the id of an uploaded file (`file-…`), or a file of an
    earlier result (`job-12/1`). Several images are combined. A `mask` marks what to change in the
    first image: its transparent areas. With `edit`, the prompt describes a change to a single
    image; with `edit` false, the image is only a starting point; if omitted, the model decides.
    `file_id` names one more image. A `seed` of -1 picks a random seed. With `raw`, the prompt is
    used unchanged.
    """

    kind: Literal["image"] = "image"
    images: tuple[str, ...] = Field(default=(), max_length=IMAGES_LIMIT)
    mask: str | None = Field(default=None, min_length=1)
    edit: bool | None = None
    file_id: str | None = Field(default=None, max_length=NAME_LIMIT)
    width: int | None = Field(default=None, ge=64, le=8192)
    height: int | None = Field(default=None, ge=64, le=8192)
    count: int | None = Field(default=None, ge=1, le=4)
    strength: float | None = Field(default=None, ge=0, le=1)
    style: str | None = Field(default=None, max_length=NAME_LIMIT)
    raw: bool = False

    def drawing(self, files: tuple[File, ...]) -> Creation:
        """Build the request from these fields and the loaded images."""
        return Creation(
            prompt=self.prompt,
            model=self.model,
            style=self.style,
            options=self.options,
            files=files,
            edit=self.edit,
            raw=self.raw,
        )


def _kind(body: object) -> str:
    given = body if isinstance(body, dict) else {}
    named = given.get("kind")
    return str(named) if named is not None else "chat" if "messages" in given else "image"


AnyJobRequest = ChatJob | ImageJob | VideoJob | MusicJob | SpeechJob | TranscriptionJob
JobRequest = Annotated[
    Annotated[ChatJob, Tag("chat")]
    | Annotated[ImageJob, Tag("image")]
    | Annotated[VideoJob, Tag("video")]
    | Annotated[MusicJob, Tag("music")]
    | Annotated[SpeechJob, Tag("speech")]
    | Annotated[TranscriptionJob, Tag("transcription")],
    Discriminator(_kind),
]
"""A new job. Without `kind`, a body with `messages` is a chat job and any other is an image job."""
JOB_REQUESTS: TypeAdapter[AnyJobRequest] = TypeAdapter(JobRequest)
