"""The events of a job as a program receives them, each a data line of `GET /v1/jobs/{job}/events`."""

from typing import Annotated, Literal

from pydantic import Field

from bot.api.runs.views import JobView, View
from queueing.core.jobs import JobState


class StateEvent(View):
    """The job's state, when it changes."""

    type: Literal["state"] = "state"
    state: JobState


class PlaceEvent(View):
    """The job's place in line, why it waits and when it will be done, as far as known."""

    type: Literal["place"] = "place"
    job: int
    state: JobState
    position: int | None = None
    reason: str | None = None
    ready_at: str | None = None


class ProgressEvent(View):
    """How much of the work is done, from 0 to 1."""

    type: Literal["progress"] = "progress"
    progress: float | None


class PreviewEvent(View):
    """An unfinished picture."""

    type: Literal["preview"] = "preview"
    mime: str
    b64_json: str


class TextEvent(View):
    """More of the text; with `again`, the text starts over."""

    type: Literal["text"] = "text"
    text: str
    again: bool | None = None


class DoneEvent(View):
    """The job's final state; the last event."""

    type: Literal["done"] = "done"
    job: JobView


JobEvent = Annotated[
    StateEvent | PlaceEvent | ProgressEvent | PreviewEvent | TextEvent | DoneEvent,
    Field(discriminator="type"),
]
