"""What the contract suite of `queueing.core.ports.Backend` needs from each kind of backend.

A kind brings a module `harness_<kind>.py` with `HARNESSES`, servers by name. The suite finds it by
its name and holds each server to every promise, unless it is declared a flavour of another.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from uuid import uuid4

from queueing.core.ports import Backend
from queueing.core.requests import File, Request, Work
from queueing.core.specs import ModelSpec


@dataclass(frozen=True, kw_only=True)
class Harness:
    """A backend with its server, and the requests to test it with.

    `quick` ends soon; `long` runs until it is stopped; `files` belong to both. `absent` passes
    `check` but the server lacks it; `unusable` does not pass. `busy` returns whether the server
    works on anything, `die` kills it. They are None where a kind has no such thing. With
    `remembers`, the server can be asked for an attempt later.
    """

    backend: Backend
    model: ModelSpec
    quick: Request
    long: Request
    busy: Callable[[], Awaitable[bool]]
    files: tuple[File, ...] = ()
    absent: ModelSpec | None = None
    unusable: ModelSpec | None = None
    die: Callable[[], Awaitable[None]] | None = None
    remembers: bool = False

    def work(self) -> Work:
        """Return a new attempt at the quick request."""
        return self.asking(self.quick)

    def long_work(self) -> Work:
        """Return a new attempt at the long request."""
        return self.asking(self.long)

    def asking(self, request: Request) -> Work:
        """Return a new attempt at a request with the same files."""
        return Work(key=str(uuid4()), request=request, files=self.files)


Opens = Callable[[], AbstractAsyncContextManager[Harness]]


@dataclass(frozen=True, kw_only=True)
class Server:
    """A server of the suite, and the promises it is tested with.

    A flavour shares its code with the server named by `flavour_of`, except for the promises in
    `differs`, and is only tested with those. Every other server is tested with all promises.
    """

    opens: Opens
    flavour_of: str | None = None
    differs: frozenset[str] = frozenset()

    def tests(self, promise: str) -> bool:
        """Return whether a promise is tested with this server."""
        return self.flavour_of is None or promise in self.differs


# Promises about listing, loading, unloading and identification: each flavour has its own calls.
CONTROL = frozenset(
    {
        "test_the_server_says_who_it_is",
        "test_a_model_the_server_lacks_is_found_out",
        "test_what_is_asked_for_is_not_held_for_others",
        "test_what_is_discovered_can_be_used",
        "test_what_is_known_already_is_not_discovered_again",
        "test_loading_and_unloading_tell_the_truth",
        "test_a_dead_server_is_unavailable",
    }
)
# Promises of servers that differ in the form of one call, and in how they list and load a model.
FORM = frozenset(
    {
        "test_a_model_the_server_lacks_is_found_out",
        "test_what_is_discovered_can_be_used",
        "test_a_run_reports_and_its_output_can_be_fetched_again",
        "test_loading_and_unloading_tell_the_truth",
        "test_a_dead_server_is_unavailable",
    }
)
# Promises about the translation of a request for the server, and of its answer into a result.
MAKING = frozenset(
    {
        "test_what_a_model_does_not_take_is_known_before_and_refused",
        "test_a_run_reports_and_its_output_can_be_fetched_again",
        "test_runs_may_overlap",
        "test_a_cancelled_run_stops_on_the_server",
    }
)


async def until(condition: Callable[[], Awaitable[bool]], *, within_s: float = 60.0) -> None:
    """Return once a condition holds; fail after `within_s`."""
    async with asyncio.timeout(within_s):
        while not await condition():  # noqa: ASYNC110  # another process cannot signal
            await asyncio.sleep(0.01)
