"""The records of the native API; its OpenAPI document is made from them.

Times are ISO 8601 in UTC. Unknown values are null.
"""

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
    """A file that was sent ahead, in OpenAI's form. Times are UNIX seconds."""

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
    """The caller's files, newest first, all at once: OpenAI's clients ask again without `has_more`."""

    object: Literal["list"] = "list"
    data: tuple[UploadView, ...]
    has_more: Literal[False] = False


class DeletedUpload(View):
    """A file that was deleted."""

    object: Literal["file"] = "file"
    id: str
    deleted: Literal[True] = True


FIRST_AND_LAST = 2
SPEECH_LIMIT = 20_000  # characters

WebhookAddress = Annotated[str, Field(max_length=2_000)]
"""An address that is called once the job has ended, at an origin of `api.webhooks`."""


def _loras(written: str) -> str:
    loras_in(written)
    return written


Loras = Annotated[str, AfterValidator(_loras), Field(max_length=NAME_LIMIT)]


class TimedJob(BoundedRecord):
    """When a job runs: `later`, when nothing else waits; `by` a moment, likewise, but done by then."""

    later: bool = False
    by: AwareDatetime | None = None

    @property
    def when(self) -> "JobTime":
        """When it runs."""
        due_at = None if self.by is None else self.by.timestamp()
        return JobTime(later=self.later or due_at is not None, due_at=due_at)


class MediaJob(TimedJob):
    """What these requests share; omitted fields default to the person's settings or the model's."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str | None = Field(default=None, min_length=1, max_length=NAME_LIMIT)
    webhook: WebhookAddress | None = None


class VideoJob(MediaJob):
    """A video to make. `images` are its first and its last one, as for an image."""

    model_config = ConfigDict(
        json_schema_extra={"dependentRequired": {"width": ["height"], "height": ["width"]}},
    )

    kind: Literal["video"]
    prompt: str = Field(min_length=1, max_length=PROMPT_LIMIT)
    images: tuple[str, ...] = Field(default=(), max_length=FIRST_AND_LAST)
    width: int | None = Field(default=None, ge=64, le=4096)
    height: int | None = Field(default=None, ge=64, le=4096)
    seconds: float | None = Field(default=None, gt=0, le=VIDEO_S_MOST)
    fps: float | None = Field(default=None, ge=1, le=120)
    steps: int | None = Field(default=None, ge=1, le=200)
    seed: int | None = Field(default=None, ge=-1, le=SEED_MAX)
    negative: str | None = Field(default=None, max_length=PROMPT_LIMIT)
    lora: Loras | None = None

    @model_validator(mode="after")
    def _both_sides(self) -> Self:
        if (self.width is None) != (self.height is None):
            raise ValueError("width and height must be given together")
        return self

    def drawing(self, files: tuple[File, ...]) -> Creation:
        """Return the request with its images."""
        options = DrawingOptions(
            size=(self.width, self.height) if self.width and self.height else None,
            seconds=self.seconds,
            fps=self.fps,
            steps=self.steps,
            seed=self.seed,
            negative=self.negative,
            lora=loras_in(self.lora) if self.lora else None,
        )
        return Creation(
            prompt=self.prompt, makes=TextToVideo, model=self.model, options=options, files=files
        )


class MusicJob(MediaJob):
    """Music or a sound to make; `lyrics` are sung."""

    kind: Literal["music"]
    prompt: str = Field(min_length=1, max_length=PROMPT_LIMIT)
    lyrics: str | None = Field(default=None, max_length=PROMPT_LIMIT)
    seconds: float | None = Field(default=None, gt=0, le=MUSIC_S_MOST)
    steps: int | None = Field(default=None, ge=1, le=200)
    seed: int | None = Field(default=None, ge=-1, le=SEED_MAX)
    negative: str | None = Field(default=None, max_length=PROMPT_LIMIT)
    lora: Loras | None = None

    def drawing(self) -> Creation:
        """Return the request."""
        options = DrawingOptions(
            lyrics=self.lyrics,
            seconds=self.seconds,
            steps=self.steps,
            seed=self.seed,
            negative=self.negative,
            lora=loras_in(self.lora) if self.lora else None,
        )
        return Creation(prompt=self.prompt, makes=TextToAudio, model=self.model, options=options)


class SpeechJob(MediaJob):
    """A text to read aloud. `speed` is a factor; `format` is kept where the server has it."""

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
    """A recording to write down: a data URL, base64, a file sent ahead or of an earlier result.

    A form brings it along instead. With `timestamps`, the answer holds what was said when, if the
    model knows.
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
    """A conversation to answer, as for `POST /v1/chat/completions`."""

    kind: Literal["chat"] = "chat"
    webhook: WebhookAddress | None = None


class ImageJob(TimedJob):
    """An image to draw; omitted fields default to the person's settings or the model's.

    `images` are data URLs, base64, files sent ahead (`file-…`) or of an earlier result
    (`job-12/1`). Several are combined, and so is what a `mask` leaves of the first: it is transparent
    where that is to change. `edit` has the prompt change a single image, instead of starting from
    it; without it, the model decides. `file_id` is another way to name a file. A `seed` of -1 asks
    for a random one; `raw` leaves the prompt unchanged.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={"dependentRequired": {"width": ["height"], "height": ["width"]}},
    )

    kind: Literal["image"] = "image"
    prompt: str = Field(min_length=1, max_length=PROMPT_LIMIT)
    model: str | None = Field(default=None, min_length=1, max_length=NAME_LIMIT)
    images: tuple[str, ...] = Field(default=(), max_length=IMAGES_LIMIT)
    mask: str | None = Field(default=None, min_length=1)
    edit: bool | None = None
    file_id: str | None = Field(default=None, max_length=NAME_LIMIT)
    width: int | None = Field(default=None, ge=64, le=8192)
    height: int | None = Field(default=None, ge=64, le=8192)
    steps: int | None = Field(default=None, ge=1, le=200)
    seed: int | None = Field(default=None, ge=-1, le=SEED_MAX)
    negative: str | None = Field(default=None, max_length=PROMPT_LIMIT)
    count: int | None = Field(default=None, ge=1, le=4)
    strength: float | None = Field(default=None, ge=0, le=1)
    lora: Loras | None = None
    style: str | None = Field(default=None, max_length=NAME_LIMIT)
    raw: bool = False
    webhook: WebhookAddress | None = None

    @model_validator(mode="after")
    def _both_sides(self) -> Self:
        if (self.width is None) != (self.height is None):
            raise ValueError("width and height must be given together")
        return self

    @property
    def options(self) -> DrawingOptions:
        """The parameters of the image except its prompt."""
        size = (self.width, self.height) if self.width and self.height else None
        return DrawingOptions(
            size=size,
            steps=self.steps,
            seed=self.seed,
            negative=self.negative,
            count=self.count,
            strength=self.strength,
            lora=loras_in(self.lora) if self.lora else None,
        )

    def drawing(self, files: tuple[File, ...]) -> Creation:
        """Return the request with its images."""
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
"""A new job of a `kind`; without one, `messages` are answered and a `prompt` is drawn."""
JOB_REQUESTS: TypeAdapter[AnyJobRequest] = TypeAdapter(JobRequest)
