"""What the operator's page is shown, as JSON: the records of `bot/monitoring/`, and what it adds.

Added are reasons in the reader's language, the first waiting jobs of each line, and, where several
processes share the work, which of them this is.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bot.core.queue import OpenJobReader
from bot.monitoring.live_state import LineNow, OperatorNow
from bot.monitoring.reading import OperatorRecords
from bot.monitoring.records import HourSpan
from bot.monitoring.written import to_json
from bot.platforms.web.renderer import shown_body
from bot.texts import status
from queueing.core.jobs import Job, JobState
from queueing.core.leases import PostReader
from queueing.core.snapshot import Reason

JOBS_SHOWN = 15  # of a line; the others are counted

Json = dict[str, Any]


class OperatorPicture:
    """Draws the bot for its operators.

    Awaited calls raise `QueueError`s only. Equal states give equal bytes: no answer contains a
    clock that runs by itself, so a page is sent only what changed.
    """

    def __init__(
        self, records: OperatorRecords, jobs: OpenJobReader, posts: PostReader | None = None
    ) -> None:
        self._records = records
        self._jobs = jobs
        self._posts = posts

    async def now(self, language: str) -> bytes:
        """Return the hosts and what is in their memory, what runs, and every line."""
        told = await self._records.read_now()
        waiting = _by_line(await self._jobs.open_jobs())
        drawn: Json = json.loads(to_json(replace(told, at=0.0)))
        for shown, host in zip(drawn["hosts"], told.hosts, strict=True):
            shown["rest"] = _words(host.rest, language)
        for shown, line in zip(drawn["lines"], told.lines, strict=True):
            shown.update(_of_line(line, waiting.get(line.model, ()), told, language))
            del shown["oldest_s"], shown["reason"]
        return _written(drawn | {"cluster": await self._cluster()})

    async def hours(self, span: HourSpan) -> bytes:
        """Return what happened in the last hour, day or week."""
        return to_json(await self._records.read_hours(span))

    async def people(self) -> bytes:
        """Return who used how much today, who is banned, and the newest acts of admins."""
        return to_json(replace(await self._records.read_people(), at=0.0))

    async def _cluster(self) -> Json | None:
        """Return which process serves the page and which one holds the queue, if they differ."""
        if self._posts is None:
            return None
        holders = {post.name: post.holder for post in await self._posts.posts()}
        here, queue = holders.get("web", ""), holders.get("queue", "")
        return None if here == queue else {"here": here, "queue": queue}


def _of_line(line: LineNow, waiting: Sequence[Job], told: OperatorNow, language: str) -> Json:
    reason = line.reason if line.reason is not None and status.tells(line.reason) else None
    return {
        "oldest_at": None if line.oldest_s is None else round(told.at - line.oldest_s, 1),
        "because": _words(reason, language),
        "jobs": [_of_job(job) for job in waiting[:JOBS_SHOWN]],
        "more": max(0, len(waiting) - JOBS_SHOWN),
    }


def _words(reason: Reason | None, language: str) -> list[Json]:
    """Return a reason as the page shows it; nothing for none."""
    because = () if reason is None else status.because(reason, language)
    return [part.model_dump() for part in shown_body(because)]


def _of_job(job: Job) -> Json:
    """Return a waiting job; never what was asked for, which is its person's own."""
    return {
        "job": job.id,
        "model": job.model,
        "name": job.owner,
        "lane": job.lane,
        "since": job.queued_at,
    }


def _by_line(jobs: Sequence[Job]) -> Mapping[str, Sequence[Job]]:
    """Return the jobs that wait in line, each line in its order of arrival and of admins' moves."""
    waiting: dict[str, list[Job]] = {}
    in_line = (job for job in jobs if job.state is JobState.PENDING and job.seq is not None)
    for job in sorted(in_line, key=lambda job: job.seq or 0):
        waiting.setdefault(job.model, []).append(job)
    return waiting


def _written(drawn: Json) -> bytes:
    return json.dumps(drawn, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
