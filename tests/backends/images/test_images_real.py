"""A real `sd-server`, started, killed in the middle of an image and started again by the test.

`USHER_SD_SERVER` names the program and `USHER_SD_MODEL` the file of a small model. The tests are
skipped where they are not set.
"""

import asyncio
import os
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backends.images.backend import Images
from queueing.core.errors import Rejected, Unavailable
from queueing.core.specs import BackendSpec
from tests.backends.images.test_images import mask, model, output, photo, side, work
from tests.fakes.ports import free_port
from tests.fakes.servers.real_server import kill

if TYPE_CHECKING:
    from queueing.core.requests import Progress

SERVER = os.environ.get("USHER_SD_SERVER", "")
WEIGHTS = os.environ.get("USHER_SD_MODEL", "")

pytestmark = [
    pytest.mark.external,
    pytest.mark.timeout(900),  # on a CPU
    pytest.mark.skipif(not (SERVER and WEIGHTS), reason="USHER_SD_SERVER and _MODEL not set"),
]


@asynccontextmanager
async def running(port: int, folder: Path) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        *(SERVER, "-m", WEIGHTS, "--lora-model-dir", str(folder), "--cfg-scale", "1", "-t", "1"),
        *("--listen-ip", "127.0.0.1", "--listen-port", str(port)),
        stdout=DEVNULL,
        stderr=DEVNULL,
        stdin=DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        await kill(process)


async def up(backend: Images) -> None:
    """Ask repeatedly, as the queue does, until the server is up."""
    async with asyncio.timeout(300):
        while True:
            try:
                await backend.load(model(Path(WEIGHTS).stem))
            except Unavailable:
                await asyncio.sleep(0.1)
            else:
                return


async def test_a_server_killed_in_the_middle_of_an_image_is_used_again(tmp_path: Path) -> None:
    """A crash of an image server would hang its job, or disable the server until a restart."""
    port, spec = free_port(), model(Path(WEIGHTS).stem)
    backend = Images(BackendSpec(name="p", kind="images", url=f"http://127.0.0.1:{port}"))
    quick: dict[str, Any] = {"width": 64, "height": 64, "steps": 1}
    async with running(port, tmp_path) as process:
        await up(backend)
        seen: asyncio.Queue[Progress] = asyncio.Queue()
        asked = [work(**{**quick, "steps": 200}) for _ in range(2)]
        runs = [asyncio.create_task(backend.run(spec, each, seen.put_nowait)) for each in asked]
        assert (await seen.get()).ahead == 1
        await kill(process)
        for attempt in runs:
            with pytest.raises(Unavailable):
                await attempt
        with pytest.raises(Unavailable):
            await backend.probe()
    async with running(port, tmp_path):
        await up(backend)
        made = await output(backend, work(**quick, count=2, seed=2**64 - 1), spec)
        assert [side(file.data) for file in made.files] == [(64, 64)] * 2
    await backend.aclose()


async def test_images_and_a_mask_are_taken_and_bad_words_are_not(tmp_path: Path) -> None:
    """The server would not behave as its documentation says."""
    port, spec = free_port(), model(Path(WEIGHTS).stem)
    backend = Images(BackendSpec(name="p", kind="images", url=f"http://127.0.0.1:{port}"))
    size: dict[str, Any] = {"width": 128, "height": 64, "steps": 1}
    async with running(port, tmp_path):
        await up(backend)
        for asked in (
            work((photo(),), **{**size, "steps": 2}, strength=0.5),
            work((photo(), photo()), **size, edit=True),
            work((photo(), mask()), **size, edit=True, mask=True),
        ):
            made = await output(backend, asked, spec)
            assert [side(file.data) for file in made.files] == [(128, 64)]
            assert b"Steps" not in made.files[0].data
        with pytest.raises(Rejected):
            await output(backend, work(**size, lora="nothing"), spec)
    await backend.aclose()
