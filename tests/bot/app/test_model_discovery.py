"""When servers are asked for the models they offer, in virtual time."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from bot.app.local_queue import AGAIN_S, EMPTY_AGAIN_S, ModelDiscovery
from queueing.core.errors import Unavailable
from queueing.core.specs import ModelSpec
from tests.simulation.installation import Installation, host, image_model, until
from tests.simulation.loop import in_virtual_time


class Listing:
    """A server's list of models; `error` is the error that an answer fails with."""

    def __init__(self) -> None:
        self.offered = [image_model("flux", "one")]
        self.error: Exception | None = None
        self.asked_at: list[float] = []

    async def discover(self, known: Sequence[ModelSpec] = ()) -> tuple[ModelSpec, ...]:
        self.asked_at.append(asyncio.get_running_loop().time())
        if self.error is not None:
            raise self.error
        named = {model.name for model in known}
        return tuple(each for each in self.offered if each.name not in named)


def offering() -> Installation:
    gpu = host("gpu", "one", "two")
    servers = tuple(replace(each, discover=each.name == "one") for each in gpu.backends)
    return Installation.of([image_model("sdxl", "two")], [replace(gpu, backends=servers)])


@in_virtual_time
async def test_a_server_that_comes_later_is_asked_as_soon_as_it_answers() -> None:
    """A person would start the server, ask, and be told for a minute that no model can do that."""
    there, listing = offering(), Listing()
    there.servers["one"].up = False
    listing.error = Unavailable("no route")
    async with there.queue() as queue:
        discovery = ModelDiscovery(queue.models, {"one": listing})  # type: ignore[dict-item]
        queue.hosts.subscribe(discovery.on_hosts)
        task = asyncio.create_task(discovery.run())
        await discovery.looked.wait()
        await until(lambda: listing.asked_at)
        listing.error = None
        there.servers["one"].up = True
        came_at = asyncio.get_running_loop().time()
        await until(lambda: "flux" in queue.models.offer.catalog.models)
        assert asyncio.get_running_loop().time() - came_at < AGAIN_S / 2
        task.cancel()


@in_virtual_time
async def test_servers_that_answer_are_asked_once_a_minute() -> None:
    """With each change of any host, every server would list all it has."""
    there, listing = offering(), Listing()
    async with there.queue() as queue:
        discovery = ModelDiscovery(queue.models, {"one": listing})  # type: ignore[dict-item]
        queue.hosts.subscribe(discovery.on_hosts)
        task = asyncio.create_task(discovery.run())
        await discovery.looked.wait()
        there.servers["two"].up = False
        await asyncio.sleep(20)
        there.servers["two"].up = True
        await asyncio.sleep(AGAIN_S * 2)
        assert len(listing.asked_at) == 3
        listing.offered.append(image_model("wan", "one"))
        discovery.ask_again()
        await until(lambda: "wan" in queue.models.offer.catalog.models)
        assert len(listing.asked_at) == 4
        task.cancel()


@in_virtual_time
async def test_the_first_model_of_an_empty_server_is_offered_within_seconds() -> None:
    """An operator would download a first model and be told for a minute that there is none."""
    there, listing = offering(), Listing()
    (flux,) = listing.offered
    listing.offered = []
    async with there.queue() as queue:
        discovery = ModelDiscovery(queue.models, {"one": listing})  # type: ignore[dict-item]
        task = asyncio.create_task(discovery.run())
        await discovery.looked.wait()
        await asyncio.sleep(AGAIN_S * 3 + 1)
        listing.offered = [flux]
        came_at = asyncio.get_running_loop().time()
        await until(lambda: "flux" in queue.models.offer.catalog.models)
        assert asyncio.get_running_loop().time() - came_at <= EMPTY_AGAIN_S + 1
        asked = len(listing.asked_at)
        await asyncio.sleep(AGAIN_S * 2)
        assert len(listing.asked_at) <= asked + 2  # as all others from now on
        task.cancel()
