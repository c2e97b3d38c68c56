"""The queue as used by a process that does not hold it, as long as the process has its own role."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import pytest
from pydantic import ConfigDict, TypeAdapter

from bot.app.cluster.protocol import PARTS, Method, method
from bot.app.cluster.remote_queue import RemoteQueue
from bot.core.platform import ChatLease
from queueing.core.errors import Fenced
from queueing.core.jobs import Job
from queueing.core.requests import File, Output

if TYPE_CHECKING:
    from bot.app.cluster.queue_link import QueueConnection

CAT = File(name="cat.png", mime="image/png", data=b"\x89PNG")


class CountedLink:
    """A link whose calls all return None."""

    def __init__(self) -> None:
        self.calls = 0

    async def call(self, *_given: object) -> None:
        self.calls += 1


class OneCat:
    """Implements `JobFiles`: every job was given, and has made, the same file."""

    async def inputs(self, _job: Job) -> tuple[File, ...]:
        return (CAT,)

    async def output(self, _job: Job) -> Output:
        return Output(files=(CAT,))


class Lease(ChatLease):
    """A role that belongs to this process as long as it is `mine`."""

    mine = True

    @property
    def held(self) -> bool:
        return self.mine


async def test_a_former_holder_asks_the_queue_for_nothing_more() -> None:
    """A request that a frozen process had received would become a job when it wakes up."""
    link, lease = CountedLink(), Lease()
    queue = RemoteQueue(cast("QueueConnection", link), OneCat(), lease)
    await queue.submitter.cancel(1)
    await queue.jobs.get(1)
    lease.mine = False
    requests: tuple[Any, ...] = (queue.submitter.cancel, queue.jobs.get)
    for request in (*requests, queue.jobs.inputs, queue.jobs.output):
        with pytest.raises(Fenced):
            await request(1)
    assert link.calls == 2


async def test_files_are_read_without_the_holder_of_the_queue() -> None:
    """A result above some hundred megabytes could not be delivered, and none during a failover."""
    link, job = CountedLink(), cast("Job", None)
    queue = RemoteQueue(cast("QueueConnection", link), OneCat())
    assert await queue.jobs.inputs(job) == (CAT,)
    assert await queue.jobs.output(job) == Output(files=(CAT,))
    assert not link.calls


def test_no_answer_of_the_holder_carries_files() -> None:
    """A call that is added later could send a video as text in one frame."""
    answers = {f"{each.part}.{each.name}": each.result_kind for each in _calls()}
    assert len(answers) > 20
    assert not [name for name, kind in answers.items() if _has_bytes(kind)]
    assert _has_bytes(Output | None)


def _calls() -> Iterator[Method]:
    for part, protocol in PARTS.items():
        for name in dir(protocol):
            with suppress(LookupError):
                yield method(part, name)


def _has_bytes(kind: Any) -> bool:
    adapter = TypeAdapter(tuple[kind], config=ConfigDict(ser_json_bytes="base64"))
    return "base64" in json.dumps(adapter.json_schema(mode="serialization"))
