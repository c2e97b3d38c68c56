"""Those who follow the hosts are told of each change and of nothing else, in virtual time."""

from collections.abc import Mapping
from itertools import pairwise

from queueing.core.snapshot import Residency
from queueing.core.status import HostActivity
from tests.simulation.installation import NO_LIMITS, Installation, ended, host, image_model, until
from tests.simulation.loop import in_virtual_time

Told = list[Mapping[str, HostActivity]]


def installation() -> Installation:
    return Installation.of(
        [image_model("flux", "comfy"), image_model("sdxl", "other")],
        [host("gpu-1", "comfy"), host("gpu-2", "other")],
    )


def done(told: Told, name: str) -> list[str]:
    """Return in short what a host did, in order."""
    shown: list[str] = []
    for state in (states[name] for states in told if name in states):
        copies = {residency for _, _, residency in state.copies}
        short = "run" if state.running else "load" if Residency.LOADING in copies else "idle"
        short = short if state.up else "down" if state.up is False else "unknown"
        if shown[-1:] != [short]:
            shown.append(short)
    return shown


@in_virtual_time
async def test_a_host_is_followed_through_a_load_and_a_job() -> None:
    """A timeline would have gaps, or a GPU would seem to run while it loads."""
    there = installation()
    told: Told = []
    async with there.queue() as queue:
        queue.hosts.subscribe(told.append)
        job = await there.ask(queue, "flux", "cat")
        await ended(queue, job)
    assert done(told, "gpu-1") == ["unknown", "idle", "load", "idle", "run", "idle"]
    assert done(told, "gpu-2") == ["unknown", "idle"]
    (running,) = {state.running for states in told for state in states.values() if state.running}
    assert running == {"flux"}


@in_virtual_time
async def test_nothing_is_told_twice() -> None:
    """Each job would cause a check of every host, although nothing has changed there."""
    there = installation()
    told: Told = []
    async with there.queue() as queue:
        queue.hosts.subscribe(told.append)
        new = [there.new("flux", "cat") for _ in range(5)]
        jobs = [await queue.submitter.submit(each, limits=NO_LIMITS) for each in new]
        await ended(queue, jobs[-1])
    for name, now in queue.hosts.states().items():
        seen = [states[name] for states in told if name in states]
        assert all(before != after for before, after in pairwise(seen))
        assert seen[-1] == now


@in_virtual_time
async def test_a_server_that_was_never_up_is_told_to_be_down() -> None:
    """It would stay unknown until something else happens."""
    there = installation()
    there.servers["other"].up = False
    told: Told = []

    def up() -> bool | None:
        return next(states["gpu-2"].up for states in reversed(told) if "gpu-2" in states)

    async with there.queue() as queue:
        queue.hosts.subscribe(told.append)
        await until(lambda: up() is False)
        there.servers["other"].up = True
        await until(up)
        there.servers["other"].up = False
        await until(lambda: not up())
    assert done(told, "gpu-2") == ["unknown", "down", "idle", "down"]
