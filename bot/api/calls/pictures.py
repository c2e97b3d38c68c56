"""Files of jobs: sent with the request, sent ahead, or the result of an earlier job."""

import re
from dataclasses import dataclass
from http import HTTPStatus

from bot.api.calls.callers import Caller
from bot.api.calls.errors import ApiError
from bot.api.calls.request_files import CallPictures
from bot.api.calls.uploads import PREFIX, Uploads
from bot.core.queue import JobReader
from queueing.core.ports import Clock
from queueing.core.requests import File

_RESULT = re.compile(r"job-(\d{1,18})/(\d{1,4})", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class JobPictures:
    """Finds the files that a request names: `file-…`, `job-12/1`, a data URL or base64."""

    jobs: JobReader
    uploads: Uploads
    clock: Clock

    async def find(self, taken: CallPictures, text: str, param: str) -> File:
        """Return a picture, checked. Raises `ApiError`, a 404 if the caller has no such file."""
        found = await self._kept(taken.caller, text, param)
        if found is None:
            return await taken.named(text, param)
        return await taken.sent(found.data, param)

    async def hear(self, taken: CallPictures, text: str, param: str) -> File:
        """Return a recording, checked. Raises `ApiError`, a 404 if the caller has no such file."""
        found = await self._kept(taken.caller, text, param)
        if found is None:
            return await taken.heard(text, param)
        return await taken.recorded(found.data, param)

    async def _kept(self, caller: Caller, text: str, param: str) -> File | None:
        """Return the file of that name, None for a text that is no name. Raises `ApiError`."""
        if text.startswith(PREFIX):
            found = await self.uploads.file(caller.user, text, self.clock.now())
        elif match := _RESULT.fullmatch(text):
            found = await self._result(caller, int(match[1]), int(match[2]))
        else:
            return None
        if found is None:
            raise no_file(text, param)
        return found

    async def _result(self, caller: Caller, job_id: int, number: int) -> File | None:
        job = await self.jobs.get(job_id)
        if job is None or job.owner != caller.user:
            return None
        output = await self.jobs.output(job)
        files = output.files if output is not None else ()
        return files[number - 1] if 1 <= number <= len(files) else None


def no_file(name: str, param: str | None = None) -> ApiError:
    """Return the error for a file that the caller does not have."""
    return ApiError(
        status=HTTPStatus.NOT_FOUND, message=f"You have no file {name[:60]}.", param=param
    )
