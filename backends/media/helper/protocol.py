"""The requests and answers of the helper process: one line of JSON each, then bytes."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

_PARTS_MOST = 100


class MediaTask(StrEnum):
    """What to do with a file."""

    CLEAN = "clean"  # drop everything but image and sound, without re-encoding
    FIT = "fit"  # encode so that it plays everywhere and fits
    LOOK = "look"  # describe it
    READ = "read"  # extract a document's text, or its pages as images
    WAV = "wav"  # make a sound plain, for a server that reads speech
    VOICE = "voice"  # make a sound a voice message
    ENCODE = "encode"  # give a sound the form that a program asks for
    FRAMES = "frames"  # extract some of a video's images
    SOUNDTRACK = "soundtrack"  # give a silent video a track of silence


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """A task on a file of a media type; `size` bytes follow.

    `limit` is the most bytes that the answer may have, `characters` the most of a text,
    `images` the most images, `seconds` the longest a sound may play, `form` the form it gets.
    """

    task: MediaTask
    mime: str
    size: int
    limit: int = 0
    characters: int = 0
    images: int = 0
    seconds: float = 0.0
    form: str = ""

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
    """Properties of a video or sound: size, seconds, codecs, and how its pixels are stored."""

    width: int = 0
    height: int = 0
    seconds: float = 0.0
    image: str = ""
    pixels: str = ""
    sound: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """The outcome of an order: bytes and their media type, or why there are none.

    The bytes are the file; for a video that was looked at, its first image as a small JPEG. Where
    there are several pieces, such as a document's text and its images, `parts` are their lengths.
    `fault` is an error that a person can be told about.
    """

    mime: str = ""
    looks: Looks | None = None
    error: str = ""
    fault: str = ""
    pages: int = 0
    truncated: bool = False
    parts: tuple[int, ...] = ()

    def line(self) -> bytes:
        """Return the answer in its wire form."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def read(cls, line: bytes) -> "Answer":
        """Parse an answer. Raises `ValueError` if it is malformed: a hostile file may have made it."""
        try:
            fields = json.loads(line)
            looks = fields["looks"]
            answer = cls(
                **fields
                | {
                    "looks": None if looks is None else _looks(looks),
                    "parts": tuple(int(part) for part in fields["parts"]),
                }
            )
        except (TypeError, KeyError, RecursionError) as error:
            raise ValueError("no answer") from error
        words = (answer.mime, answer.error, answer.fault)
        if not all(isinstance(word, str) for word in words) or type(answer.pages) is not int:
            raise ValueError("no answer")
        if len(answer.parts) > _PARTS_MOST or any(part < 0 for part in answer.parts):
            raise ValueError("no answer")
        return answer


def _looks(fields: dict[str, object]) -> Looks:
    looks = Looks(**fields)  # type: ignore[arg-type]  # checked below
    numbers = (looks.width, looks.height, looks.seconds)
    if not all(type(number) in {int, float} and 0 <= number < 1e9 for number in numbers):
        raise ValueError("no answer")
    return looks


class Faulty(Exception):
    """A file that cannot be used for a reason that its sender can be told: one word."""


def pieces(made: bytes, lengths: Sequence[int]) -> Iterator[bytes]:
    """Yield the pieces of an answer."""
    at = 0
    for length in lengths:
        yield made[at : at + length]
        at += length
