"""The frames between a process and the one that holds the queue.

A frame is a head of a few words, a line feed, and JSON. The head says what the JSON is, so that its
type is known before it is read:

    call 7 submitter submit      the arguments of a call, in the order of its signature
    cancel 7                     the caller has given up
    reads api telegram 12        of which platforms' jobs, and which others, it reads what they write
    result 7                     what the call returned
    failure 7                    the error it raised
    event JobChanged             an event
    progress                     what is new in the reports of running jobs since the last such frame
    offer, snapshot              a copy of what is asked without waiting
"""

from dataclasses import dataclass

WIRE = 3
"""The version of the frames: processes with different ones do not talk to each other."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Frame:
    """The words of a head, and the JSON."""

    words: tuple[str, ...]
    body: bytes = b""

    @property
    def kind(self) -> str:
        """The first word."""
        return self.words[0]

    @property
    def number(self) -> int:
        """The number of the call it belongs to."""
        return int(self.words[1])


def written(*words: str | int, body: bytes = b"") -> bytes:
    """Return a frame as bytes."""
    return " ".join(map(str, words)).encode() + b"\n" + body


def read(data: bytes) -> Frame:
    """Return the frame that was written. Raises `ValueError`."""
    head, _, body = data.partition(b"\n")
    words = tuple(head.decode("ascii").split())
    if not words:
        raise ValueError("a frame without a head")
    return Frame(words=words, body=body)
