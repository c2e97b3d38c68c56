"""Says where the original of a result is that a chat got in a smaller form, or not at all."""

from collections.abc import Sequence

from bot.core.content import Body
from bot.people.links import Links
from bot.texts.catalogue import join, say
from queueing.core.jobs import Job


class OriginalHints:
    """By a link if links can be made, otherwise on the page if there is one."""

    def __init__(self, links: Links | None = None, *, on_page: bool = False) -> None:
        self._links = links
        self._on_page = on_page

    async def links(self, job: Job, files: int, language: str) -> Body:
        """Return the links to the first files of a job's result, if links can be made."""
        if self._links is None or await self._links.address(job, 1) is None:
            return ()
        return await self.told(job, range(1, files + 1), language)

    async def told(self, job: Job, numbers: Sequence[int], language: str) -> Body:
        """Return where the originals of these files of a job are (counted from 1), if anywhere."""
        lines: list[Body] = []
        for number in numbers:
            link = await self._links.address(job, number) if self._links is not None else None
            if link is None:
                return say(language, "result.on_page", job=job.id) if self._on_page else ()
            one = len(numbers) == 1
            key = "result.original" if one else "result.original_number"
            lines.append(say(language, key, link=link, **({} if one else {"number": number})))
        return join(tuple(part for line in lines for part in (*line, "\n"))[:-1])
