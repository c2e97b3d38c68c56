"""Prepares a server's files for people by removing what programs wrote into them."""

import asyncio

from backends.media import films
from backends.media.metadata import svg, without_metadata
from backends.media.metadata.kinds import is_film, is_picture, is_sound, is_text, mime_of


class KeptBack(Exception):
    """A file that may hold more than what is visible; the text is for the operator."""


async def bare(data: bytes) -> bytes:
    """Return a result without metadata. Raises `KeptBack`, and `ValueError` for a damaged file."""
    mime = mime_of(data)
    if is_picture(mime):
        return await asyncio.to_thread(without_metadata, data)
    if is_film(mime) or is_sound(mime):
        try:
            return await films.cleaned(data)
        except films.FilmError as error:
            raise KeptBack(str(error)) from error
    return await asyncio.to_thread(_bare_text, data)


def _bare_text(data: bytes) -> bytes:
    if not is_text(data):
        raise KeptBack("neither picture, film, sound nor text")
    return svg.clean(data) if svg.is_drawing(data) else data
