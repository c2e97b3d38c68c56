"""How two processes make sure of each other: each proves that it knows the secret, unsent.

The secret is drawn by the holder of the queue and lies in the database. Each side answers a number
that the other has drawn with an HMAC over both numbers and its own role, so that nothing heard on
the line can be used again, and neither side's answer can be sent back to it.
"""

import hmac
import secrets
from contextlib import suppress

from bot.app.cluster import frames
from bot.app.cluster.wire import Wire, WireBroken

_NONCE_BYTES = 32
_GREETING_LIMIT = 200  # bytes: a stranger must not fill this process's memory
_HOLDER, _GUEST = b"holder", b"guest"


class NotTrusted(Exception):
    """The other side does not know the secret, or speaks another version."""


async def greet_guest(wire: Wire, secret: bytes) -> None:
    """Let a process in that knows the secret. Raises `NotTrusted`, `WireBroken`."""
    mine = _nonce()
    await wire.send(frames.written("hello", frames.WIRE, body=mine))
    theirs, proof = _halves(_of_this_version(await wire.receive(_GREETING_LIMIT)))
    if not hmac.compare_digest(proof, _proof(secret, _GUEST, mine, theirs)):
        raise NotTrusted("a process called that does not know the secret of this cluster")
    await wire.send(
        frames.written("hello", frames.WIRE, body=_proof(secret, _HOLDER, mine, theirs))
    )


async def greet_holder(wire: Wire, secret: bytes) -> None:
    """Introduce this process to the holder of the queue. Raises `NotTrusted`, `WireBroken`."""
    theirs = _of_this_version(await wire.receive(_GREETING_LIMIT))
    mine = _nonce()
    proof = _proof(secret, _GUEST, theirs, mine)
    await wire.send(frames.written("hello", frames.WIRE, body=mine + proof))
    try:
        answer = _of_this_version(await wire.receive(_GREETING_LIMIT))
    except WireBroken:
        raise NotTrusted("the holder of the queue hung up on this process") from None
    if not hmac.compare_digest(answer, _proof(secret, _HOLDER, theirs, mine)):
        raise NotTrusted("what answers at the address of the queue does not know the secret")


def _of_this_version(data: bytes) -> bytes:
    """Return the body of a greeting. Raises `NotTrusted` unless it has the version of this one."""
    version: int | None = None
    frame = frames.Frame(words=())
    with suppress(ValueError, IndexError):
        frame = frames.read(data)
        version = frame.number if frame.kind == "hello" else None
    if version != frames.WIRE:
        raise NotTrusted(
            f"the other process speaks version {version} of the protocol between processes, this one"
            f" {frames.WIRE}: run the same version of Usher on both"
        )
    return frame.body


def _halves(body: bytes) -> tuple[bytes, bytes]:
    return body[:_NONCE_BYTES], body[_NONCE_BYTES:]


def _nonce() -> bytes:
    return secrets.token_bytes(_NONCE_BYTES)


def _proof(secret: bytes, role: bytes, holders: bytes, guests: bytes) -> bytes:
    return hmac.digest(secret, role + b"\0" + holders + guests, "sha256")
