"""Finds the pictures of past jobs for the page's history; for a film or sound, its still."""

from backends.media.metadata.kinds import is_film, is_picture, is_sound, mime_of
from bot.chat.delivery.links import Links
from bot.platforms.web.small import LARGEST, PastPicture
from bot.requests.stills import still
from queueing.core.storage import ResultFiles

_HEAD = 64  # bytes that identify a file


class ResultPictures:
    """The first picture of each stored result. Implements `PastPictures`.

    A result that was once deleted is not shown again unasked, although it is kept for `/show`.
    """

    def __init__(self, files: ResultFiles, links: Links) -> None:
        self._files = files
        self._links = links

    async def find(self, owner: str, job_id: int) -> PastPicture | None:
        """Return it; None if the job is not the owner's, or is forgotten, deleted or a text."""
        head = await self._files.head(job_id, 1)
        if head is None or head.owner != owner or head.size > LARGEST:
            return None
        if await self._links.ended(job_id):
            return None
        begins = await self._files.piece(job_id, 1, 0, _HEAD)
        mime = mime_of(begins or b"")
        if not (is_picture(mime) or is_film(mime) or is_sound(mime)):
            return None

        async def read() -> bytes | None:
            data = await self._files.piece(job_id, 1, 0, head.size)
            return None if data is None else await still(head.name, mime, data)

        return PastPicture(name=head.name, read=read)
