"""The records of the native API; its OpenAPI document is made from them.

Times are ISO 8601 in UTC. Unknown values are null.
"""

from typing import Annotated, Literal, Self

from pydantic import (
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    TypeAdapter,
    model_validator,
)

from bot.api.jobs.media_records import (
    FilmJob,
    Loras,
    MusicJob,
    SpeechJob,
    TimedJob,
    TranscriptionJob,
    Webhook,
)
from bot.api.openai.chat import ChatCompletions
from bot.api.openai.records import NAME_LIMIT
from bot.requests.creation import PROMPT_LIMIT, Drawing, DrawingOptions
from bot.requests.loras import loras_in
from queueing.core.requests import SEED_MAX, File

PICTURES_LIMIT = 8


class ChatJob(TimedJob, ChatCompletions):
    """A conversation to answer, as for `POST /v1/chat/completions`."""

    kind: Literal["chat"] = "chat"
    webhook: Webhook | None = None


class PictureJob(TimedJob):
    """A picture to draw; omitted fields default to the person's settings or the model's.

    `pictures` are data URLs, base64, files sent ahead (`file-…`) or of an earlier result
    (`job-12/1`). Several are combined, and so is what a `mask` leaves of the first: it is transparent
    where that is to change. `edit` has the prompt change a single picture, instead of starting from
    it; without it, the model decides. `file_id` is another way to name a file. A `seed` of -1 asks
    for a random one; `raw` leaves the prompt unchanged.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={"dependentRequired": {"width": ["height"], "height": ["width"]}},
    )

    kind: Literal["picture"] = "picture"
    prompt: str = Field(min_length=1, max_length=PROMPT_LIMIT)
    model: str | None = Field(default=None, min_length=1, max_length=NAME_LIMIT)
    pictures: tuple[str, ...] = Field(default=(), max_length=PICTURES_LIMIT)
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
    webhook: Webhook | None = None

    @model_validator(mode="after")
    def _both_sides(self) -> Self:
        if (self.width is None) != (self.height is None):
            raise ValueError("width and height must be given together")
        return self

    @property
    def options(self) -> DrawingOptions:
        """The parameters of the picture except its prompt."""
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

    def drawing(self, files: tuple[File, ...]) -> Drawing:
        """Return the request with its pictures."""
        return Drawing(
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
    return str(named) if named is not None else "chat" if "messages" in given else "picture"


AnyJobRequest = ChatJob | PictureJob | FilmJob | MusicJob | SpeechJob | TranscriptionJob
JobRequest = Annotated[
    Annotated[ChatJob, Tag("chat")]
    | Annotated[PictureJob, Tag("picture")]
    | Annotated[FilmJob, Tag("film")]
    | Annotated[MusicJob, Tag("music")]
    | Annotated[SpeechJob, Tag("speech")]
    | Annotated[TranscriptionJob, Tag("transcription")],
    Discriminator(_kind),
]
"""A new job of a `kind`; without one, `messages` are answered and a `prompt` is drawn."""
JOB_REQUESTS: TypeAdapter[AnyJobRequest] = TypeAdapter(JobRequest)
