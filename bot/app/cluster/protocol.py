"""The protocol between processes: frames, calls, values and errors as JSON, and authentication.

A frame is a head of a few words, a line feed, and JSON. The head determines the type of the JSON:

    call 7 submitter submit      the arguments of a call, in the order of its signature
    cancel 7                     the caller has given up
    reads api telegram 12        the platforms and job numbers whose text and previews it wants
    result 7                     what the call returned
    failure 7                    the error it raised
    event JobChanged             an event
    progress                     changes in the reports of running jobs since the last such frame
    offer, snapshot              a copy of values that are read without waiting

All arguments and results of the queue's ports can be written as JSON, based on their type hints.
Bytes are written as base64: a call carries the files of at most one request, which chats limit to
some tens of megabytes, and previews are small. Events are identified by their class name.

The leader generates a secret and stores it in the database. Each side proves that it knows the
secret by an HMAC over both sides' nonces and its own role. So recorded traffic cannot be replayed,
and neither side's proof can be sent back to it.
"""

import hmac
import inspect
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args, get_type_hints

from pydantic import ConfigDict, JsonValue, TypeAdapter

from bot.app.cluster.transport import Wire, WireBroken
from bot.core.queue import (
    Deliveries,
    JobEraser,
    JobFiles,
    JobReader,
    JobSubmitter,
    ModelPreloads,
    ModelReader,
    QueueAdmin,
    QueueStatus,
)
from queueing.core import errors
from queueing.core.errors import Problem, QueueError
from queueing.core.events import Event

_CONFIG = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64", ser_json_inf_nan="strings")
_EVENTS: dict[str, type[Event]] = {each.__name__: each for each in get_args(Event)}


def to_json(value: object, kind: Any) -> bytes:
    """Write a value as JSON, according to its type hint."""
    return _adapter(kind).dump_json((value,), warnings="error")


def from_json(data: bytes, kind: Any) -> Any:
    """Parse JSON written by `to_json`. Raises `ValueError`."""
    return _adapter(kind).validate_json(data)[0]


def event_to_json(event: Event) -> tuple[str, bytes]:
    """Return the name of an event's class, and the event as JSON."""
    name = type(event).__name__
    return name, to_json(event, _EVENTS[name])


def event_from_json(name: str, data: bytes) -> Event:
    """Parse the result of `event_to_json`. Raises `ValueError` and `KeyError`."""
    event: Event = from_json(data, _EVENTS[name])
    return event


@cache
def _adapter(kind: Any) -> TypeAdapter[tuple[Any]]:
    # In a tuple, because pydantic accepts no configuration for a dataclass alone.
    return TypeAdapter(tuple[kind], config=_CONFIG)


PARTS: Mapping[str, type] = {
    "submitter": JobSubmitter,
    "jobs": JobReader,
    "deliveries": Deliveries,
    "models": ModelReader,
    "status": QueueStatus,
    "admin": QueueAdmin,
    "preloads": ModelPreloads,
    "erasure": JobEraser,
}
"""The parts of `QueueService` that are called remotely.

Events are pushed, and `JobFiles` reads the local database.
"""


@dataclass(frozen=True, kw_only=True)
class Method:
    """An async method of a remote part."""

    part: str
    name: str
    signature: inspect.Signature
    arguments_kind: Any
    result_kind: Any

    def arguments_json(self, args: Sequence[object], named: Mapping[str, object]) -> bytes:
        """Write a call's arguments as JSON, including the defaults of omitted ones."""
        bound = self.signature.bind(*args, **named)
        bound.apply_defaults()
        return to_json(tuple(bound.arguments.values()), self.arguments_kind)

    def arguments(self, data: bytes) -> Mapping[str, Any]:
        """Parse a call's arguments by name. Raises `ValueError`."""
        values = from_json(data, self.arguments_kind)
        return dict(zip(self.signature.parameters, values, strict=True))


@cache
def method(part: str, name: str) -> Method:
    """Return a method by its part and name.

    Raises `LookupError` if it cannot be called remotely.
    """
    declared = None if hasattr(JobFiles, name) else getattr(PARTS[part], name, None)
    if name.startswith("_") or not inspect.iscoroutinefunction(declared):
        raise LookupError(f"{part}.{name}")
    whole = inspect.signature(declared)
    signature = whole.replace(parameters=list(whole.parameters.values())[1:])
    hints = get_type_hints(declared)
    kinds = tuple(hints[each] for each in signature.parameters)
    return Method(
        part=part,
        name=name,
        signature=signature,
        arguments_kind=tuple[kinds],  # type: ignore[valid-type]
        result_kind=hints["return"],
    )


