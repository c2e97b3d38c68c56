"""What is measured of deliveries, and by whom: metrics count here, if there are any."""

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
    """Counts edits and measures deliveries; neither may take long or raise."""

    def edited(self, platform: str, outcome: EditOutcome) -> None:
        """Note an edit of a status message."""

    def delivered(self, platform: str, seconds: float) -> None:
        """Note how long after its end a result was shown whole."""


class Unmeasured:
    """Measures nothing."""

    def edited(self, platform: str, outcome: EditOutcome) -> None:
        """Ignore an edit."""

    def delivered(self, platform: str, seconds: float) -> None:
        """Ignore a delivery."""


async def counted(meter: DeliveryMeter, platform: str, edit: Awaitable[None]) -> None:
    """Make an edit and note its outcome; it raises what it raised."""
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
