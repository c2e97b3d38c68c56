"""Names of samplers as people write them, and what a server lists.

Each file of `samplers/` has a name as it is `asked` for and what is `offered`. It has the name to
be `sent`, or one that is `shown` to the person.
"""

from pathlib import Path

import pytest

from backends.comfyui.choices import chosen
from queueing.core.errors import Rejected
from tests.backends.comfyui.drawing import SDXL, SMALL, connect, ignore, work
from tests.fakes.servers.comfyui import FakeComfyUI
from tests.samples import in_turn
from tests.told import words
from tests.wild.cases import cases, read_case

CASES = cases("samplers")


@in_turn("case", CASES)
def test_the_servers_name_is_sent_or_near_ones_are_shown(case: Path) -> None:
    """A person would have to know how each server writes a sampler."""
    odd = read_case(case)
    if "sent" in odd:
        assert chosen("sampler", odd["asked"], odd["offered"]) == odd["sent"]
        return
    with pytest.raises(Rejected) as refused:
        chosen("sampler", odd["asked"], odd["offered"])
    told = words(refused.value)
    assert odd["asked"] in told
    assert odd["shown"] in told


async def test_sampler_scheduler_and_guidance_reach_the_graph() -> None:
    """A server would draw with the values of the template."""
    wish = {"sampler": "Euler", "scheduler": "Normal", "guidance": 3.0}
    async with FakeComfyUI() as fake:
        comfy = connect(fake)
        try:
            assert wish.keys() <= (comfy.options(SDXL) or frozenset())
            await (await comfy.run(SDXL, work(SMALL.model_copy(update=wish)), ignore))()
            sent = fake.posts[-1]["prompt"]["sampler"]["inputs"]
            assert (sent["sampler_name"], sent["scheduler"], sent["cfg"]) == ("euler", "normal", 3)
            odd = work(SMALL.model_copy(update={"sampler": "eulr"}))
            with pytest.raises(Rejected) as refused:
                await comfy.run(SDXL, odd, ignore)
        finally:
            await comfy.aclose()
    assert words(refused.value) == "This server has no sampler named eulr; it has: euler."
