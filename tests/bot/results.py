"""A bot with models of every kind, and what people do with its results."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from io import BytesIO
from typing import Any

from PIL import Image

from bot.core.attachments import kind_of
from bot.core.content import Button
from bot.core.platform import Attachment, MessageRef
from queueing.core.jobs import Job
from queueing.core.requests import Capability, Chat, TextToImage
from queueing.core.specs import ModelSpec
from tests.fakes.chat import FakeChat
from tests.simulation.bot_installation import Bot, played
from tests.simulation.installation import Installation, ended, host
from tests.simulation.loop import Inside, run

DRAWS = frozenset({Capability.TEXT_TO_IMAGE, Capability.IMAGE_TO_IMAGE})


def model(name: str, *able: Capability, **fields: Any) -> ModelSpec:
    given: dict[str, Any] = {"load_s": 10.0, "service_s": 5.0, "vram_mb": 2000} | fields
    return ModelSpec(name=name, backends=("comfy",), capabilities=frozenset(able), **given)


FLUX = model("flux", *DRAWS)
LENS = model("lens", Capability.UPSCALE)
QWEN = model("qwen", Capability.TEXT_TO_TEXT, Capability.VISION)
DEAF = model("deaf", Capability.TEXT_TO_TEXT)


@asynccontextmanager
async def bot_with(
    *models: ModelSpec,
    options: frozenset[str] | None = None,
    **fields: Any,
) -> AsyncIterator[Bot]:
    """Run a bot with these models, by default a painter, a lens and a writer."""
    installation = fields.pop("installation", None) or Installation.of(
        models or (FLUX, LENS, QWEN), [host("gpu-1", "comfy")]
    )
    installation.servers["comfy"].options = options
    installation.servers["comfy"].loras = fields.pop("loras", ())
    installation.servers["comfy"].service_s = fields.pop("service_s", 5.0)
    async with played(installation, **fields) as running:
        yield running


def in_bot(*models: ModelSpec, **fields: Any) -> Inside[Bot]:
    """Run a test in a bot as `bot_with` runs it."""
    return Inside(lambda: bot_with(*models, **fields))


def play(scenario: Callable[[Bot], Awaitable[None]], *models: ModelSpec, **fields: Any) -> FakeChat:
    """Play a scenario that several bots are tested with, in one of them; return its chat."""

    async def whole() -> FakeChat:
        async with bot_with(*models, **fields) as running:
            await scenario(running)
        return running.chat

    return run(whole())


async def ask(running: Bot, text: str, user: str = "fake:1", **fields: Any) -> Job | None:
    """Make a call and return the newest job if it made one."""
    before = {job.id for job in await running.queue.deliveries.unacknowledged()}
    await running.dispatcher.call(running.chat.call(text, user=user, **fields))
    new = [job for job in await running.queue.deliveries.unacknowledged() if job.id not in before]
    return new[-1] if new else None


async def done(running: Bot, text: str, user: str = "fake:1", **fields: Any) -> Job:
    """Make a call, wait until its job has ended and is shown, and return it."""
    job = await ask(running, text, user, **fields)
    assert job is not None, running.chat.private
    job = await ended(running.queue, job)
    await asyncio.sleep(10)
    return job


async def press(running: Bot, job: Job, command: str, user: str = "fake:1", **fields: Any) -> Any:
    """Press a button that is under a job's message and return the job it makes."""
    button = next(
        each for each in shown(running, await of(running, job)) if each.command == command
    )
    values = {"id": job.id} | ({"number": button.number} if button.number else {})
    options = fields.pop("options", values)
    ref = await of(running, job)
    call = {"button": True, "options": options, "replied_to": ref} | fields
    return await ask(running, f"/{command}", user, **call)


async def of(running: Bot, job: Job) -> MessageRef:
    sent = await running.records.message(job.id)
    assert sent is not None
    return sent.ref


def shown(running: Bot, ref: MessageRef) -> list[Button]:
    content = running.chat.messages[ref.message].contents[-1]
    return [button for row in content.buttons for button in row]


def attachment(data: bytes, name: str, mime: str, **fields: Any) -> Attachment:
    async def read() -> bytes:
        return data

    given: dict[str, Any] = {"kind": kind_of(name, mime), "size": len(data)} | fields
    return Attachment(name=name, mime=mime, read=read, **given)


def image(side: int = 64) -> Attachment:
    buffer = BytesIO()
    Image.new("L", (side, side)).save(buffer, "PNG")

    return attachment(buffer.getvalue(), "a.png", "image/png")


def drawn(job: Any) -> TextToImage:
    assert job is not None
    assert isinstance(job.request, TextToImage)
    return job.request


def said(job: Any) -> list[tuple[str, str]]:
    assert job is not None
    assert isinstance(job.request, Chat)
    return [(turn.role, turn.text) for turn in job.request.messages]
