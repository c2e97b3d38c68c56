"""Measurements of deliveries; metrics implement them if they are enabled."""

from collections.abc import Awaitable
from typing import Literal, Protocol

from bot.core.errors import (
    ChatError,
    ChatGone,
    ChatMoved,
    ContentRefused,
    MessageGone,
    SlowDown,
    TooLarge,
)

EditOutcome = Literal["shown", "slowed", "refused", "gone", "failed"]


class DeliveryMeter(Protocol):
    """Counts edits and measures deliveries. Implementations must be fast and never raise."""

    def edited(self, platform: str, outcome: EditOutcome) -> None:
        """Record an edit of a status message."""

    def delivered(self, platform: str, seconds: float) -> None:
        """Record how long after the job's end its complete result was shown."""


class Unmeasured:
    """Discards all measurements."""

    def edited(self, platform: str, outcome: EditOutcome) -> None:
        """Discard an edit."""

    def delivered(self, platform: str, seconds: float) -> None:
        """Discard a delivery."""


async def counted(meter: DeliveryMeter, platform: str, edit: Awaitable[None]) -> None:
    """Await an edit and record its outcome. Exceptions are passed on."""
    try:
        await edit
    except ChatError as error:
        meter.edited(platform, _outcome(error))
        raise
    meter.edited(platform, "shown")


def _outcome(error: ChatError) -> EditOutcome:
    match error:
        case SlowDown():
            return "slowed"
        case ContentRefused() | TooLarge():
            return "refused"
        case MessageGone() | ChatGone() | ChatMoved():
            return "gone"
    return "failed"
