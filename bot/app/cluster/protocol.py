"""How processes speak: frames, calls of the queue by name, values and errors as JSON, and trust.

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

Every argument and result of the ports of the queue can be written, by the type that the port names.
Bytes are base64: a call carries the files of one request at most, which the chats keep below some
tens of megabytes, and a preview is small. An event is written with the name of its class.

The secret is drawn by the holder of the queue and lies in the database. Each side answers a number
that the other has drawn with an HMAC over both numbers and its own role, so that nothing heard on
the line can be used again, and neither side's answer can be sent back to it.
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
    """Return a value of a type as JSON."""
    return _adapter(kind).dump_json((value,), warnings="error")


def from_json(data: bytes, kind: Any) -> Any:
    """Return the value of a type that `to_json` wrote. Raises `ValueError`."""
    return _adapter(kind).validate_json(data)[0]


def event_to_json(event: Event) -> tuple[str, bytes]:
    """Return the name of an event's class, and the event as JSON."""
    name = type(event).__name__
    return name, to_json(event, _EVENTS[name])


def event_from_json(name: str, data: bytes) -> Event:
    """Return the event that `event_to_json` wrote. Raises `ValueError`, `KeyError`."""
    event: Event = from_json(data, _EVENTS[name])
    return event


@cache
def _adapter(kind: Any) -> TypeAdapter[tuple[Any]]:
    # In a tuple, because pydantic takes no configuration for a dataclass alone.
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
"""The parts of `QueueService` whose calls travel; `events` are pushed, `JobFiles` read where asked."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """One awaited call of a part."""

    part: str
    name: str
    signature: inspect.Signature
    arguments_kind: Any
    result_kind: Any

    def arguments_json(self, args: Sequence[object], named: Mapping[str, object]) -> bytes:
        """Return the arguments of a call as JSON, the omitted ones included."""
        bound = self.signature.bind(*args, **named)
        bound.apply_defaults()
        return to_json(tuple(bound.arguments.values()), self.arguments_kind)

    def arguments(self, data: bytes) -> Mapping[str, Any]:
        """Return the arguments by name. Raises `ValueError`."""
        values = from_json(data, self.arguments_kind)
        return dict(zip(self.signature.parameters, values, strict=True))


@cache
def method(part: str, name: str) -> Method:
    """Return a call by the names of its part and itself. Raises `LookupError` if none travels."""
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
    """An error: its class, its text for the log, what people are shown, and its own values."""

    kind: str
    cause: str
    problem: Problem | None
    values: Mapping[str, JsonValue]


def failure_of(error: QueueError) -> Failure:
    """Return an error as a value; an unknown class becomes the nearest known one."""
    kind = next(each.__name__ for each in type(error).__mro__ if each.__name__ in _CLASSES)
    known = inspect.signature(_CLASSES[kind].__init__).parameters
    values = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in vars(error).items()
        if name in known and name != "problem"
    }
    return Failure(kind=kind, cause=str(error), problem=error.problem, values=values)


def error_of(failure: Failure) -> QueueError:
    """Return the error that a failure was made from. Raises `KeyError` for an unknown class."""
    error = _CLASSES[failure.kind].__new__(_CLASSES[failure.kind])
    QueueError.__init__(error, failure.cause, problem=failure.problem)
    for name, value in failure.values.items():
        setattr(error, name, tuple(value) if isinstance(value, list) else value)
    return error


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


_NONCE_BYTES = 32
_GREETING_LIMIT = 200  # bytes: a stranger must not fill this process's memory
_HOLDER, _GUEST = b"holder", b"guest"


class NotTrusted(Exception):
    """The other side does not know the secret, or speaks another version."""


async def greet_guest(wire: Wire, secret: bytes) -> None:
    """Let a process in that knows the secret. Raises `NotTrusted`, `WireBroken`."""
    mine = _nonce()
    await wire.send(written("hello", WIRE, body=mine))
    theirs, proof = _halves(_of_this_version(await wire.receive(_GREETING_LIMIT)))
    if not hmac.compare_digest(proof, _proof(secret, _GUEST, mine, theirs)):
        raise NotTrusted("a process called that does not know the secret of this cluster")
    await wire.send(written("hello", WIRE, body=_proof(secret, _HOLDER, mine, theirs)))


async def greet_holder(wire: Wire, secret: bytes) -> None:
    """Introduce this process to the holder of the queue. Raises `NotTrusted`, `WireBroken`."""
    theirs = _of_this_version(await wire.receive(_GREETING_LIMIT))
    mine = _nonce()
    proof = _proof(secret, _GUEST, theirs, mine)
    await wire.send(written("hello", WIRE, body=mine + proof))
    try:
        answer = _of_this_version(await wire.receive(_GREETING_LIMIT))
    except WireBroken:
        raise NotTrusted("the holder of the queue hung up on this process") from None
    if not hmac.compare_digest(answer, _proof(secret, _HOLDER, theirs, mine)):
        raise NotTrusted("what answers at the address of the queue does not know the secret")


def _of_this_version(data: bytes) -> bytes:
    """Return the body of a greeting. Raises `NotTrusted` unless it has the version of this one."""
    version: int | None = None
    frame = Frame(words=())
    with suppress(ValueError, IndexError):
        frame = read(data)
        version = frame.number if frame.kind == "hello" else None
    if version != WIRE:
        raise NotTrusted(
            f"the other process speaks version {version} of the protocol between processes, this one"
            f" {WIRE}: run the same version of Usher on both"
        )
    return frame.body


def _halves(body: bytes) -> tuple[bytes, bytes]:
    return body[:_NONCE_BYTES], body[_NONCE_BYTES:]


def _nonce() -> bytes:
    return secrets.token_bytes(_NONCE_BYTES)


def _proof(secret: bytes, role: bytes, holders: bytes, guests: bytes) -> bytes:
    return hmac.digest(secret, role + b"\0" + holders + guests, "sha256")
