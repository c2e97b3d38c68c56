"""What the helper process is asked and what it answers: one line of JSON each, then bytes."""

import json
from dataclasses import asdict, dataclass
from enum import StrEnum


class MediaTask(StrEnum):
    """What to do with a file."""

    CLEAN = "clean"  # leave out all but picture and sound, without encoding anything again
    FIT = "fit"  # encode so that it plays everywhere and fits
    LOOK = "look"  # say what it is


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """A task on a file of a media type; `size` bytes follow. `limit` is for a file that must fit."""

    task: MediaTask
    mime: str
    size: int
    limit: int = 0

    def line(self) -> bytes:
        """Return the order as it is sent."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def read(cls, line: bytes) -> "Order":
        """Return an order that was sent."""
        fields = json.loads(line)
        return cls(**fields | {"task": MediaTask(fields["task"])})


@dataclass(frozen=True, kw_only=True, slots=True)
class Looks:
    """What a film or a sound is: pixels, seconds, and by which codecs it is encoded."""

    width: int = 0
    height: int = 0
    seconds: float = 0.0
    picture: str = ""
    sound: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What came of an order: bytes and their media type, or why there are none.

    The bytes are a file, or of a film that was looked at its first picture as a small JPEG.
    """

    mime: str = ""
    looks: Looks | None = None
    error: str = ""

    def line(self) -> bytes:
        """Return the answer as it is sent."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def read(cls, line: bytes) -> "Answer":
        """Return an answer that was sent. Raises `ValueError` for what is none."""
        try:
            fields = json.loads(line)
            looks = fields["looks"]
            return cls(**fields | {"looks": None if looks is None else Looks(**looks)})
        except (TypeError, KeyError) as error:
            raise ValueError("no answer") from error
