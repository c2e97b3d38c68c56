"""How long delivered work is kept, by age and by size: jobs and the web chat's messages together."""

import logging

from bot.config.sections import RetentionConfig
from bot.platforms.web.chat_log import ChatLog
from queueing.store.jobs.job_store import JobStore

log = logging.getLogger(__name__)

_ROOM_MB = 512
_DAY_S = 24 * 3600.0


def most_mb(kept: RetentionConfig) -> int:
    """Return how large the database may become: what is kept, and what arrives before it is tidied.

    Beyond that it counts as a full disk: nothing is accepted, and results wait for space.
    """
    return kept.size_mb + kept.size_mb // 4 + _ROOM_MB


async def delete_expired(
    jobs: JobStore, chat_log: ChatLog, kept: RetentionConfig, now: float
) -> None:
    """Delete what is older or larger than may be kept. Idempotent; raises `StoreError`.

    The page's pictures are copies of job results, so they may take half of the size; jobs have all
    that these leave.
    """
    before = now - kept.days * _DAY_S
    page_mb = await chat_log.shrink(kept.size_mb // 2)
    gone = await jobs.purge(before, keep_mb=kept.size_mb - page_mb)
    if gone:
        log.info("retention: jobs deleted: %d", gone)
    await chat_log.expire(before)
