"""What a process without the queue knows about it is up to date, in virtual time."""

import asyncio
from pathlib import Path

from bot.platforms.web.operator.dashboard import LOOK_EVERY_S
from tests.bot.app.cluster.holders import Cluster, cluster
from tests.simulation.installation import Installation, host, image_model
from tests.simulation.loop import in_virtual_time

LIVE_S = 1.0  # how far behind an operator's page may be
STEP_S = 0.01


async def known(made: Cluster, *, paused: bool) -> None:
    """Wait until a process without the queue has heard whether its host is paused."""
    async with asyncio.timeout(60.0):
        while made.queue.status.snapshot().hosts[0].paused != paused:  # noqa: ASYNC110  # as a page looks
            await asyncio.sleep(STEP_S)


@in_virtual_time
async def test_a_change_that_no_event_tells_is_known_in_time_for_the_operators_page(
    tmp_path: Path,
) -> None:
    """The operator's page would show an outdated state for seconds."""
    installation = Installation.of(
        [image_model("flux", "comfy")],
        [host("gpu-1", "comfy")],
        url=f"sqlite:///{tmp_path}/usher.db",
    )
    behind: list[float] = []
    async with cluster(installation) as made, made.holder() as queue:
        await made.link.connected()
        for number in range(20):
            await asyncio.sleep(10.0 + number / 9)  # at any moment between two looks
            paused, began = number % 2 == 0, installation.clock.now()
            await (queue.admin.pause if paused else queue.admin.resume)(host="gpu-1")
            await known(made, paused=paused)
            behind.append(installation.clock.now() - began)
    assert max(behind) <= LIVE_S - LOOK_EVERY_S
