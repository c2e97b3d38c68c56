"""Image servers for the backend contract: a fake of each flavour, and a real one if named.

`USHER_IMAGES_URL` names a running `sd-server` and `USHER_IMAGES_MODEL` one of its models (default:
the first it offers), which should draw small images in a few quick steps.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from backends.common.http import Http
from backends.common.http_replies import HttpRefused
from backends.images.backend import Images
from queueing.core.requests import Capability, TextToImage
from queueing.core.specs import BackendSpec, ModelSpec
from tests.contracts.backend.backend_harness import CONTROL, MAKING, Harness, Opens, Server
from tests.fakes.servers.painters import KINDS, painting

if TYPE_CHECKING:
    from pydantic import JsonValue

URL = os.environ.get("USHER_IMAGES_URL", "")


def painter(name: str = "alpha", **options: str | int) -> ModelSpec:
    """Return a model of an image server."""
    return ModelSpec(
        name=name,
        backends=("p",),
        capabilities=frozenset({Capability.TEXT_TO_IMAGE}),
        options=options,
    )


@asynccontextmanager
async def _fake(kind: str) -> AsyncIterator[Harness]:
    async with painting(kind) as fake:
        fake.step_s = 0.005
        backend = Images(BackendSpec(name="p", kind="images", url=fake.url))
        wanted = {} if kind == "generic" else {"steps": 200}

        async def busy() -> bool:
            return fake.running > 0

        await backend.load(painter())
        yield Harness(
            backend=backend,
            model=painter(),
            quick=TextToImage(prompt="a cat", width=64, height=64),
            long=TextToImage.model_validate({"prompt": "a cat forever", **wanted}),
            busy=busy,
            absent=painter("gamma"),
            unusable=painter(steps=-1),
            die=fake.stop,
        )
        await backend.aclose()


@asynccontextmanager
async def _real() -> AsyncIterator[Harness]:
    backend = Images(BackendSpec(name="p", kind="images", url=URL))
    server = Http(URL)
    offered = (await backend.discover())[0].options["model"]
    model = painter("real", model=os.environ.get("USHER_IMAGES_MODEL") or str(offered))

    async def busy() -> bool:
        """Post another job: it waits behind the one that draws, or begins at once."""
        wanted: JsonValue = {
            "prompt": "busy?",
            "width": 64,
            "height": 64,
            "sample_params": {"sample_steps": 1},
        }
        posted = await server.post_json("/sdcpp/v1/img_gen", wanted)
        assert isinstance(posted, dict)
        try:
            await server.post_json(f"/sdcpp/v1/jobs/{posted['id']}/cancel", {})
        except HttpRefused as begun:
            if begun.status == HTTPStatus.CONFLICT:
                return False
            raise
        return True

    await backend.load(model)
    yield Harness(
        backend=backend,
        model=model,
        quick=TextToImage(prompt="a cat", width=64, height=64, steps=1),
        long=TextToImage(prompt="a cat", width=64, height=64, steps=20),
        busy=busy,
        absent=painter("no-such-model"),
        unusable=painter(steps=-1),
    )
    await backend.aclose()
    await server.aclose()


# They draw with OpenAI's calls and some additional fields; their control calls differ.
_OPENAI_LIKE = {"localai", "vllm-omni"}


def _server(kind: str) -> Server:
    opens = partial(_fake, kind)
    if kind in _OPENAI_LIKE:
        return Server(opens=opens, flavour_of="images-generic", differs=CONTROL | MAKING)
    return Server(opens=opens)


HARNESSES = {f"images-{kind}": _server(kind) for kind in KINDS}
EXTERNAL: dict[str, Opens] = {"images-real": _real} if URL else {}
