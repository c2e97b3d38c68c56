"""Passes a server's chunks on under another heading; those that differ in text alone are not parsed."""

from collections.abc import Callable

from queueing.core.alike import PROBE, KnownForm

Around = tuple[bytes, bytes]
"""What stands before and after the text of a chunk, as it is sent."""


def pass_on(chunk: str, known: KnownForm[Around], renamed: Callable[[str], bytes]) -> bytes:
    """Return a chunk as it is sent: by its known form, or parsed by `renamed`."""
    if (found := known.read(chunk)) is not None:
        (before, after), said = found
        return before + said.encode() + after
    data = renamed(chunk)
    known.learn(chunk)
    return data


def around_text(data: bytes) -> Around | None:
    """Return what stands around the text of a chunk that says `PROBE`; None unless it does once."""
    before, *after = data.split(PROBE.encode())
    return (before, after[0]) if len(after) == 1 else None
