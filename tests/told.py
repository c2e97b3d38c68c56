"""What a person reads of an error."""

from bot.texts.refusals import told
from queueing.core.errors import QueueError


def words(error: QueueError) -> str:
    """Return the English words, "" where the error's class says enough."""
    return "" if error.problem is None else told(error.problem, "en")