_CLASSES: Mapping[str, type[QueueError]] = {
    name: each
    for name, each in inspect.getmembers(errors, inspect.isclass)
    if issubclass(each, QueueError)
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """An error as a value: its class, its texts for the log and for people, its attributes."""

    kind: str
    cause: str
    problem: Problem | None
    values: Mapping[str, JsonValue]


def failure_of(error: QueueError) -> Failure:
    """Convert an error to a value. An unknown class is replaced by its nearest known base class."""
    kind = next(each.__name__ for each in type(error).__mro__ if each.__name__ in _CLASSES)
    known = inspect.signature(_CLASSES[kind].__init__).parameters
    values = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in vars(error).items()
        if name in known and name != "problem"
    }
    return Failure(kind=kind, cause=str(error), problem=error.problem, values=values)


def error_of(failure: Failure) -> QueueError:
    """Convert a value back to an error. Raises `KeyError` for an unknown class."""
    error = _CLASSES[failure.kind].__new__(_CLASSES[failure.kind])
    QueueError.__init__(error, failure.cause, problem=failure.problem)
    for name, value in failure.values.items():
        setattr(error, name, tuple(value) if isinstance(value, list) else value)
    return error


WIRE = 3
"""Version of the protocol. Processes with different versions refuse to connect."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Frame:
    """A parsed frame: the words of its head, and its JSON."""

    words: tuple[str, ...]
    body: bytes = b""

    @property
    def kind(self) -> str:
        """The first word, which names the kind of frame."""
        return self.words[0]

    @property
    def number(self) -> int:
        """The number of the call that the frame belongs to."""
        return int(self.words[1])


def written(*words: str | int, body: bytes = b"") -> bytes:
    """Build a frame."""
    return " ".join(map(str, words)).encode() + b"\n" + body


def read(data: bytes) -> Frame:
    """Parse a frame. Raises `ValueError`."""
    head, _, body = data.partition(b"\n")
    words = tuple(head.decode("ascii").split())
    if not words:
        raise ValueError("a frame without a head")
    return Frame(words=words, body=body)


_NONCE_BYTES = 32
_GREETING_LIMIT = 200  # bytes, so that unauthenticated peers cannot fill the memory
_HOLDER, _GUEST = b"holder", b"guest"


class NotTrusted(Exception):
    """Raised if the other side does not know the secret or has another protocol version."""


async def greet_guest(wire: Wire, secret: bytes) -> None:
    """Authenticate a process that connects to the leader. Raises `NotTrusted` and `WireBroken`."""
    mine = _nonce()
    await wire.send(written("hello", WIRE, body=mine))
    theirs, proof = _halves(_of_this_version(await wire.receive(_GREETING_LIMIT)))
    if not hmac.compare_digest(proof, _proof(secret, _GUEST, mine, theirs)):
        raise NotTrusted("the other process does not know the secret of this cluster")
    await wire.send(written("hello", WIRE, body=_proof(secret, _HOLDER, mine, theirs)))


async def greet_holder(wire: Wire, secret: bytes) -> None:
    """Authenticate this process with the leader. Raises `NotTrusted` and `WireBroken`."""
    theirs = _of_this_version(await wire.receive(_GREETING_LIMIT))
    mine = _nonce()
    proof = _proof(secret, _GUEST, theirs, mine)
    await wire.send(written("hello", WIRE, body=mine + proof))
    try:
        answer = _of_this_version(await wire.receive(_GREETING_LIMIT))
    except WireBroken:
        raise NotTrusted("the process that holds the queue rejected this one") from None
    if not hmac.compare_digest(answer, _proof(secret, _HOLDER, theirs, mine)):
        raise NotTrusted("the server at the queue's address does not know the secret")


def _of_this_version(data: bytes) -> bytes:
    """Return the body of a greeting. Raises `NotTrusted` if its version differs."""
    version: int | None = None
    frame = Frame(words=())
    with suppress(ValueError, IndexError):
        frame = read(data)
        version = frame.number if frame.kind == "hello" else None
    if version != WIRE:
        raise NotTrusted(
            f"the other process uses version {version} of the protocol between processes, this one"
            f" {WIRE}: run the same version of Usher in both"
        )
    return frame.body


def _halves(body: bytes) -> tuple[bytes, bytes]:
    return body[:_NONCE_BYTES], body[_NONCE_BYTES:]


def _nonce() -> bytes:
    return secrets.token_bytes(_NONCE_BYTES)


def _proof(secret: bytes, role: bytes, holders: bytes, guests: bytes) -> bytes:
    return hmac.digest(secret, role + b"\0" + holders + guests, "sha256")
