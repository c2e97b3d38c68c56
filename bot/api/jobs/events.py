"""`GET /v1/jobs/{id}/events`: reports a job's progress as server-sent events.

Each event is a data line with a `type`: `state`, `place`, `progress`, `preview`, `text` or `done`.
Listeners that connect late receive the latest state. Text is sent from its beginning, or from after
the event named by `Last-Event-ID`, which clients send when they reconnect.
"""

import asyncio
import base64
import json
import re
import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

from aiohttp import web
from pydantic import Field

from bot.api.calls import sse
from bot.api.runs.runs import Run
from bot.api.runs.views import JobView, View, place_of
from queueing.core.concurrency import came
from queueing.core.jobs import JobState

if TYPE_CHECKING:
    from queueing.core.requests import File


class StateEvent(View):
    """The job's state. Sent whenever it changes."""

    type: Literal["state"] = "state"
    state: JobState


class PlaceEvent(View):
    """The job's place in the queue, why it waits, and when it should be done, if known."""

    type: Literal["place"] = "place"
    job: int
    state: JobState
    position: int | None = None
    reason: str | None = None
    ready_at: str | None = None


class ProgressEvent(View):
    """The share of the work that is done, from 0 to 1."""

    type: Literal["progress"] = "progress"
    progress: float | None


class PreviewEvent(View):
    """An unfinished image."""

    type: Literal["preview"] = "preview"
    mime: str
    b64_json: str


class TextEvent(View):
    """The next part of the text. With `again`, the text starts over."""

    type: Literal["text"] = "text"
    text: str
    again: bool | None = None


class DoneEvent(View):
    """The final job. This is the last event."""

    type: Literal["done"] = "done"
    job: JobView


JobEvent = Annotated[
    StateEvent | PlaceEvent | ProgressEvent | PreviewEvent | TextEvent | DoneEvent,
    Field(discriminator="type"),
]


PING_S = 15.0


END = "end"
"""Id of the last event. A program that reconnects with it gets no further events."""
_PROCESS = secrets.token_hex(4)  # each process counts restarts and chunks separately
_ID = re.compile(rf"{_PROCESS}-(\d{{1,9}})-(\d{{1,9}})", re.ASCII)


class JobEvents:
    """Tracks which events of a run one listener has received.

    `last_id` is the id of the last event received on an earlier connection.
    """

    def __init__(self, last_id: str = "") -> None:
        self._state: JobState | None = None
        self._place: dict[str, Any] = {}
        self._fraction: float | None = None
        self._preview: File | None = None
        self._chunks = 0
        self._restarts: int | None = None
        if match := _ID.fullmatch(last_id):
            self._restarts, self._chunks = int(match[1]), int(match[2])
        elif last_id:
            self._restarts = -1

    @property
    def id(self) -> str:
        """The id of the latest event."""
        return f"{_PROCESS}-{self._restarts}-{self._chunks}"

    def news(self, run: Run) -> Iterator[dict[str, Any]]:
        """Yield the events since the last call."""
        if self._restarts not in {None, run.restarts}:
            self._chunks = 0
            yield {"type": "text", "text": "", "again": True}
        self._restarts = run.restarts
        if run.job.state is not self._state:
            self._state = run.job.state
            yield {"type": "state", "state": str(run.job.state)}
        place = place_of(run)
        if run.waits and place != self._place:
            self._place = place
            yield {"type": "place", **place}
        if run.fraction != self._fraction:
            self._fraction = run.fraction
            yield {"type": "progress", "progress": run.fraction}
        if run.preview is not None and run.preview is not self._preview:
            self._preview = run.preview
            data = base64.b64encode(run.preview.data).decode()
            yield {"type": "preview", "mime": run.preview.mime, "b64_json": data}
        yield from self._texts(run)

    def _texts(self, run: Run) -> Iterator[dict[str, Any]]:
        fresh, self._chunks = run.chunks[self._chunks :], len(run.chunks)
        text = "".join(_text(json.loads(chunk)) for chunk in fresh)
        if text:
            yield {"type": "text", "text": text}


def done(view: JobView) -> bytes:
    """Build the last event, with the final state of the job."""
    return f"id: {END}\n".encode() + sse.data({"type": "done", "job": view.model_dump(mode="json")})


async def send(
    response: web.StreamResponse, run: Run, news: asyncio.Event, last_id: str = ""
) -> bool:
    """Send a run's events until it ends, with a comment after each silence of `PING_S`.

    Returns whether the job has ended. If Usher stops first, clients reconnect with the last id.
    """
    told = JobEvents(last_id)
    while True:
        news.clear()
        data = b"".join(sse.data(event) for event in told.news(run))
        if data:
            await response.write(f"id: {told.id}\n".encode() + data)
        if run.job.state.final or run.left:
            return run.job.state.final
        if not await came(news, PING_S):
            await response.write(sse.PING)


def _text(chunk: dict[str, Any]) -> str:
    return str(chunk["choices"][0]["delta"].get("content", ""))
