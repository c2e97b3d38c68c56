"""Reads layouts: messages whose text and files are all in components, such as the bot's galleries.

Discord leaves such files out of the message's attachments.
"""

from collections.abc import Iterable, Iterator

import discord
from discord.components import (
    Component,
    Container,
    FileComponent,
    MediaGalleryComponent,
    SectionComponent,
    TextDisplay,
    ThumbnailComponent,
    UnfurledMediaItem,
)


def words_in(message: discord.Message | discord.MessageSnapshot) -> Iterator[str]:
    """Yield the texts of a layout."""
    for part in _parts(message.components):
        if isinstance(part, TextDisplay):
            yield part.content


def media_in(message: discord.Message | discord.MessageSnapshot) -> Iterator[UnfurledMediaItem]:
    """Yield the files that were uploaded with a layout."""
    for part in _parts(message.components):
        for item in _shown_by(part):
            if item.attachment_id is not None:
                yield item


def _shown_by(part: Component) -> Iterable[UnfurledMediaItem]:
    match part:
        case MediaGalleryComponent(items=items):
            return [each.media for each in items]
        case FileComponent(media=media) | ThumbnailComponent(media=media):
            return [media]
        case _:
            return []


def _parts(components: Iterable[Component]) -> Iterator[Component]:
    for part in components:
        yield part
        match part:
            case Container(children=inner):
                yield from _parts(inner)
            case SectionComponent(children=inner, accessory=accessory):
                yield from _parts((*inner, accessory))
