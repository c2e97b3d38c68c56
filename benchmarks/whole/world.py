"""What surrounds the measured bot: a chat without limits and servers that answer at once."""

import asyncio
import io
import time
from dataclasses import dataclass, field

from PIL import Image

from bot.core.content import Content, Markdown
from bot.core.platform import ChatLimits
from queueing.core.ports import Fetch, Report
from queueing.core.requests import File, Output, TextToImage, Work
from queueing.core.specs import BackendSpec, ModelSpec
from tests.fakes.chat import FakeChat
from tests.fakes.servers.backend import FakeBackend, FakeGpu, FakeServer

NO_LIMITS = ChatLimits(
    text=100_000,
    caption=100_000,
    upload=1_000_000_000,
    image=1_000_000_000,
    download=1_000_000_000,
    edit_every_s=0.0,
    chat_every_s=0.0,
    overall_per_s=1_000_000.0,
    pings=False,
)


def drawn_image() -> bytes:
    """Return a small image."""
    made = io.BytesIO()
    Image.effect_noise((64, 64), 40.0).save(made, "PNG")
    return made.getvalue()


class Instant(FakeBackend):
    """A server that answers at once, or never if it is the stuck one."""

    def __init__(self, spec: BackendSpec) -> None:
        super().__init__(FakeServer(spec.name, FakeGpu(24_000, 24_000), load_s=0.0))
        self._stuck = spec.name == "stuck"
        self._drawn = Output(files=(File(name="cat.png", mime="image/png", data=drawn_image()),))
        self._written = Output(text="Air scatters blue light more than red.")

    async def run(
        self,
        model: ModelSpec,  # noqa: ARG002  all are alike
        work: Work,
        report: Report,  # noqa: ARG002  it reports no progress
    ) -> Fetch:
        """Finish an attempt at once."""
        if self._stuck:
            await asyncio.get_running_loop().create_future()
        made = self._drawn if isinstance(work.request, TextToImage) else self._written

        async def fetch() -> Output:
            return made

        return fetch


@dataclass
class Asked:
    """One call, and when it was made, accepted, first answered and delivered."""

    at: float
    delivered: asyncio.Event = field(default_factory=asyncio.Event)
    accepted_s: float = 0.0
    first_s: float | None = None


class Chat(FakeChat):
    """A chat that accepts every message at once, and keeps none."""

    def __init__(self) -> None:
        super().__init__("free", limits=NO_LIMITS)
        self._asked: dict[str, Asked] = {}
        self._asked_by: dict[str, Asked] = {}  # by message
        self.requests = 0

    async def ask(self, chat: str, command: str, text: str, *, wait: bool = True) -> Asked:
        """Make one call and wait until its result is shown."""
        while self.handler is None:  # noqa: ASYNC110  the bot is about to start
            await asyncio.sleep(0.01)
        began = time.perf_counter()
        asked = self._asked[chat] = Asked(began)
        call = self.call(f"/{command} {text}", chat=chat, user=f"{self.name}:{chat}")
        await self.handler.call(call)
        asked.accepted_s = time.perf_counter() - began
        if wait:
            await asked.delivered.wait()
        return asked

    def _show(self, number: str, content: Content) -> None:
        self.requests += 1
        asked = self._asked_by.setdefault(number, self._asked[self.messages[number].chat])
        if asked.first_s is None:
            asked.first_s = time.perf_counter() - asked.at
        whole = content.files or any(isinstance(part, Markdown) for part in content.body)
        if whole and content.buttons and content.buttons[0][0].command != "cancel":
            asked.delivered.set()
