"""Reads the files of a person's results, newest first, and stores which of them they marked.

Results that were deleted in a chat are left out, although `/show` can still show them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, Literal

from bot.platforms.web.chat import sql
from queueing.core.requests import REQUESTS, AnyRequest
from queueing.store.sql.database import Connection, Database

PAGE = 60  # files; a result with several is never divided
_AT_ONCE = 100  # jobs to read at a time
_READ_MOST = 2000  # jobs to read for a page; a search that finds less continues with the next one
_AFTER_ALL = 2**63 - 1

MediaKind = Literal["image", "video", "sound"]
_KINDS: dict[str, MediaKind] = {"image": "image", "video": "video", "audio": "sound"}


@dataclass(frozen=True, kw_only=True, slots=True)
class GalleryFile:
    """A file of a result. `image` is its number among the result's images, counted from 1.

    `finished_at` is when the result was completed, in UNIX seconds.
    """

    job: int
    number: int
    image: int | None
    kind: MediaKind
    name: str
    mime: str
    size: int
    model: str
    request: AnyRequest
    finished_at: float
    favourite: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """The files to read: those of jobs before the id `before` that meet every condition.

    `text` is words that the prompt contains, in any order and case.
    """

    before: int | None = None
    kind: MediaKind | None = None
    model: str | None = None
    text: str = ""
    favourite: bool = False

    def includes(self, file: GalleryFile) -> bool:
        """Return whether a file meets the conditions."""
        prompt = file.request.words.casefold()
        return (
            self.kind in {None, file.kind}
            and self.model in {None, file.model}
            and (file.favourite or not self.favourite)
            and all(word in prompt for word in self.text.casefold().split())
        )


class GalleryStore:
    """Reads results and marks. A mark is durable on return and leaves with its file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, owner: str, wanted: Wanted) -> tuple[Sequence[GalleryFile], int | None]:
        """Return the newest files wanted, and the `before` of the next page, if there may be one."""
        found: list[GalleryFile] = []
        before = wanted.before or _AFTER_ALL
        for _ in range(_READ_MOST // _AT_ONCE):
            results = await self._read(owner, before, _AT_ONCE)
            for files in results:
                found += filter(wanted.includes, files)
                before = files[0].job
                if len(found) >= PAGE:
                    return found, before
            if len(results) < _AT_ONCE:
                return found, None
        return found, before

    async def of_job(self, owner: str, job_id: int) -> Sequence[GalleryFile]:
        """Return the files of one result; none if it is not the owner's or is gone."""
        results = await self._read(owner, job_id + 1, 1)
        return [file for files in results for file in files if file.job == job_id]

    async def models(self, owner: str) -> Sequence[str]:
        """Return the models that made the owner's results."""
        rows = await self._database.rows(sql.RESULT_MODELS, (owner, _AFTER_ALL))
        return [model for (model,) in rows]

    async def mark(self, job_id: int, number: int, *, favourite: bool) -> None:
        """Mark a file as a favourite, or remove its mark. Idempotent."""
        await self._database.execute(sql.MARK if favourite else sql.UNMARK, (job_id, number))

    async def _read(self, owner: str, before: int, limit: int) -> list[list[GalleryFile]]:
        def query(connection: Connection) -> list[list[GalleryFile]]:
            rows = connection.execute(sql.RESULT_FILES, (owner, before, limit)).fetchall()
            return [list(_files(list(of_job))) for _, of_job in groupby(rows, itemgetter(0))]

        return await self._database.read(query)


def _files(rows: Sequence[Sequence[Any]]) -> Iterator[GalleryFile]:
    """Return the files of a job's rows."""
    job, model, request, finished_at = rows[0][:4]
    asked, images = REQUESTS.validate_json(request), 0
    for number, name, mime, size, favourite in (row[4:] for row in rows):
        kind = _KINDS[mime.partition("/")[0]]
        images += kind == "image"
        yield GalleryFile(
            job=job,
            number=number,
            image=images if kind == "image" else None,
            kind=kind,
            name=name,
            mime=mime,
            size=size,
            model=model,
            request=asked,
            finished_at=finished_at,
            favourite=bool(favourite),
        )
