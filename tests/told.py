"""How the tests read errors as a person would."""

from bot.texts.refusals import told
from queueing.core.errors import QueueError


def words(error: QueueError) -> str:
    """Return the English text of an error, or "" where the error's class says enough."""
    return "" if error.problem is None else told(error.problem, "en")
