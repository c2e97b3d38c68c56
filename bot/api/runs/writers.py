"""What turns a job's progress and result into the body of an answer, one for each kind of call."""

from collections.abc import Callable
from typing import Protocol

from pydantic import JsonValue

from bot.api.calls.errors import ApiError
from bot.api.runs.runs import Run
from queueing.core.requests import Output

Render = Callable[[Output], JsonValue | bytes]
"""Makes the body of an answer from the output of a job; bytes are JSON already."""


class Writer(Protocol):
    """Turns the progress of a run into the events of one kind of stream."""

    @property
    def begun(self) -> bool:
        """Whether part of the answer has been sent, so that it cannot start over."""

    def news(self, run: Run) -> bytes:
        """Return events for the next of what is new since the last call; empty if there is nothing."""

    def place(self, run: Run) -> bytes:
        """Return an event with the place in line."""

    def keeping(self) -> bytes:
        """Return an event that only keeps the client from giving up."""

    def closing(self, output: Output) -> bytes:
        """Return the end of a complete answer, with all parts that have not been sent."""

    def failing(self, error: ApiError) -> bytes:
        """Return the end of a stream that failed; clients must not take it for an answer."""
