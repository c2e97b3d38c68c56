"""Addresses of images that people paste into a prompt, as attachments. Fetches nothing itself."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from bot.commands.call.parser import IMAGE_ADDRESS, takes_addresses
from bot.core.attachments import AttachmentKind
from bot.core.command import Command
from bot.core.platform import Attachment, Invocation
from bot.requests.files.images import IMAGE_MB

Fetch = Callable[[str, int], Awaitable[bytes]]
"""Fetches an image of at most so many bytes: `fetch(address, most)`. Raises `ChatError`."""


def with_pasted(command: Command, call: Invocation, fetch: Fetch) -> Invocation:
    """Return a call whose pasted addresses are attachments, and not words of its prompt."""
    if not takes_addresses(command):
        return call
    typed = {name: value for name, value in call.options.items() if isinstance(value, str)}
    found = [
        match[0] for text in (call.text, *typed.values()) for match in IMAGE_ADDRESS.finditer(text)
    ]
    if not found:
        return call
    left = {name: IMAGE_ADDRESS.sub("", value) for name, value in typed.items()}
    return replace(
        call,
        text=IMAGE_ADDRESS.sub("", call.text),
        options={**call.options, **left},
        files=(*call.files, *(_attached(address.strip("<>"), fetch) for address in found)),
    )


def _attached(address: str, fetch: Fetch) -> Attachment:
    return Attachment(
        kind=AttachmentKind.IMAGE,
        name=address.partition("?")[0].rpartition("/")[2],
        mime="",
        size=0,
        read=partial(fetch, address, IMAGE_MB * 1_000_000),
    )
