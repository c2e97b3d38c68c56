"""What a waiting caller is told: place, reason and moment, as values and as one line of English."""

from datetime import UTC, datetime

from pydantic import JsonValue

from bot.gateway.runs import Run
from queueing.core import reasons
from queueing.core.standings import ModelStatus, Standing


def place_of(run: Run) -> dict[str, JsonValue]:
    """Return where a job stands, with moments in UTC; what cannot be said is left out."""
    told: dict[str, JsonValue] = {"job": run.job.id, "state": str(run.job.state)}
    standing = run.standing
    if standing is None or not run.waits:
        return told
    if standing.position is not None:
        told["position"] = standing.position
    if (reason := reason_of(standing)) is not None:
        told["reason"] = reason
    if standing.done_at is not None:
        told["ready_at"] = moment(standing.done_at)
    return told


def reason_of(standing: Standing | ModelStatus) -> str | None:
    """Return why something waits, as one sentence without a full stop; its moments are in UTC."""
    if standing.reason is None:
        return None
    words = reasons.words(standing.reason)
    return "".join(_clock(word) if isinstance(word, float) else word for word in words)


def moment(at: float) -> str:
    """Return a moment as ISO 8601 in UTC, to the second."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _clock(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%H:%M:%S} UTC"
