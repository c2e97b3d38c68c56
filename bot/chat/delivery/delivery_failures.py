"""What to do about a chat that refuses: wait, go slower, try it ever less often, give up after a day.

Renders and sends nothing.
"""

import logging
from collections.abc import Callable, Mapping

from bot.chat.api.errors import ChatError, ChatGone, SlowDown
from bot.chat.delivery.channels import Channel, Channels, pause_s, paused_until
from bot.chat.delivery.status_message import StatusMessage
from bot.chat.records.message_records import MessageRecords, Unreachable
from queueing.core.errors import StoreError
from queueing.core.ports import Clock
from queueing.service.jobqueue import JobQueue

log = logging.getLogger(__name__)

_AWAY_PAUSE_S = 300.0  # the longest between two tries while a platform is away, or after a restart
_GONE_PAUSE_S = 3600.0  # and in a chat that shut us out
_GIVE_UP_S = 24 * 3600.0


class DeliveryFailures:
    """Reacts to failures on cards and desks; `drop` lets go of a card that is given up."""

    def __init__(
        self,
        *,
        queue: JobQueue,
        records: MessageRecords,
        clock: Clock,
        desks: Channels,
        drop: Callable[[StatusMessage], None],
    ) -> None:
        self._queue = queue
        self._records = records
        self._clock = clock
        self._desks = desks
        self._drop = drop

    def slow_down(self, desk: Channel, card: StatusMessage, slow: SlowDown) -> None:
        """Wait out a penalty: the whole chat, or only a message that is too old."""
        now = self._clock.now()
        if card.free(desk.pace):
            card.hold_until = now + slow.retry_after_s  # the answer to a call, on no chat's account
        elif not slow.old_message:
            desk.pace.slow_down(now, slow.retry_after_s)
        elif card.job.state.final:
            card.ref = None  # its end comes as a fresh message
        else:
            card.hold_until = now + slow.retry_after_s

    async def leave_alone(self, desk: Channel, card: StatusMessage, error: ChatError) -> None:
        """Try a chat that cannot be reached ever less often, with one card for all of its."""
        now = self._clock.now()
        longest_s = _GONE_PAUSE_S if isinstance(error, ChatGone) else _AWAY_PAUSE_S
        pause = desk.unreachable(now, longest_s)
        log.warning(
            "job %s: chat %s not reached, again in %.0f s: %s",
            card.job.id,
            card.origin.chat,
            pause,
            error,
        )
        for each in [each for each in desk.cards.values() if each.job.state.final]:
            await self._note_failure(each, now, tries=desk.failures)

    async def try_later(self, card: StatusMessage, error: Exception) -> None:
        """Pause one card, longer each time."""
        now = self._clock.now()
        card.failures += 1
        pause = min(pause_s(card.failures), _AWAY_PAUSE_S)
        card.hold_until = now + pause
        text = "job %s: its message could not be shown, again in %.0f s: %s"
        if isinstance(error, StoreError):
            log.warning(text, card.job.id, pause, error)
        else:
            log.error(text, card.job.id, pause, error, exc_info=error)  # a bug
        if card.job.state.final:
            await self._note_failure(card, now)

    async def _note_failure(self, card: StatusMessage, now: float, *, tries: int = 1) -> None:
        """Count a failed delivery; after a day of them, give up. Never raises."""
        try:
            vain = await self._records.note_unreachable(
                card.job.id, now, given_up=False, tries=tries
            )
            if now - vain.since <= _GIVE_UP_S or card.dropped:
                return
            await self._records.note_unreachable(card.job.id, now, given_up=True)
            await self._queue.acknowledge(card.job)
        except Exception:
            log.exception("job %s: its failed delivery was not noted", card.job.id)
            return
        self._drop(card)
        log.error("job %s: undeliverable after a day; its result is kept", card.job.id)

    def remember(
        self, cards: Mapping[int, StatusMessage], unreachable: Mapping[int, Unreachable]
    ) -> None:
        """Go on with an earlier run's pauses: a restart neither hammers a chat nor forgets it."""
        now = self._clock.now()
        for job_id, vain in unreachable.items():
            if (card := cards.get(job_id)) is not None:
                desk = self._desks.of(card)
                desk.failures = max(desk.failures, vain.tries)
                until = min(paused_until(vain.since, vain.tries), now + _AWAY_PAUSE_S)
                desk.paused_until = max(desk.paused_until, until)
