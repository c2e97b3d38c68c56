"""The orders and answers of the helper process: one line of JSON each, then bytes."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

_PARTS_MOST = 100


class MediaTask(StrEnum):
    """The operation on a file."""

    CLEAN = "clean"  # remove everything except video and audio, without encoding again
    FIT = "fit"  # encode so that it plays everywhere and fits
    IMAGE = "image"  # convert an image in a rarer format
    LOOK = "look"  # describe it
    READ = "read"  # extract a document's text, or its pages as images
    WAV = "wav"  # convert audio to WAV for transcription
    VOICE = "voice"  # convert audio to a voice message
    ENCODE = "encode"  # convert audio to the format a program requests
    FRAMES = "frames"  # extract some of a video's images
    SOUNDTRACK = "soundtrack"  # add a silent audio track to a video


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """A task on a file; the file's `size` bytes follow the line.

    `limit` is the maximum size of the answer in bytes. `characters`, `images` and `seconds` limit
    its text, images and audio. `form` is the audio format to convert to.
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
        """Return the order as a line of JSON."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def read(cls, line: bytes) -> "Order":
        """Parse an order."""
        fields = json.loads(line)
        return cls(**fields | {"task": MediaTask(fields["task"])})


@dataclass(frozen=True, kw_only=True, slots=True)
class Looks:
    """Properties of a video or audio file: size, seconds, codecs and pixel format."""

    width: int = 0
    height: int = 0
    seconds: float = 0.0
    image: str = ""
    pixels: str = ""
    sound: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """The outcome of an order: bytes and their media type, or an error.

    The bytes are the resulting file, or the first image of an inspected video as a small JPEG. If
    there are several pieces, such as a document's text and its images, `parts` are their lengths.
    `fault` is an error that may be shown to people.
    """

    mime: str = ""
    looks: Looks | None = None
    error: str = ""
    fault: str = ""
    pages: int = 0
    truncated: bool = False
    parts: tuple[int, ...] = ()

    def line(self) -> bytes:
        """Return the answer as a line of JSON."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def read(cls, line: bytes) -> "Answer":
        """Parse an answer. Raises `ValueError` if it is malformed, as a hostile file may cause."""
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
    """A file that cannot be used. The text is a one-word reason for its sender."""


def pieces(made: bytes, lengths: Sequence[int]) -> Iterator[bytes]:
    """Split an answer into pieces of these lengths."""
    at = 0
    for length in lengths:
        yield made[at : at + length]
        at += length
