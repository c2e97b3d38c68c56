"""Passes a server's chunks on under another heading; those that differ in text alone are not parsed."""

from collections.abc import Callable

from queueing.core.alike import PROBE, KnownForm

Around = tuple[bytes, ...]
"""What stands around the text of a chunk, as it is sent; thoughts are sent under two names."""


def pass_on(chunk: str, known: KnownForm[Around], renamed: Callable[[str], bytes]) -> bytes:
    """Return a chunk as it is sent: by its known form, or parsed by `renamed`."""
    if (found := known.read(chunk)) is not None:
        around, said = found
        return said.encode().join(around)
    data = renamed(chunk)
    known.learn(chunk)
    return data


def around_text(data: bytes) -> Around | None:
    """Return what stands around the text of a chunk that says `PROBE`, None if it does not."""
    around = tuple(data.split(PROBE.encode()))
    return around if len(around) > 1 else None
