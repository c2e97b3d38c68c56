"""Addresses of images that people paste or reply to, as attachments. Fetches nothing itself."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain

from bot.commands.call.parser import IMAGE_ADDRESS, takes_addresses
from bot.core.attachments import AttachmentKind
from bot.core.command import Command
from bot.core.platform import Attachment, Invocation
from bot.requests.files.images import IMAGE_MB

Fetch = Callable[[str, int], Awaitable[bytes]]
"""Fetches an image of at most so many bytes: `fetch(address, most)`. Raises `ChatError`."""


def with_pasted(command: Command, call: Invocation, fetch: Fetch) -> Invocation:
    """Return a call whose pasted addresses are attachments, and not words of its prompt.

    Those in a message that is replied to count as the images of that message.
    """
    if not takes_addresses(command):
        return call
    typed = {name: value for name, value in call.options.items() if isinstance(value, str)}
    shows = any(each.replied and each.kind is AttachmentKind.IMAGE for each in call.files)
    theirs = _attached(() if shows else (call.quoted,), fetch, replied=True)
    own = _attached((call.text, *typed.values()), fetch)
    left = {name: IMAGE_ADDRESS.sub("", value) for name, value in typed.items()}
    return replace(
        call,
        text=IMAGE_ADDRESS.sub("", call.text),
        options={**call.options, **left},
        files=(*call.files, *theirs, *own),
    )


def _attached(texts: Iterable[str], fetch: Fetch, *, replied: bool = False) -> Iterator[Attachment]:
    """Yield the images whose addresses stand in texts."""
    for found in chain.from_iterable(map(IMAGE_ADDRESS.finditer, texts)):
        address = found[0].strip("<>")
        yield Attachment(
            kind=AttachmentKind.IMAGE,
            name=address.partition("?")[0].rpartition("/")[2],
            mime="",
            size=0,
            read=partial(fetch, address, IMAGE_MB * 1_000_000),
            replied=replied,
        )
