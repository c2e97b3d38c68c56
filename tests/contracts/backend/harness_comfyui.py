"""ComfyUI for the backend contract: two versions of the fake, and a real one if named.

`USHER_COMFYUI_URL` names a running server and `USHER_COMFYUI_CHECKPOINT` one of its checkpoints,
best a small one (default: the first it offers).
"""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from PIL import Image

from backends.comfyui.backend import ComfyUI
from backends.comfyui.workflow.graph.nodes import Asked
from backends.media import videos
from backends.media.helper.pixels import as_png
from queueing.core.requests import (
    Capability,
    File,
    TextToAudio,
    TextToImage,
    TextToVideo,
)
from queueing.core.specs import BackendSpec, ModelSpec
from tests.backends.comfyui.workflow import graphs
from tests.backends.comfyui.workflow.graphs import Nodes
from tests.contracts.backend.backend_harness import MAKING, Harness, Opens, Server
from tests.fakes.servers.comfyui import FakeComfyUI

URL = os.environ.get("USHER_COMFYUI_URL", "")


def model(
    checkpoint: str = "sd_xl_base_1.0.safetensors", *, workflow: str = "sdxl.json"
) -> ModelSpec:
    """Return a model drawn by the shipped SDXL templates."""
    return ModelSpec(
        name="sdxl",
        backends=("comfy",),
        capabilities=frozenset({Capability.TEXT_TO_IMAGE, Capability.IMAGE_TO_IMAGE}),
        options={"workflow": workflow, "values": {"checkpoint": checkpoint}},
    )


async def first_checkpoint(backend: ComfyUI) -> str:
    """Return the first checkpoint that a server offers."""
    offered = [model.options["values"] for model in await backend.discover()]
    return next(
        str(values["checkpoint"])
        for values in offered
        if isinstance(values, dict) and "checkpoint" in values
    )


@asynccontextmanager
async def _fake(*, old: bool) -> AsyncIterator[Harness]:
    async with FakeComfyUI(step_s=0.005, load_s=0.02, old=old) as fake:
        backend = ComfyUI(BackendSpec(name="comfy", kind="comfyui", url=fake.url))

        async def busy() -> bool:
            return fake.busy

        with patch("backends.comfyui.attempts.GRACE_S", 0.2):
            yield Harness(
                backend=backend,
                model=model(),
                quick=TextToImage(prompt="a cat", width=64, height=64, steps=3),
                long=TextToImage(prompt="a cat", width=64, height=64, steps=200),
                busy=busy,
                absent=model("missing.safetensors"),
                unusable=model(workflow="missing.json"),
                die=fake.kill,
                remembers=True,
            )
        await backend.aclose()


@asynccontextmanager
async def _real() -> AsyncIterator[Harness]:
    backend = ComfyUI(BackendSpec(name="comfy", kind="comfyui", url=URL))
    checkpoint = os.environ.get("USHER_COMFYUI_CHECKPOINT") or await first_checkpoint(backend)

    async def busy() -> bool:
        return await backend._server.running() is not None

    yield Harness(
        backend=backend,
        model=model(checkpoint),
        quick=TextToImage(prompt="a cat", width=64, height=64, steps=3),
        long=TextToImage(prompt="a cat", width=64, height=64, steps=200),
        busy=busy,
        absent=model("missing.safetensors"),
        unusable=model(workflow="missing.json"),
        remembers=True,
    )
    await backend.aclose()


@asynccontextmanager
async def _making(nodes: Nodes, quick: Asked, *files: File) -> AsyncIterator[Harness]:
    """Open a server for videos, sounds or edits, with its own template."""
    made = (b"", b"")
    if videos.available():
        from tests.backends.media.recorded_videos import video  # noqa: PLC0415  # needs the library

        made = (video("mp4"), video("mp3"))
    own = ModelSpec(
        name="own",
        backends=("comfy",),
        capabilities=frozenset({quick.needs(has_files=bool(files))}),
    )
    with TemporaryDirectory() as folder, patch("backends.comfyui.attempts.GRACE_S", 0.2):
        template = Path(folder) / "own.json"
        template.write_text(json.dumps(nodes), encoding="utf-8")
        lacking = Path(folder) / "lacking.json"
        lacking.write_text(template.read_text().replace(".safetensors", ".gone.safetensors"))
        async with FakeComfyUI(step_s=0.005, video=made[0], sound=made[1]) as fake:
            backend = ComfyUI(BackendSpec(name="comfy", kind="comfyui", url=fake.url))

            async def busy() -> bool:
                return fake.busy

            yield Harness(
                backend=backend,
                model=replace(own, options={"workflow": str(template)}),
                quick=quick,
                long=quick.model_copy(update={"steps": 200}),
                busy=busy,
                files=files,
                absent=replace(own, options={"workflow": str(lacking)}),
                unusable=replace(own, options={"workflow": "missing.json"}),
                die=fake.kill,
                remembers=True,
            )
            await backend.aclose()


def _image(colour: str) -> File:
    return File(name="x.png", mime="image/png", data=as_png(Image.new("RGB", (96, 64), colour)))


_IMAGES = tuple(map(_image, ("red", "green", "blue", "white", "black")))
_VIDEO = TextToVideo(prompt="a cat", width=64, height=64, steps=4, seconds=1)

# This version has no calls for a single job: attempts are found and stopped through its queue.
_OLD = frozenset(
    {
        "test_the_server_says_who_it_is",
        "test_runs_may_overlap",
        "test_a_cancelled_run_stops_on_the_server",
        "test_a_cancelled_run_leaves_the_others_alone",
        "test_a_finished_attempt_is_resumed_where_the_server_remembers",
        "test_an_attempt_left_to_its_server_goes_on_and_is_found",
        "test_an_attempt_that_was_stopped_is_none_to_go_on_with",
        "test_a_server_that_dies_ends_its_run",
    }
)
# Other graphs are filled in differently, for loads and for runs, and make other kinds of files.
_GRAPH = MAKING | {
    "test_every_lora_that_is_listed_can_be_asked_for",
    "test_loading_and_unloading_tell_the_truth",
    "test_a_dead_server_is_unavailable",
}


def _graph(nodes: Nodes, quick: Asked, *files: File) -> Server:
    opens = partial(_making, nodes, quick, *files)
    return Server(opens=opens, flavour_of="comfyui", differs=_GRAPH)


_EDIT = TextToImage(prompt="make it winter", edit=True, steps=3)
_MASKED = _EDIT.model_copy(update={"mask": True})
_SONG = TextToAudio(prompt="jazz", lyrics="la", steps=3, seconds=2)

HARNESSES = {
    "comfyui": Server(opens=partial(_fake, old=False)),
    "comfyui-0.3.64": Server(opens=partial(_fake, old=True), flavour_of="comfyui", differs=_OLD),
    "comfyui-edit": _graph(graphs.references(), _EDIT, *_IMAGES[:4]),
    "comfyui-mask": _graph(graphs.masked(), _MASKED, _IMAGES[0], _IMAGES[4]),
}
if videos.available():
    HARNESSES |= {
        "comfyui-video": _graph(graphs.wan(), _VIDEO),
        "comfyui-video-between": _graph(graphs.wan_from_images(), _VIDEO, *_IMAGES[:2]),
        "comfyui-music": _graph(graphs.song(), _SONG),
    }
EXTERNAL: dict[str, Opens] = {"comfyui-real": _real} if URL else {}
