"""Why a request is not accepted: one class per reason, with the numbers and names a sentence needs.

A chat turns a refusal into a sentence, an HTTP API into a status code; nothing here knows either.
"""

from dataclasses import dataclass

from queueing.core.errors import Refused
from queueing.core.requests import Capability


@dataclass(frozen=True, kw_only=True, slots=True)
class Banned:
    """An admin banned the person; `until` is None for a ban without end."""

    until: float | None
    reason: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class UnwantedWord:
    """The request contains a word that is unwanted where it was submitted."""

    word: str


@dataclass(frozen=True, kw_only=True, slots=True)
class QuotaUsedUp:
    """The person's jobs of this hour are used up; `free_at` is when the next one is free."""

    limit: int
    free_at: float


@dataclass(frozen=True, kw_only=True, slots=True)
class FilesUsedUp:
    """The person sent as many bytes as they may in an hour; `free_at` is when these fit in."""

    free_at: float


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuUsedUp:
    """The person's time on the GPUs is used up for today, or held for their open jobs.

    `free_at` is when the next day begins.
    """

    limit_s: float
    used_s: float
    held_s: float
    free_at: float


@dataclass(frozen=True, kw_only=True, slots=True)
class TooManyOpen:
    """The person has as many open jobs as they may; `done_at` is when the first should end.

    None if that is unknown.
    """

    limit: int
    done_at: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueFull:
    """The model's queue is full; `again_at` is when some of it will have been done.

    None while it does not move.
    """

    model: str
    limit: int
    again_at: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class NoModel:
    """No model here has the capability."""

    capability: Capability


@dataclass(frozen=True, kw_only=True, slots=True)
class UnknownStyle:
    """No style has that name; `known` are the existing ones."""

    name: str
    known: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class OptionNotTaken:
    """The model does not honour an option that was given, such as "negative"."""

    model: str
    option: str


@dataclass(frozen=True, kw_only=True, slots=True)
class BeyondModel:
    """The request asks for more than the model makes here.

    `what` is "pixels", "steps", "count", "seconds" or "frames"; "memory" if as many pixels at once
    have run out of memory before.
    """

    model: str
    what: str
    asked: float
    most: float


@dataclass(frozen=True, kw_only=True, slots=True)
class NoImage:
    """The request starts from an image and has none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NoMask:
    """The mask of an image marks nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NoRecording:
    """The request is about a sound or video, and has none that can be read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NoText:
    """The request has no words."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TextTooLong:
    """The words of the request are more than `limit` characters."""

    length: int
    limit: int


@dataclass(frozen=True, kw_only=True, slots=True)
class TooManyImages:
    """The question has more images than a model is shown."""

    count: int
    limit: int


@dataclass(frozen=True, kw_only=True, slots=True)
class NotAImage:
    """A file that was sent as an image is none that can be read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageTooHeavy:
    """The file of an image is larger than is taken, in MB."""

    size_mb: int
    limit_mb: int


@dataclass(frozen=True, kw_only=True, slots=True)
class TooManyPixels:
    """An image has more megapixels than are decoded."""

    limit: int


@dataclass(frozen=True, kw_only=True, slots=True)
class LargeEnough:
    """An image has more megapixels than are upscaled."""

    limit: int


@dataclass(frozen=True, kw_only=True, slots=True)
class NotText:
    """A file that was sent as text is none that can be read."""

    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TextTooHeavy:
    """A text file is larger than is read, in kB."""

    name: str
    limit_kb: int


@dataclass(frozen=True, kw_only=True, slots=True)
class FilesTooLong:
    """What text files say together is more than `limit` characters."""

    length: int
    limit: int


@dataclass(frozen=True, kw_only=True, slots=True)
class NotASound:
    """A file that was sent as a recording cannot be read, and why: a `SoundFault`.

    `minutes` is how long one may be.
    """

    name: str
    why: str
    minutes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class NotAVideo:
    """A file that was sent as a video cannot be shown to a model."""

    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class NotWatched:
    """A video came with a question for a model that cannot see; `model` is the one named."""

    names: str
    model: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class PaperUnread:
    """A document cannot be read, and why: a `Fault`, or "scanned" where no model sees."""

    name: str
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class FileTooHeavy:
    """A file is larger than is taken, in MB."""

    name: str
    size_mb: int
    limit_mb: int


@dataclass(frozen=True, kw_only=True, slots=True)
class NoLongerWaiting:
    """Something was to be added to a job that has started or ended."""

    job_id: int


Refusal = (
    Banned
    | UnwantedWord
    | QuotaUsedUp
    | FilesUsedUp
    | GpuUsedUp
    | TooManyOpen
    | QueueFull
    | NoModel
    | UnknownStyle
    | OptionNotTaken
    | BeyondModel
    | NoImage
    | NoMask
    | NoRecording
    | NoText
    | TextTooLong
    | TooManyImages
    | NotAImage
    | ImageTooHeavy
    | TooManyPixels
    | LargeEnough
    | NotText
    | TextTooHeavy
    | FilesTooLong
    | NotASound
    | NotAVideo
    | NotWatched
    | PaperUnread
    | FileTooHeavy
    | NoLongerWaiting
    | Refused
)
"""Why nothing was accepted; `Refused` are the queue's own reasons, such as an unknown model."""


class Declined(Exception):
    """Carries a refusal to the place that answers it."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal
