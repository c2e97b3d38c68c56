"""Films that people send: shown to a model as pictures, made in a process of their own."""

from math import ceil

from backends.media import videos
from bot.core.refusals import Declined, FileTooHeavy, NotAFilm
from queueing.core.requests import File

FILM_MB = 20  # the most Telegram lets a bot download; the same everywhere
_READ_S = 30.0


def require_film_weight(name: str, size: int) -> None:
    """Refuse a film of more bytes than are taken. Raises `Declined`."""
    if size > FILM_MB * 1_000_000:
        raise Declined(FileTooHeavy(name=name, size_mb=ceil(size / 1_000_000), limit_mb=FILM_MB))


async def seen(name: str, data: bytes, most: int) -> tuple[File, ...]:
    """Return at most so many pictures of a stranger's film, in order. Raises `Declined`."""
    require_film_weight(name, len(data))
    try:
        made = await videos.frames(File(name="film", mime="", data=data), most, wall_s=_READ_S)
    except videos.FilmError:
        made = []
    if not made:
        raise Declined(NotAFilm(name=name))
    return tuple(made[:most])
