"""The records of the native API beside jobs: files sent ahead, and webhooks."""

from typing import Literal

from bot.api.runs.views import View
from queueing.core.jobs import JobState


class UploadView(View):
    """A file that was sent ahead, in OpenAI's form. Times are UNIX seconds."""

    object: Literal["file"] = "file"
    id: str
    bytes: int
    created_at: int
    expires_at: int
    filename: str
    mime: str
    purpose: Literal["vision"] = "vision"
    status: Literal["processed"] = "processed"


class UploadList(View):
    """The caller's files, newest first, all at once: OpenAI's clients ask again without `has_more`."""

    object: Literal["list"] = "list"
    data: tuple[UploadView, ...]
    has_more: Literal[False] = False


class DeletedUpload(View):
    """A file that was deleted."""

    object: Literal["file"] = "file"
    id: str
    deleted: Literal[True] = True


class HookJob(View):
    """A job that has ended, without its prompt or result, which are at its `url`."""

    object: Literal["job"] = "job"
    id: int
    model: str
    state: JobState
    created_at: str
    started_at: str | None = None
    finished_at: str
    url: str


class HookEvent(View):
    """What a webhook receives: `type` is `job.completed`, `job.failed` or `job.cancelled`.

    A repeated call has the same `id`.
    """

    object: Literal["event"] = "event"
    id: str
    type: str
    created_at: int
    data: HookJob


class HookSecret(View):
    """The origins of webhooks that may be called, and the secret of the caller's key.

    The calls for its jobs are signed with the secret, as Standard Webhooks describes.
    """

    object: Literal["webhooks"] = "webhooks"
    origins: tuple[str, ...]
    secret: str
