"""What a waiting caller reads: place, reason and time, as values and as a line of English."""

from datetime import UTC, datetime

from pydantic import JsonValue

from bot.api.calls.outcomes import _clock, reason_sentence
from bot.api.runs.runs import Run
from queueing.core.status import ModelStatus, Standing


def place_of(run: Run) -> dict[str, JsonValue]:
    """Return a job's place in line, with times in UTC; unknown values are omitted."""
    told: dict[str, JsonValue] = {"job": run.job.id, "state": str(run.job.state)}
    standing = run.standing
    if standing is None or not run.waits:
        return told
    if standing.position is not None:
        told["position"] = standing.position
    if (reason := reason_of(standing)) is not None:
        told["reason"] = reason
    for name, estimate in (("starts_at", standing.starts), ("ends_at", standing.ends)):
        if estimate is not None:
            told[name] = {"earliest": moment(estimate.earliest), "latest": moment(estimate.latest)}
    return told


def line_of(run: Run) -> str:
    """Return a job's place in line as one line of English."""
    place = place_of(run)
    if not run.waits:
        return "Your request is running."
    parts = [f"#{place['position']} in line" if "position" in place else "Waiting"]
    if "reason" in place:
        parts.append(str(place["reason"]))
    if run.standing is not None and (ends := run.standing.ends) is not None:
        parts.append(f"done about {_clock(ends.earliest)} to {_clock(ends.latest)}")
    return " · ".join(parts)


def reason_of(standing: Standing | ModelStatus) -> str | None:
    """Return why a job waits, as one sentence without a full stop, with times in UTC."""
    return None if standing.reason is None else reason_sentence(standing.reason)


def moment(at: float) -> str:
    """Return a time as ISO 8601 in UTC, to the second."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
