"""Who reads what running jobs report: how far they are, all; words and pictures, some.

The words of a chat's jobs are shown by the process that holds the chat, and those of programs by
every process that serves the API, because a repeated call may reach any of them. Where a program
asks for a chat's job, that one job is read as well.
"""

from collections.abc import Collection, Sequence

from bot.app.cluster import frames
from bot.app.cluster.json_values import to_json
from bot.app.cluster.progress_news import News
from bot.core.origin import origin_in
from queueing.core.jobs import Job


class JobPlatforms:
    """The platforms that running jobs are from, as far as they are known."""

    def __init__(self) -> None:
        self._of: dict[int, str] = {}

    def note(self, job: Job) -> None:
        """Record a change of a job."""
        if job.state.final:
            self._of.pop(job.id, None)
        elif (origin := origin_in(job.reply_to)) is not None:
            self._of[job.id] = origin.platform

    def unread(self, news: Sequence[News], reads: frozenset[str] | None) -> frozenset[int]:
        """Return the jobs whose words a process does not read; one that reads None has not said."""
        if reads is None:
            return frozenset()
        known = (each.job_id for each in news if each.job_id in self._of)
        return frozenset(
            job_id for job_id in known if reads.isdisjoint({self._of[job_id], str(job_id)})
        )


def written_progress(news: Sequence[News], unread: Collection[int] = ()) -> bytes | None:
    """Return news as a frame, without the words of some jobs; None if nothing is left to tell."""
    told = [each.outline() if each.job_id in unread else each for each in news]
    left = tuple(each for each in told if each is not None)
    return frames.written("progress", body=to_json(left, tuple[News, ...])) if left else None
