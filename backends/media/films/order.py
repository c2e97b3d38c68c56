"""The requests and answers of the helper process: one line of JSON each, then bytes."""

import json
from dataclasses import asdict, dataclass
from enum import StrEnum


class MediaTask(StrEnum):
    """What to do with a file."""

    CLEAN = "clean"  # drop everything but picture and sound, without re-encoding
    FIT = "fit"  # encode so that it plays everywhere and fits
    LOOK = "look"  # describe it


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """A task on a file of a media type; `size` bytes follow. `limit` is for a file that must fit."""

    task: MediaTask
    mime: str
    size: int
    limit: int = 0

    def line(self) -> bytes:
        """Return the order in its wire form."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def read(cls, line: bytes) -> "Order":
        """Parse an order."""
        fields = json.loads(line)
        return cls(**fields | {"task": MediaTask(fields["task"])})


@dataclass(frozen=True, kw_only=True, slots=True)
class Looks:
    """Properties of a film or sound: pixels, seconds and codecs."""

    width: int = 0
    height: int = 0
    seconds: float = 0.0
    picture: str = ""
    sound: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """The outcome of an order: bytes and their media type, or why there are none.

    The bytes are the file; for a film that was looked at, its first picture as a small JPEG.
    """

    mime: str = ""
    looks: Looks | None = None
    error: str = ""

    def line(self) -> bytes:
        """Return the answer in its wire form."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def read(cls, line: bytes) -> "Answer":
        """Parse an answer. Raises `ValueError` if it is malformed."""
        try:
            fields = json.loads(line)
            looks = fields["looks"]
            return cls(**fields | {"looks": None if looks is None else Looks(**looks)})
        except (TypeError, KeyError) as error:
            raise ValueError("no answer") from error
